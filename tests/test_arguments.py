"""Argument checks: what counts as a whole number, and what the error says."""

import re

import numpy as np
import pytest

from pagedkv.arguments import listed, one_of, whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.prefix_cache import PrefixCache
from pagedkv.simulation.arena import Arena
from pagedkv.simulation.policies import GrowByCopy, Oracle, Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import Request


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


@pytest.mark.parametrize("call", [BlockPool, Paged, lambda n: Paged(4, n)])
def test_more_blocks_than_a_table_can_number_are_refused(call):
    with pytest.raises(ValueError, match=r"must be a whole number of at least 1 and at most 2147483647, not 10{30}"):
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
