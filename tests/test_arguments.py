"""Argument checks: what counts as a whole number, and what the error says."""

import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pagedkv
from pagedkv.arguments import command, flag, installed, listed, one_of, shown, whole_number
from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.engine.request import Sampling
from pagedkv.model_config import kv_layers
from pagedkv.prefix_cache import PrefixCache, hash_blocks
from pagedkv.simulation.arena import Arena
from pagedkv.simulation.experiment import run
from pagedkv.simulation.policies import GrowByCopy, Oracle, Paged
from pagedkv.simulation.sharing import SharedRequest, share_saved
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import Request, length_table, load_trace, sample_requests
from pagedkv.sizing import WindowedShape


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_any_kind_come_back_as_python_ints(value):
    number = whole_number("n", value)
    assert number == 3 and type(number) is int


@pytest.mark.parametrize(
    "value", [True, np.True_, np.array(True), 3.0, np.float32(3), "3", None, [3], np.array([1, 2]), int]
)
def test_everything_else_is_a_type_error_that_names_the_argument(value):
    with pytest.raises(TypeError, match=re.escape(f"block_size must be a whole number of at least 1, not {value!r}")):
        whole_number("block_size", value, 1)


def test_the_range_includes_both_ends():
    assert [whole_number("n", n, 1, 3) for n in (1, 3)] == [1, 3]
    for outside in (0, 4):
        with pytest.raises(ValueError, match=f"n must be a whole number of at least 1 and at most 3, not {outside}"):
            whole_number("n", outside, 1, 3)


@pytest.mark.parametrize("value", ["best", None, 1, ["first"]])
def test_one_of_lists_what_is_allowed(value):
    assert one_of("fit", "first", ("first", "next")) == "first"
    with pytest.raises(ValueError, match=re.escape(f"fit must be one of 'first', 'next', not {value!r}")):
        one_of("fit", value, ("first", "next"))


def test_an_iterable_of_any_kind_becomes_a_list_and_its_own_errors_stay():
    assert listed("ids", (i for i in range(3)), "block ids") == [0, 1, 2]
    with pytest.raises(TypeError, match="ids must be an iterable of block ids, not None"):
        listed("ids", None, "block ids")
    with pytest.raises(TypeError, match="unsupported operand"):
        listed("ids", (None + i for i in range(3)), "block ids")


@pytest.mark.parametrize("value", [None, 3, True, np.int64(3), 1.5, object()])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("ids", lambda value: BlockPool(4).free(value)),
        ("owners", lambda value: BlockPool(4).check([value])),
        ("owners", lambda value: BlockPool(4).check(0 if value is None else value)),
        ("blocks", lambda value: BlockTable(BlockPool(4), value)),
        ("pool", lambda value: PrefixCache(value)),
        ("token_ids", lambda value: PrefixCache(BlockPool(4)).match(value)),
        ("blocks", lambda value: PrefixCache(BlockPool(4)).insert([1], value)),
        ("requests", lambda value: simulate(value, Oracle(Arena(8)), 8)),
        ("request", lambda value: Oracle(Arena(8)).admit(value)),
        ("request", lambda value: GrowByCopy(Arena(8), 2).admit(value)),
        ("request", lambda value: Paged(8).admit(value)),
    ],
)
def test_what_should_be_an_iterable_or_an_object_of_ours_is_named(name, call, value):
    with pytest.raises(TypeError, match=f"^{name} must be an? "):
        call(value)


@pytest.mark.parametrize("call", [BlockPool, Paged, lambda n: Paged(4, n), lambda n: BlockPool(4, n)])
def test_more_blocks_than_a_table_can_number_are_refused_and_blocks_too_large_for_a_list_of_slots(call):
    allowed = r"a whole number of at least 1 and at most (2147483647|1048576)"
    with pytest.raises(ValueError, match=rf"must be {allowed}, not 10{{30}}"):
        call(10**30)


def test_numpy_numbers_become_plain_ones():
    request = Request(np.int64(0), np.float32(0.5), np.int32(2**31 - 1), np.int32(5))
    assert request.total_tokens == 2**31 + 4
    assert [type(value) for value in (request.request_id, request.arrival_s, request.prompt_tokens)] == [
        int,
        float,
        int,
    ]
    pool = BlockPool(4)
    table = BlockTable(pool, np.array(pool.allocate(2)))
    assert [type(number) for number in (*table.blocks, *table.translate(20))] == [int] * 6


class Silent:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize("value", [10**5000, Silent(), [0] * 10**6], ids=["huge", "silent", "long"])
def test_a_value_that_is_long_or_cannot_be_written_does_not_fill_the_sentence(value):
    assert len(shown(value)) < 250
    with pytest.raises(
        (TypeError, ValueError), match="^n must be a whole number of at least 0 and at most 3, not .*"
    ) as e:
        whole_number("n", value, 0, 3)
    assert len(str(e.value)) < 300
    assert len(str(OutOfBlocks(value, 3))) < 300


def test_a_flag_is_true_or_false_and_nothing_that_counts_as_such():
    assert flag("x", np.True_) is True and flag("x", False) is False
    for value in (1, 0, "no", None, np.array([True]), [False]):
        with pytest.raises(TypeError, match="x must be True or False, not "):
            flag("x", value)


WAITING = [Request(i, 0.0, 8, 8) for i in range(9)]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("start", lambda: PrefixCache(BlockPool(4, 4)).insert([1] * 4, [0], start="0")),
        ("block_size", lambda: list(hash_blocks([1], 0))),
        ("parent", lambda: list(hash_blocks([1], 4, parent="abc"))),
        ("owners", lambda: BlockPool(4).check([[0.0]])),
        ("num_blocks", lambda: BlockTable(BlockPool(4)).skip(2**63)),
        ("windows", lambda: WindowedShape((), 2, 8)),
        ("dtype", lambda: kv_layers({1: 2, "quantization_config": {3: 4}})),
        ("switch", lambda: SharedRequest(BlockPool(4), 4, 2, switch="often")),
        ("seed", lambda: share_saved(WAITING, 2, concurrent=2, seed=None)),
        ("requests", lambda: share_saved([1] * 9, 2, concurrent=2)),
        ("requests", lambda: share_saved(3, 2)),
        ("rate", lambda: sample_requests("sharegpt", 3, rate=1e-300)),
        ("policy", lambda: run("sharegpt", "best")),
        ("path", lambda: load_trace("a\0b")),
        ("skip_empty", lambda: load_trace("trace.csv", skip_empty=1)),
    ],
)
def test_every_argument_is_looked_at_before_it_is_used(name, call):
    with pytest.raises((TypeError, ValueError), match=f"^{name} (must|is missing)"):
        call()


def test_what_was_refused_holds_no_block():
    pool = BlockPool(8, 4)
    for wrong in (0, 1.5, None):
        with pytest.raises((TypeError, ValueError), match="num_sequences"):
            SharedRequest(pool, 8, wrong)
    assert pool.num_free == 8


def test_a_factor_beyond_every_float_grows_as_far_as_there_is_room():
    policy = GrowByCopy(Arena(64), initial=2, factor=1e308)
    policy.admit(Request(0, 0.0, 5, 5))
    assert policy.held[0].requested == 64


def test_a_table_of_lengths_is_a_copy():
    length_table("sharegpt")["prompt"].clear()
    assert length_table("sharegpt")["prompt"]


def test_numbers_of_numpy_do_not_overflow_later():
    sampling = Sampling(np.uint8(200), np.float32(0.5), np.int64(3), np.int32(4))
    assert [type(value) for value in vars(sampling).values()] == [int, float, int, int]
    assert 100 + sampling.max_new_tokens == 300


@pytest.mark.parametrize("command", ["engine", "bench", "bench.engine", "bench.preemption", "bench.tuning"])
def test_a_command_without_pytorch_ends_with_the_sentence_that_names_the_cure(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it raises ModuleNotFoundError
    file = Path(pagedkv.__file__).parent / command.replace(".", "/")
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(file / "__main__.py" if file.is_dir() else file.with_suffix(".py")), run_name="__main__")
    assert re.match(
        r"torch(, \w+)* (is|are) not installed: run `pip install -r requirements.txt -e .` in ", left.value.code
    )


def test_what_is_missing_is_named_and_what_is_there_is_not():
    installed("json", "pytest")
    with pytest.raises(SystemExit, match="^no_such_a, no_such_b are not installed: "):
        installed("json", "no_such_a", "no_such_b")


@pytest.mark.parametrize(
    ("gives", "status", "words"),
    [
        (lambda: None, 0, ""),
        (lambda: {"a": 1}, 0, ""),
        (lambda: 3, 3, ""),
        (lambda: Path("/no/such/a").write_text(""), 1, "[Errno 2] No such file or directory: '/no/such/a'"),
        (lambda: os.kill(os.getpid(), signal.SIGINT), 130, "interrupted"),
    ],
)
def test_a_command_ends_with_a_status_and_at_most_a_sentence(gives, status, words, capsys):
    with pytest.raises(SystemExit) as left:
        command(gives)
    told = left.value.code if isinstance(left.value.code, str) else capsys.readouterr().err.strip()
    assert (left.value.code == status or status == 1) and told == words


@pytest.mark.skipif(os.name == "nt", reason="pipes close otherwise there")
@pytest.mark.parametrize(
    "words", [["pagedkv.course.points"], ["pagedkv.engine", "a", "--tokens", "3"]], ids=lambda words: words[0]
)
def test_who_has_read_enough_sees_no_traceback(words):
    out, into = os.pipe()
    os.close(out)  # as `head` does, but before the first line
    ended = subprocess.run([sys.executable, "-m", *words], stdout=into, stderr=subprocess.PIPE, text=True)
    os.close(into)
    assert ended.returncode == 1 and ended.stderr == ""
