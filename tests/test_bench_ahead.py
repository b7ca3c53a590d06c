"""Compiling for a GPU that is not here: what comes back, and what is said where it fails. And the record of settings,
of which the lesson's numbers come.
"""

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytest.importorskip("torch")

from pagedkv.bench import ahead, tuning  # noqa: E402
from pagedkv.bench.report import recorded  # noqa: E402

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")


@needs_triton
@pytest.mark.thorough  # lesson 4.5 compiles too
def test_a_launch_becomes_registers_shared_memory_and_products():
    launches = [{"rung": 0}, {"rung": 2}, {}, {"tile": 128, "num_warps": 1, "num_stages": 3}]
    plain, packed, used, spilling = ahead.compile_ahead("d", launches)
    assert [kernel.kernel for kernel in (plain, packed, used)] == ["rung0_kernel", "rung2_kernel", "decode_kernel"]
    assert plain.products == plain.copies == 0 and packed.products and packed.copies
    tile = 2 * 64 * 128 * 2  # bytes of K and V
    assert all(32 <= kernel.registers <= 255 and kernel.stack == 0 for kernel in (plain, packed, used))
    assert tile <= used.shared < 2 * tile
    assert spilling.registers == 255 and spilling.stack > 0 and spilling.warps == 1 and spilling.shared > 4 * tile


@needs_triton
@pytest.mark.thorough
def test_a_part_of_a_sequence_and_an_fp8_cache_compile_too():
    (split,) = ahead.compile_ahead("a", [{"split_tokens": 256}])
    (pairs,) = ahead.compile_ahead("d8", [{}])
    (older,) = ahead.compile_ahead("d", [{}], capability=80)
    assert split.kernel == pairs.kernel == older.kernel == "decode_kernel"


def test_what_a_child_cannot_do_is_one_sentence():
    with pytest.raises(RuntimeError, match=r"compiling ahead ended with 1: .*No module named"):
        ahead.in_child(["pagedkv.bench.nowhere"])
    with pytest.raises(RuntimeError, match="more than 0 s"):
        ahead.in_child(["timeit", "-n", "1", "-r", "1", "import time; time.sleep(9)"], seconds=0.3)


def test_without_triton_a_sentence_says_so(monkeypatch):
    monkeypatch.setattr(ahead, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="Linux only"):
        ahead.compile_ahead("d", [{}])


def test_the_parent_imports_no_triton():
    code = "import sys, pagedkv.bench.ahead; print('triton' in sys.modules or 'torch' in sys.modules)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.stdout.strip() == "False"


def test_a_profile_keeps_the_last_launch_of_each_kernel():
    names = ["ID", "Kernel Name", *tuning.COUNTERS[:2], "other"]
    rows = [["0", "decode_kernel", "1,000.5", "2", "x"], ["1", "merge_kernel", "3", "4", "no data"]]
    rows.append(["2", "decode_kernel", "7", "8", ""])
    text = "==PROF== connected\n" + "\n".join(
        ",".join(f'"{word}"' for word in row) for row in [names, ["", "", "ns", "byte/s", ""], *rows]
    )
    first, second = tuning.COUNTERS[:2]
    assert tuning.counters(text) == {"decode_kernel": {first: 7, second: 8}, "merge_kernel": {first: 3, second: 4}}


def test_the_record_has_every_setting_and_no_wrong_answer():
    record = recorded("tuning_h200")
    everything = {(t, w, s) for t in tuning.TILES for w in tuning.WARPS for s in tuning.STAGES}
    for case in tuning.CASES:
        rows = record["settings"][case]
        assert {(row["tile"], row["num_warps"], row["num_stages"]) for row in rows} == everything
        assert all(row["error"] < 5e-3 and row["spread"] < 0.01 for row in rows)
        assert record["ways"][case]["first call"] > 10 * record["ways"][case]["graph, rotated tensors"]
    assert set(record["profiles"]) == {"a", "d"}
