"""The benchmark on small shapes: it must count bytes rightly, refuse to time a wrong output, record what it ran on."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pagedkv.attention.reference import attention  # noqa: E402
from pagedkv.bench import data as bench_data  # noqa: E402
from pagedkv.bench import flashinfer_peers, prefill_sweep, report, sweep, timing  # noqa: E402
from pagedkv.bench.__main__ import main  # noqa: E402
from pagedkv.bench.cases import GRID, HELD_OUT, MAIN, Case, even, named, parse, ragged, shrunk  # noqa: E402
from pagedkv.bench.data import contiguous, error, make, reference  # noqa: E402
from pagedkv.bench.flashinfer_peers import FLASHINFER, ROUNDED  # noqa: E402
from pagedkv.bench.peers import PEERS, Unsupported, index_put, ours, sdpa  # noqa: E402
from pagedkv.bench.run import accuracy, measure_case  # noqa: E402
from pagedkv.bench.timing import Timing, measure, measure_in_turns  # noqa: E402

CPU = torch.device("cpu")
PAGED = ("FlashInfer, tensor cores", "FlashInfer, XQA", "cuDNN, paged")
SMALL = Case("small", (5, 17, 1), q_heads=6, kv_heads=2, head_dim=16, block_size=4, cache="fp32")


def test_bytes_and_operations_are_what_the_shapes_say():
    assert GRID["d"].bytes == 64 * 2048 * 8 * 128 * 2 * 2 == 536_870_912
    assert GRID["d8"].bytes * 2 == GRID["d"].bytes
    assert GRID["w64"].bytes == 2 * 64 * 8 * 128 * 2 * 2
    prefill = even("p", 2, 5, queries=3, q_heads=2, kv_heads=1, head_dim=16)
    visible = sum(key <= 5 - 3 + query for query in range(3) for key in range(5))
    assert prefill.flops == 2 * visible * 2 * 2 * 16 * 2  # two products, a multiplication and an addition each


def test_the_grid_has_every_case_once_and_the_held_out_shapes_are_others():
    assert set(MAIN) <= set(GRID) and not set(GRID) & set(HELD_OUT)
    assert all(name == case.name for name, case in (GRID | HELD_OUT).items())
    shapes = [replace(case, name="") for case in (GRID | HELD_OUT).values()]
    assert len(shapes) == len(set(shapes))


def test_ragged_lengths_are_the_same_every_time_and_reach_both_ends():
    lengths = ragged("f", 64, 8192).lengths
    assert lengths == ragged("f", 64, 8192).lengths
    assert 1 <= min(lengths) < 500 and 7500 < max(lengths) <= 8192


def test_a_shape_is_parsed_with_and_without_its_defaults():
    assert replace(parse("64x2048"), name="d") == GRID["d"]
    assert replace(parse("64x2048,32/8,64,32"), name="") == even("", 64, 2048, head_dim=64, block_size=32)


@pytest.mark.parametrize("text", ["64", "64x", "64x2048,32", "64x2048,32/8,128,16,1", "0x2048", "64x2048,32/0", "axb"])
def test_a_shape_that_makes_no_sense_is_refused(text):
    with pytest.raises(ValueError, match="must be"):
        parse(text)


def test_an_unknown_case_lists_the_known():
    with pytest.raises(ValueError, match="'l32'.*'o1'"):
        named("z")


def test_data_is_shuffled_and_each_block_is_used_once():
    data = make(even("x", 4, 30, q_heads=2, kv_heads=1, head_dim=16, block_size=4, cache="fp32"), CPU)
    used = data.block_tables[data.block_tables >= 0].tolist()
    assert sorted(used) != used and len(set(used)) == len(used) == 4 * 8


@pytest.mark.parametrize("queries", [1, 3, (5, 1, 2)])
def test_the_reference_is_standard_attention_in_float64(queries):
    case = replace(SMALL, lengths=(5, 17, 3), queries=queries)
    data = make(case, CPU)
    q = data.q[0].double().split(case.new_tokens)
    parts = [attention(q[row], *contiguous(data, 0, row, torch.float64)) for row in range(3)]
    torch.testing.assert_close(reference(data, 0), torch.cat(parts), rtol=1e-12, atol=1e-12)


def test_of_a_large_case_some_rows_are_checked_the_last_of_each_sequence_among_them(monkeypatch):
    case = replace(SMALL, lengths=(50, 17, 30), queries=(50, 1, 20))
    data = make(case, CPU)
    everything = reference(data, 0)
    monkeypatch.setattr(bench_data, "CHECKED_FLOPS", 0)
    monkeypatch.setattr(bench_data, "CHECKED", 12)
    rows = bench_data.checked_rows(case)
    assert [row[-1] for row in rows] == [49, 0, 19] and [len(row) for row in rows] == [4, 1, 4]
    torch.testing.assert_close(reference(data, 0), bench_data.checked(everything, case))


def test_an_error_that_is_not_finite_is_infinite():
    right = torch.ones(3, dtype=torch.float64)
    assert error(right, right) == 0 and error(right.float() * 1.5, right) == pytest.approx(0.5)
    assert (
        error(torch.tensor([1.0, float("nan"), 1.0]), right)
        == error(torch.tensor([1.0, float("inf"), 1.0]), right)
        == float("inf")
    )


def test_wrong_unsupported_and_broken_implementations_are_not_timed():
    def unsupported(data):
        raise Unsupported("not today")

    def broken(data):
        raise RuntimeError("no\nkernel in /home/somebody/x.cu")

    def off_by_one(data):  # reads one token too few
        lengths = data.seq_lens - 1
        return lambda i: ours("torch")(replace(data, seq_lens=lengths))(i)

    def poisoned(data):
        return lambda i: torch.full_like(data.q[i], float("nan"))

    everyone = {
        "pagedkv": ours("torch"),
        "unsupported": unsupported,
        "broken": broken,
        "off by one": off_by_one,
        "nan": poisoned,
    }
    record = measure_case(SMALL, everyone, CPU, 1)
    assert set(record["results"]) == {"pagedkv"} and record["results"]["pagedkv"]["error"] < 1e-5
    assert record["left_out"]["unsupported"] == "not today"
    assert record["failed"]["broken"] == "RuntimeError: no kernel in"
    assert record["failed"]["off by one"].startswith("wrong") and record["failed"]["nan"] == "wrong: inf from float64"


def test_every_kind_of_case_runs_on_a_cpu():
    for name in ("f", "g", "j1", "k", "d8", "p", "w64"):
        case = shrunk(GRID[name], tokens=40, batch=3)
        record = measure_case(
            case, {"pagedkv": ours("torch"), "SDPA, contiguous": sdpa, "index_copy_": index_put}, CPU, 1
        )
        peer = "index_copy_" if name == "w64" else "SDPA, contiguous"
        assert set(record["results"]) == {"pagedkv"} | ({peer} if case.equal_lengths and name != "d8" else set()), (
            record["left_out"]
        )


def test_a_write_to_the_wrong_slot_is_caught_and_undone():
    def shifted(data):
        return lambda i: ours("torch")(replace(data, slots=(data.slots + 1) % 16))(i)

    def nothing(data):
        return lambda i: None

    case = Case("w", (8,), kv_heads=2, head_dim=16, block_size=4, cache="fp32", kind="write")
    record = measure_case(case, {"shifted": shifted, "pagedkv": ours("torch"), "nothing": nothing}, CPU, 1)
    assert set(record["results"]) == {"pagedkv"} and set(record["failed"]) == {"shifted", "nothing"}


def test_shares_are_of_the_ceiling_at_that_size():
    class Ceilings:
        def read_us(self, num_bytes):
            return num_bytes / 1e3

    record = measure_case(SMALL, {"pagedkv": ours("torch")}, CPU, 1, Ceilings())
    timing = record["results"]["pagedkv"]
    assert record["ceiling_us"] == SMALL.bytes / 1e3
    assert timing["share"] == pytest.approx(record["ceiling_us"] / timing["us"])
    assert timing["gb_s"] == pytest.approx(SMALL.bytes / timing["us"] / 1e3)


def test_a_timing_walks_over_the_copies_and_reports_its_spread():
    seen = []
    timing = measure(seen.append, 3, CPU, runs=2)
    assert set(seen) == {0, 1, 2} and len(timing.runs_us) == 2
    assert Timing(10.0, [9.0, 10.0, 11.0]).spread == pytest.approx(0.1)


def test_a_timing_is_the_median_of_its_runs_medians(monkeypatch):
    """On a clock that this test sets: the calls of the two runs take 1, 1, 10 and 3, 3, 20 µs."""
    seconds = iter(1e-6 * np.cumsum([x for took in (1, 1, 10, 3, 3, 20) for x in (0, took)]))
    monkeypatch.setattr("pagedkv.bench.timing.time.perf_counter", lambda: next(seconds))
    timing = measure(lambda copy: None, 1, CPU, runs=2)
    assert timing.runs_us == pytest.approx([1, 3]) and timing.us == pytest.approx(2)


def test_several_are_timed_in_turns():
    """So that a spell in which the machine is slow meets all of them."""
    seen = []
    calls = {name: lambda copy, name=name: seen.append((name, copy)) for name in ("ours", "theirs")}
    timings = measure_in_turns(calls, 2, CPU, runs=2)
    once_each = [("ours", 0), ("theirs", 0)]
    assert seen == once_each + 6 * [*once_each, ("ours", 1), ("theirs", 1)]
    assert {name: len(timing.runs_us) for name, timing in timings.items()} == {"ours": 2, "theirs": 2}


def test_a_gpu_replays_in_turns_and_settles_first(monkeypatch):
    """On a card that this test stands in for: it is slow in the first replays, and a call of "theirs" takes 2 µs."""
    clock, seen = [0.0], []

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            self.at = clock[0]

        def elapsed_time(self, other):
            return other.at - self.at  # ms

    def captured(call, copies, once=False):
        def replay():
            seen.append(call)
            clock[0] += call * 0.1 + 5.0 * (len(seen) <= 2 * timing.SETTLING)

        return SimpleNamespace(replay=replay), 100  # calls

    monkeypatch.setattr(timing, "captured", captured)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    timings = measure_in_turns({"ours": 1, "theirs": 2}, 4, torch.device("cuda"), runs=2)
    assert seen == [1, 2] * (timing.SETTLING + 2 * timing.REPLAYS)
    assert {name: found.us for name, found in timings.items()} == pytest.approx({"ours": 1.0, "theirs": 2.0})
    assert timings["ours"].runs_us == pytest.approx([1.0, 1.0]) and timings["ours"].host_us is None


def test_the_mean_takes_the_peers_better_variant_and_each_case_once():
    records = [
        {
            "case": "a",
            "kind": "decode",
            "results": {"pagedkv": {"us": 10.0}, "FlashInfer, x": {"us": 20.0}, "FlashInfer, y": {"us": 90.0}},
        },
        {"case": "b", "kind": "decode", "results": {"pagedkv": {"us": 10.0}, "FlashInfer, x": {"us": 5.0}}},
        {"case": "j1", "kind": "decode", "results": {"pagedkv": {"us": 10.0}, "FlashInfer, x": {"us": 500.0}}},
        {"case": "c", "kind": "decode", "results": {"pagedkv": {"us": 10.0}}},
    ]
    assert report.mean_ratio(records, "FlashInfer") == pytest.approx(1.0)
    assert report.ratios(records, "FlashInfer") == {"a": 2.0, "b": 0.5} and list(
        report.ratios(records, "FlashInfer", ["j1"])
    ) == ["j1"]
    assert report.mean_ratio(records, "nobody") is None


def test_errors_by_dtype_grow_as_the_dtype_shrinks():
    rows = {row["dtype"]: row for row in accuracy(CPU, batch=2, length=300)}
    assert rows["fp32"]["pagedkv"] < 1e-6 < rows["fp16"]["pagedkv"] < rows["bf16"]["pagedkv"] < 1e-2
    assert all(row["pagedkv"] < 2 * row["contiguous"] + 1e-6 for row in rows.values())


def test_the_command_prints_a_table_and_writes_a_record(tmp_path, capsys):
    arguments = [
        "--device",
        "cpu",
        "--runs",
        "1",
        "--case",
        "w64",
        "--shape",
        "2x64,4/2,16,4",
        "--out",
        str(tmp_path / "x" / "record.json"),
    ]
    main(arguments)
    printed = capsys.readouterr().out
    assert "No CUDA device" in printed and "w64: 64 tokens" in printed and "SDPA, contiguous" in printed
    record = json.loads((tmp_path / "x" / "record.json").read_text(encoding="utf-8"))
    assert record["provenance"]["command"] == "python -m pagedkv.bench " + " ".join([*arguments[:-1], "record.json"])
    assert {"date", "torch", "triton", "python"} <= set(record["provenance"])
    assert [case["case"] for case in record["cases"]] == ["w64", "2x64,4/2,16,4"]


def test_random_shapes_are_the_same_for_a_seed_and_lie_within_their_bounds():
    cases = sweep.random_cases(3, 40)
    assert cases == sweep.random_cases("3", 40) and cases[0].lengths != sweep.random_cases(4, 1)[0].lengths
    assert all(4 << 20 <= case.bytes <= 8 << 30 and len(case.lengths) <= 256 for case in cases)
    assert {case.head_dim for case in cases} == {64, 128} and 10 < sum(case.equal_lengths for case in cases) < 30


def test_random_prefills_are_the_same_for_a_seed_and_of_every_kind():
    cases = prefill_sweep.random_prefills(3, 40)
    assert cases == prefill_sweep.random_prefills("3", 40)
    assert all(1e9 <= case.flops <= 5e12 and len(case.lengths) <= 64 and not case.is_decode for case in cases)
    assert all(new <= length for case in cases for new, length in zip(case.new_tokens, case.lengths, strict=True))
    assert {case.name.split()[1] for case in cases} == set(prefill_sweep.KINDS)
    assert any(case.queries == case.lengths for case in cases)


def test_a_sweep_of_prefills_counts_by_peer_and_by_kind():
    us = {"1.0 prompts": (10.0, 9.8, 5.0), "1.1 mixed": (10.0, 9.0, 20.0)}
    results = {case: dict(zip((report.OURS, "FA2", "FA3"), times, strict=True)) for case, times in us.items()}
    records = [
        {"case": case, "failed": {}, "results": {name: {"us": time} for name, time in times.items()}}
        for case, times in results.items()
    ]
    found = prefill_sweep.summary(records)
    assert found["against FA2"] | {"mean": 0} == {"of": 2, "good": 1, "least": pytest.approx(0.9), "mean": 0}
    assert found["against FA3, mixed"] == {"of": 1, "good": 1, "least": 2.0, "mean": pytest.approx(2.0)}
    assert found["wrong"] == [] and "against FA2, chunks" not in found


def test_a_sweep_counts_where_ours_is_fast_enough():
    def record(name, tokens, **us):
        shape = {"case": name, "batch": 4, "tokens": tokens, "longest": 100, "failed": {}}
        return shape | {"results": {who: {"us": time} for who, time in us.items()}}

    ours, none, (paged, xqa, cudnn), sdpa = sweep.OURS, sweep.NO_PLAN, PAGED, report.SDPA
    records = [
        record("a", 400, **{ours: 10.0, none: 12.0, paged: 9.8, xqa: 11.0, sdpa: 8.0}),
        record("b", 200, **{ours: 10.0, none: 9.0, paged: 30.0, cudnn: 20.0}),
        record("c", 120, **{ours: 10.0}),
    ]
    found = sweep.summary(records)
    assert [sweep.regime(entry) for entry in records] == ["equal", "ragged", "very ragged"]
    assert found["fastest peer"] == {paged: 1, cudnn: 1}
    assert found["against paged peers, equal"]["least"] == pytest.approx(0.98)
    assert found["against paged peers, ragged"]["of"] == 1 and "against paged peers, very ragged" not in found
    assert found["against paged peers"] | {"mean": 0} == {"of": 2, "good": 2, "least": pytest.approx(0.98), "mean": 0}
    assert found["against all"] | {"mean": 0} == {"of": 2, "good": 1, "least": pytest.approx(0.8), "mean": 0}
    assert found["against no plan"] == {
        "of": 2,
        "good": 1,
        "least": pytest.approx(0.9),
        "mean": pytest.approx((1.2 * 0.9) ** 0.5),
    }
    assert found["wrong"] == [] and found["cases"] == 3


def test_every_paged_kernel_in_use_is_a_peer_of_the_sweep_and_of_the_grid():
    assert set(PAGED) < set(FLASHINFER) < set(PEERS) and set(ROUNDED) < set(PEERS)


@pytest.mark.parametrize("name", FLASHINFER)
def test_a_peer_says_why_it_does_not_serve_a_case(name, monkeypatch):
    small = replace(SMALL, block_size=16)
    write = replace(small, kind="write")
    served, other = (
        (replace(small, queries=1), write) if "FA" not in name else (replace(small, lengths=(5, 9), queries=2), small)
    )
    monkeypatch.setattr(flashinfer_peers, "find_spec", lambda _: None)
    with pytest.raises(Unsupported, match="is not installed|bf16"):
        FLASHINFER[name](make(served, CPU, copies=1))
    for case in (other, write):
        with pytest.raises(Unsupported, match="decode only|prefill only"):
            FLASHINFER[name](make(case, CPU, copies=1))


@pytest.mark.parametrize(
    ("name", "case", "why"),
    [
        ("FlashInfer, XQA", SMALL, "blocks of 16, 32, 64, 128 only"),
        ("FlashInfer, CUDA cores", replace(SMALL, q_heads=10), "group size"),
        ("cuDNN, paged", replace(SMALL, cache="fp8"), "bf16 and fp16"),
        ("cuDNN, paged", replace(SMALL, cache="bf16"), "front end"),
    ],
)
def test_what_a_peers_kernel_does_not_take_is_left_out(name, case, why, monkeypatch):
    monkeypatch.setattr(flashinfer_peers, "find_spec", lambda what: None if what == "cudnn" else "there")
    with pytest.raises(Unsupported, match=why):
        FLASHINFER[name](make(case, CPU, copies=1))


def test_a_module_that_was_not_compiled_ahead_is_left_out(monkeypatch):
    class MissingJITCacheError(RuntimeError):
        pass

    def missing(*_, **__):
        raise MissingJITCacheError("not found")

    decode = SimpleNamespace(trtllm_batch_decode_with_kv_cache=missing)
    monkeypatch.setitem(sys.modules, "flashinfer", SimpleNamespace(decode=decode))
    monkeypatch.setitem(sys.modules, "flashinfer.jit", SimpleNamespace(MissingJITCacheError=MissingJITCacheError))
    monkeypatch.setattr(flashinfer_peers, "has_flashinfer", lambda: True)
    monkeypatch.setattr(flashinfer_peers, "WORKSPACE", 16)
    with pytest.raises(Unsupported, match="not compiled ahead"):
        FLASHINFER["FlashInfer, XQA"](make(replace(SMALL, block_size=16), CPU, copies=1))


def test_a_peer_that_multiplies_in_fp8_is_held_to_a_bound_of_its_own():
    def off(by):
        return lambda data: lambda i: reference(data, i) * (1 + by)

    names = dict.fromkeys(("FlashInfer, XQA", "another"), off(0.03))
    for cache, passed in (("fp8", {"FlashInfer, XQA"}), ("fp32", set())):
        record = measure_case(replace(SMALL, cache=cache), names, CPU, 1, host=())
        assert set(record["results"]) == passed and set(record["failed"]) == set(names) - passed


def test_a_sweep_on_a_cpu_writes_a_record_and_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    record = main(
        ["--device", "cpu", "--runs", "1", "--sweep", "5", "--shapes", "2", "--out", str(tmp_path / "s.json")]
    )
    assert len(record["cases"]) == 2 and record["summary"]["wrong"] == []
    assert (tmp_path / "s.png").stat().st_size > 1000 and "against no plan" in capsys.readouterr().out


def test_a_sweep_of_prefills_on_a_cpu_answers_rightly(capsys):
    record = main(["--device", "cpu", "--runs", "1", "--prefill", "--sweep", "5", "--shapes", "2"])
    assert len(record["cases"]) == 2 and record["summary"]["wrong"] == [] and "5.1" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_ours_is_timed_against_the_ceiling():
    record = main(["--case", "a", "--runs", "1"])
    timing = record["cases"][0]["results"]["pagedkv"]
    assert 0 < timing["share"] < 1.05 and timing["host_us"] > timing["replay_us"] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        "--case zzz",
        "--shape 2x16,0/8",
        "--shape 2x16,3/8",
        "--runs 0",
        "--shapes -3",
        "--device nonsense",
        "--out .",
        "--case p --cache fp8",
    ],
)
def test_what_cannot_be_measured_or_written_is_said_at_once(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert "error: " in capsys.readouterr().err


def test_a_disk_that_fills_up_leaves_what_was_measured_on_the_screen(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "replace", full)
    with pytest.raises(SystemExit, match="is not written: No space left on device"):
        report.write(tmp_path / "record.json", {})
