"""Lesson 4.4: what its checks accept and refuse, what an offset that overflows does, and what its pictures count."""

import functools
import importlib.util
import math
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
from exercise_rules import NONSENSE, exercise_tests
from picture_rules import assert_legible, assert_to_scale, heights, strokes, widths
from widget_rules import widget_tests

from pagedkv.course.draw import style
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_4_4 import exercises, far_kernel, merging, pictures, widgets

torch = pytest.importorskip("torch")

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "4.4-masking": {
        "0 → ...": "a hidden token's block is not read",
        "0.0 → ...": "a hidden key's score is replaced, and a hidden value has weight 0: any finite number serves",
    },
    "4.4-offsets": {
        "exact + 2 ** (bits - 1) → exact - 2 ** (bits - 1)": "they differ by 2**bits, which the remainder drops"
    },
    "4.4-merge": {
        "0.0 → ...": "any finite base serves where nothing was visible",
        "1.0 → ...": "where the total is 0, any divisor gives the output 0",
    },
}


# Exercises

KERNEL = """
import pagedkv.attention.triton
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, table_ptr, out_ptr, length, BLOCK: tl.constexpr, TILE: tl.constexpr, DIM: tl.constexpr):
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + dims)
    m, l, o = float("-inf"), 0.0, tl.zeros([DIM], tl.float32)
    for start in range(0, LENGTH, TILE):
        positions = start + tl.arange(0, TILE)
        visible = positions < length
        blocks = tl.load(table_ptr + positions // BLOCK, mask=visible, other=0)
        at = (blocks * BLOCK + positions % BLOCK)[:, None] * DIM + dims[None, :]
        LOADS
        scores = tl.where(visible, tl.sum(q[None, :] * k, 1), float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, 0))
        p = tl.exp(scores - m_new)
        shrink = tl.exp(m - m_new)
        l = l * shrink + tl.sum(p, 0)
        o = o * shrink + tl.sum(PRODUCT, 0)
        m = m_new
    tl.store(out_ptr + dims, o / l)
"""

MASKED = "; ".join(f"{x} = tl.load({x}_ptr + at, mask=visible[:, None], other=0.0)" for x in "kv")
UNMASKED = "k = tl.load(k_ptr + at); v = tl.load(v_ptr + at)"
PRODUCT = "p[:, None] * v"


def kernel(folder, loads=MASKED, product=PRODUCT, length="length", **replaced):
    """KERNEL with these lines, as a module of its own, since Triton reads a kernel's source."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    text = KERNEL.replace("LOADS", loads).replace("PRODUCT", product).replace("LENGTH", length)
    for old, new in replaced.get("lines", {}).items():
        assert old in text
        text = text.replace(old, new)
    file = folder / "learner.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("learner", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


RIGHT_KERNELS = {
    "both masked": {},
    "K masked without other": {"loads": MASKED.replace(", other=0.0", "", 1)},
    "table masked without other": {"lines": {", mask=visible, other=0)": ", mask=visible)"}},
    "only V masked": {"loads": "k = tl.load(k_ptr + at); v = tl.load(v_ptr + at, mask=visible[:, None], other=0.0)"},
    "V replaced": {"loads": UNMASKED, "product": "tl.where(visible[:, None], p[:, None] * v, 0.0)"},
    "positions clamped": {
        "loads": UNMASKED,
        "lines": {
            "positions % BLOCK": "tl.minimum(positions, length - 1) % BLOCK",
            "positions // BLOCK, mask=visible, other=0": "tl.minimum(positions, length - 1) // BLOCK",
        },
    },
}

WRONG_KERNELS = {
    "V masked without other": (
        {"loads": MASKED.replace("mask=visible[:, None], other=0.0)", "visible[:, None])")},
        "a load with a mask but no `other` leaves what it hides undefined",
    ),
    "table without other, K not masked": (
        {
            "loads": "k = tl.load(k_ptr + at); v = tl.load(v_ptr + at, visible[:, None], 0.0)",
            "lines": {", mask=visible, other=0)": ", mask=visible)"},
        },
        "outside of the pool",
    ),
    "only the first tile masked": (
        {"loads": MASKED.replace("visible[:, None]", "(visible | (start > 0))[:, None]")},
        "NaN or infinity",
    ),
    "K masked in place of V": (
        {"loads": "k = tl.load(k_ptr + at, mask=visible[:, None], other=0.0); v = tl.load(v_ptr + at)"},
        "0 · NaN is NaN",
    ),
    "other as a score": (
        {"loads": MASKED.replace("other=0.0", 'other=float("-inf")')},
        "NaN or infinity",
    ),
    "scores only": ({"loads": UNMASKED}, "0 · NaN is NaN"),
    "weights times V, masked by a product": (
        {"loads": UNMASKED, "product": "p[:, None] * v * visible[:, None]"},
        "0 · NaN is NaN",
    ),
    "only NaN replaced": ({"loads": UNMASKED + "; v = tl.where(v == v, v, 0.0)"}, "NaN or infinity"),
    "one slot too many": ({"lines": {"positions < length": "positions <= length"}}, "NaN or infinity"),
    "one slot too few": ({"lines": {"positions < length": "positions < length - 1"}}, "not that of attention"),
    "last tile left out": ({"length": "length // TILE * TILE"}, "NaN or infinity|not that of attention"),
    "hidden scores of 0": (
        {"lines": {'float("-inf"))\n        m_new': "0.0)\n        m_new"}},
        "not that of attention",
    ),
    "mask by block": (
        {"lines": {"positions < length": "positions // BLOCK <= (length - 1) // BLOCK"}},
        "NaN or infinity",
    ),
    "table and K not masked": (
        {
            "loads": "k = tl.load(k_ptr + at); v = tl.load(v_ptr + at, visible[:, None], 0.0)",
            "lines": {", mask=visible, other=0)": ")"},
        },
        "outside of the pool",
    ),
    "table not masked": ({"lines": {", mask=visible, other=0)": ")"}}, "past the block table"),
    "does not run": (
        {"loads": "k = tl.load(k_ptr + at); v = missing"},
        "raises NameError (name 'missing' is not defined)",
    ),
    "a mask of another shape": ({"loads": MASKED.replace("visible[:, None]", "visible")}, "raises ValueError ("),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a wrong kernel may divide 0 by 0
@pytest.mark.parametrize("change", RIGHT_KERNELS.values(), ids=RIGHT_KERNELS)
def test_a_mended_kernel_passes(change, tmp_path):
    assert check("4.4-masking", kernel(tmp_path, **change)).points == 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a wrong kernel may divide 0 by 0
@pytest.mark.parametrize(("change", "sentence"), WRONG_KERNELS.values(), ids=WRONG_KERNELS)
def test_a_faulty_kernel_is_told_what_is_wrong(change, sentence, tmp_path, capsys):
    assert check("4.4-masking", kernel(tmp_path, **change)).points < 3
    assert any(piece in capsys.readouterr().out for piece in sentence.split("|"))


def test_a_kernel_with_its_lines_missing_is_not_attempted(tmp_path, capsys):
    assert check("4.4-masking", kernel(tmp_path, loads="...")).points == 0
    assert capsys.readouterr().out.count("not attempted  ") == 3
    assert check("4.4-masking", None).points == 0  # what the notebook hands over where Triton is missing


def test_something_that_is_no_kernel_gets_a_sentence(capsys):
    assert [nonsense for nonsense in NONSENSE if check("4.4-masking", nonsense).points] == []
    assert "Traceback" not in capsys.readouterr().out
    for form, words in ((lambda *inputs: 0, "not a function"), ({}, "not a dict"), (7, "not a whole number")):
        check("4.4-masking", form)
        assert f"a kernel is expected, a function under @triton.jit, {words}." in capsys.readouterr().out


# Offsets


def with_numpy(block_id, slot, head, dim, block_size, num_kv_heads, head_dim, bits):
    kind = {32: np.int32, 64: np.int64}[bits]
    with np.errstate(over="ignore"):
        row = np.array([block_id], kind) * kind(block_size) + kind(slot)
        return (((row * kind(num_kv_heads) + kind(head)) * kind(head_dim)) + kind(dim))[0]


def by_hand(block_id, slot, head, dim, block_size, num_kv_heads, head_dim, bits):
    value = block_id * block_size * num_kv_heads * head_dim + slot * num_kv_heads * head_dim + head * head_dim + dim
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def search(block_size, num_kv_heads, head_dim):
    per_block = block_size * num_kv_heads * head_dim
    return next(block for block in range(2**31 // per_block - 2, 2**32) if (block + 1) * per_block - 1 >= 2**31)


def exact(*case):
    return exercises.offset(*case[:-1], 64)


WRONG_OFFSETS = {
    "never wraps": ((exact, search), "nothing wraps here"),
    "unsigned": ((lambda *c: exact(*c) % 2 ** c[-1], search), "an unsigned register"),
    "clamped": ((lambda *c: min(exact(*c), 2 ** (c[-1] - 1) - 1), search), "the number is too"),
    "bytes": ((lambda *c: exact(*c) * 2, search), "in bytes"),
    "head before slot": (
        (lambda b, s, h, d, B, H, D, n: exercises.offset(b, h, s, d, H, B, D, n), search),
        "slot comes before the head",
    ),
    "head and slot change places": (
        (lambda b, s, h, d, B, H, D, n: exercises.offset(b, h, s, d, B, H, D, n), search),
        "the number is too",
    ),
    "one head a slot": (
        (
            lambda b, s, h, d, B, H, D, n: with_numpy(b, 0, 0, 0, B, H, D, 64) + s * D + h * D + d,
            search,
        ),
        "a slot holds num_kv_heads heads",
    ),
    "where the block starts": (
        (lambda b, s, h, d, B, H, D, n: exercises.offset(b, 0, 0, 0, B, H, D, n), search),
        "that is where the block starts",
    ),
    "wraps once": (
        (lambda *c: exact(*c) - 2**32 if c[-1] == 32 and exact(*c) >= 2**31 else exact(*c), search),
        "2³² is taken off once",
    ),
    "the first that starts beyond": (
        (by_hand, lambda *c: -(-(2**31) // math.prod(c))),
        "the one before may already hold",
    ),
    "no head": (
        (lambda b, s, h, d, B, H, D, n: exercises.offset(b, s, 0, d, B, H, D, n), search),
        "the number is too small",
    ),
    "a float": ((lambda *c: float(exercises.offset(*c)), search), "a whole number is expected"),
    "all 32 bits": ((by_hand, lambda *c: 2**32 // math.prod(c)), "half of the 32-bit range"),
    "one too small": ((by_hand, lambda *c: search(*c) - 1), "still fits"),
    "counts bytes": ((by_hand, lambda *c: search(*c) // 2), "not bytes"),
    "division with a fraction": ((by_hand, lambda *c: 2**31 / math.prod(c)), "use // where"),
}


# The merge


def one_after_the_other(outputs, lses):
    out, lse = outputs[0].clone(), lses[0].clone()
    for other, other_lse in zip(outputs[1:], lses[1:], strict=True):
        both = torch.logaddexp(lse, other_lse)
        base = torch.where(both == -math.inf, 0.0, both)
        out = out * torch.exp(lse - base)[:, None] + other * torch.exp(other_lse - base)[:, None]
        lse = both
    return out, lse


def by_softmax(outputs, lses):
    weights = torch.nan_to_num(torch.softmax(lses, 0))
    return torch.einsum("sh,shd->hd", weights, outputs), torch.logsumexp(lses, 0)


def as_a_list(outputs, lses):
    return list(merging.merge(outputs, lses))


def sums_in_float32(outputs, lses):
    lse = torch.logsumexp(lses, 0)
    merged = torch.zeros(outputs.shape[1:])
    for output, part in zip(outputs, lses, strict=True):
        merged += torch.nan_to_num(torch.exp(part - lse))[:, None] * output
    return merged, lse


def no_maximum(outputs, lses):
    weights = lses.exp()
    return (weights[..., None] * outputs).sum(0) / weights.sum(0)[:, None], weights.sum(0).log()


def no_guard(outputs, lses):
    weights = torch.exp(lses - lses.amax(0))
    return (weights[..., None] * outputs).sum(0) / weights.sum(0)[:, None], lses.amax(0) + weights.sum(0).log()


def one_maximum_for_all_heads(outputs, lses):
    """The largest lse of all heads is subtracted: a head far below it loses all its weights."""
    top = lses.max() if lses.isfinite().any() else torch.tensor(0.0)
    weights = torch.exp(lses - top)
    total = weights.sum(0)
    output = (weights[..., None] * outputs).sum(0) / torch.where(total == 0, 1.0, total)[..., None]
    return output, top + total.log()


def a_divisor_of_at_least_one(outputs, lses):
    """Guards 0 / 0 by a divisor that may not fall below 1, right where the largest lse was subtracted only."""
    weights = lses.exp()
    total = weights.sum(0)
    return (weights[..., None] * outputs).sum(0) / total.clamp(min=1.0)[..., None], total.log()


def test_scores_in_the_thousands_by_hand():
    outputs, lses = torch.tensor([[[1.0]], [[3.0]]]), torch.tensor([[4000.0], [4000.0]])
    merged, lse = merging.merge(outputs, lses)
    assert (merged.item(), lse.item()) == (2.0, pytest.approx(4000 + math.log(2)))
    assert no_maximum(outputs, lses)[0].isnan() and no_maximum(outputs, lses)[1].isinf()


@pytest.mark.parametrize("answer", [no_maximum])
def test_who_subtracts_no_maximum_is_not_told_of_a_guard_only(answer, capsys):
    check("4.4-merge", answer)
    assert "0 / 0" not in capsys.readouterr().out


def in_place_merge(outputs, lses):
    outputs *= torch.nan_to_num(torch.softmax(lses, 0))[..., None]
    return outputs.sum(0), torch.logsumexp(lses, 0)


WRONG_MERGES = {
    "mean": (lambda o, lse: (o.mean(0), torch.logsumexp(lse, 0)), "counts alike"),
    "sum": (lambda o, lse: (o.sum(0), torch.logsumexp(lse, 0)), "averages already"),
    "not normalised": (
        lambda o, lse: ((lse.exp()[..., None] * o).sum(0), torch.logsumexp(lse, 0)),
        "divided by the sum",
    ),
    "largest lse": (lambda o, lse: (by_softmax(o, lse)[0], lse.amax(0)), "the output is right"),
    "lse to base 2": (lambda o, lse: (by_softmax(o, lse)[0], torch.logsumexp(lse, 0) / math.log(2)), "to base 2"),
    "over heads": (
        lambda o, lse: ((torch.softmax(lse, 1)[..., None] * o).sum(0), torch.logsumexp(lse, 0)),
        "the weights are normalised over the heads",
    ),
    "no maximum": (no_maximum, "e^lse overflows above 88"),
    "no guard": (no_guard, "NaN or infinity where no part saw anything"),
    "two parts only": (lambda o, lse: by_softmax(o[:2], lse[:2]), "only the first two parts are merged"),
    "in turn, each time the mean": (
        lambda o, lse: (functools.reduce(lambda a, b: (a + b) / 2, o), torch.logsumexp(lse, 0)),
        "the last part counts half here",
    ),
    "weights are lses": (
        lambda o, lse: ((lse[..., None] * o).sum(0) / lse.sum(0)[..., None], torch.logsumexp(lse, 0)),
        "a part's weight is e^lse, not its lse",
    ),
    "the maximum is not added back": (
        lambda o, lse: (by_softmax(o, lse)[0], (lse - lse.amax(0)).exp().sum(0).log()),
        "the largest lse that was subtracted is missing",
    ),
    "lses added": (lambda o, lse: (by_softmax(o, lse)[0], lse.sum(0)), "what is added are the sums"),
    "one maximum for all heads": (one_maximum_for_all_heads, "subtract the largest lse of each head"),
    "a divisor that is never small": (a_divisor_of_at_least_one, "the divisor is kept from falling below 1"),
    "only the output": (lambda o, lse: by_softmax(o, lse)[0], "a tuple (output, lse) is expected, not a tensor"),
    "changes its input": (in_place_merge, "changes its input"),
    "base 2": (
        lambda o, lse: (torch.einsum("sh,shd->hd", torch.softmax(lse * math.log(2), 0), o), torch.logsumexp(lse, 0)),
        "weights are e^lse, not 2^lse",
    ),
}


# Time from bytes


def in_seconds(lengths, num_kv_heads, head_dim, dtype_bytes, gb_s):
    seconds = 2 * dtype_bytes * num_kv_heads * head_dim * sum(lengths) / (gb_s * 10**9)
    return seconds * 1e6


def by_numpy(lengths, num_kv_heads, head_dim, dtype_bytes, gb_s):
    return np.asarray(lengths).sum() * np.float64(2 * num_kv_heads * head_dim * dtype_bytes) / (gb_s * 1000)


WRONG_PREDICTIONS = {
    "padded": ((lambda n, *rest: in_seconds([max(n)] * len(n), *rest), 1, 4), "nothing is padded"),
    "K alone": ((lambda *c: in_seconds(*c) / 2, 1, 4), "K and V are read"),
    "ms": ((lambda *c: in_seconds(*c) / 1e3, 1, 4), "in ms"),
    "seconds": ((lambda *c: in_seconds(*c) / 1e6, 1, 4), "in seconds"),
    "GiB": ((lambda *c: in_seconds(*c) / 2**30 * 1e9, 1, 4), "is a GiB"),
    "longest only": ((lambda n, *rest: in_seconds([max(n)], *rest), 1, 4), "the longest sequence alone"),
    "a token of each": ((lambda n, *rest: in_seconds([1] * len(n), *rest), 1, 4), "one token of each sequence"),
    "the mean length": (
        (lambda n, *rest: in_seconds([sum(n) / len(n)], *rest), 1, 4),
        "one sequence of the mean length",
    ),
    "query heads halve": ((in_seconds, 0.5, 4), "nothing becomes faster"),
    "KV heads count twice": ((in_seconds, 1, 16), "each in proportion to the KV heads"),
    "no head_dim": ((lambda n, h, d, b, g: in_seconds(n, h, 1, b, g), 1, 4), "too small"),
    "query heads count": ((in_seconds, 2, 4), "share K and V"),
    "KV heads are free": ((in_seconds, 1, 1), "of its own"),
    "not finite": ((in_seconds, math.nan, 4), "not finite"),
}

RIGHT = {
    "4.4-offsets": [(exercises.offset, exercises.first_wrong_block), (with_numpy, search), (by_hand, search)],
    "4.4-merge": [merging.merge, one_after_the_other, by_softmax, as_a_list, sums_in_float32],
    "4.4-predict": [(exercises.predict_us, 1.0, 4.0), (in_seconds, 1, 4), (by_numpy, np.float64(1.0), 4)],
}
WRONG = {
    "4.4-offsets": [*WRONG_OFFSETS.values()],
    "4.4-merge": [*WRONG_MERGES.values()],
    "4.4-predict": [*WRONG_PREDICTIONS.values()],
}
WITHOUT_KERNELS = [exercise for exercise in exercises.EXERCISES if exercise.name != "4.4-masking"]

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(WITHOUT_KERNELS, RIGHT, WRONG)


@pytest.mark.parametrize("answer", [None, object()])
def test_a_kernel_is_not_judged_without_triton(answer, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "triton", None)
    assert check("4.4-masking", answer).points == 0
    assert "needs Triton (Linux)" in capsys.readouterr().out


# The kernel that really overflows


def test_a_kernel_with_wide_offsets_reads_beyond_two_to_the_31_and_one_with_narrow_ones_does_not():
    wide, narrow = far_kernel.read_far(64), far_kernel.read_far(32)
    if wide.startswith("skipped"):
        pytest.skip(wide)
    assert wide == "it reads 3.0, which is right"
    assert narrow.startswith("the process dies") or narrow.endswith("wrong")


@pytest.mark.parametrize(
    ("code", "stderr", "sentence"),
    [
        (-signal.SIGSEGV, "", "the process dies: the address is not its own"),
        (
            1,
            "RuntimeError: CUDA error: an illegal memory access was encountered\nmore",
            "the process dies: the address is not its own",
        ),
        (
            1,
            "Traceback\nImportError: no torch\n",
            "the process ends with 1, but not for its address: ImportError: no torch",
        ),
        (-signal.SIGKILL, "", "the process ends with -9, but not for its address: no message"),
    ],
)
def test_only_a_bad_address_is_called_one(code, stderr, sentence, monkeypatch):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    monkeypatch.setattr(far_kernel, "_free_bytes", lambda: far_kernel.NEEDED)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, code, "", stderr))
    assert far_kernel.read_far(32) == sentence


def test_where_memory_is_short_the_overflow_is_skipped_with_a_sentence(monkeypatch):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    monkeypatch.setattr(far_kernel, "_free_bytes", lambda: 2**30)
    assert far_kernel.read_far(64) == "skipped: it needs 6 GiB of free memory"


# Pictures


def test_packing_counts_the_bytes():
    canvas, alt = pictures.packed_heads(4, 64, 128)
    assert heights(canvas, style.TOKEN) == [28, 28, 28, 28, 3 * 40 + 28]
    assert_legible(canvas.svg(alt))
    assert "4 × 32 KiB read" in canvas.svg("x") and "32 KiB read, one product [4 × 128] · [128 × 64]" in alt


@pytest.mark.parametrize(
    ("addresses", "width", "sectors"),
    [((0, 16), 16, {0}), ((31,), 2, {0, 1}), ((0, 4096), 2, {0, 128}), ((), 4, set())],
)
def test_sectors_are_those_that_hold_a_byte(addresses, width, sectors):
    assert pictures.sectors_of(addresses, width) == sectors


def test_the_picture_counts_bytes_wanted_and_fetched():
    canvas, alt = pictures.touched_sectors({"apart": ([0, 64, 128], 8), "together": (range(0, 64, 2), 2)})
    svg = canvas.svg("x")
    assert "apart: 24 bytes wanted, 3 sectors" in alt
    assert "24 bytes wanted, 3 sectors = 96 bytes fetched: 25 % of use" in svg
    assert "64 bytes wanted, 2 sectors = 64 bytes fetched: 100 % of use" in svg
    sector = widths(canvas, style.FREE)
    assert sector == [sector[0]] * 5
    assert widths(canvas, style.TOKEN) == pytest.approx([sector[0] / 4] * 3 + [sector[0]] * 2)
    assert strokes(canvas) == {style.HIGHLIGHT: 2}
    assert_legible(svg)


def test_splits_cover_every_token_once_and_only_the_last_is_short():
    draw = random.Random(0)
    for _ in range(200):
        lengths = [draw.choice((0, 1, 63, 64, 65, draw.randint(0, 5000))) for _ in range(draw.randint(1, 9))]
        for length, splits in zip(lengths, pictures.cut(lengths, 64), strict=True):
            assert sum(splits) == length and len(splits) == max(1, -(-length // 64))
            assert set(splits[:-1]) <= {64} and splits[-1] <= 64


def test_the_picture_of_splits_counts_programs_and_what_is_merged():
    canvas, alt = pictures.splits_of_sequences([100, 20, 300, 0], split_tokens=50, kv_heads=8, multiprocessors=132)
    assert "80 programs for 132 multiprocessors: 52 of them idle." in alt  # (2 + 1 + 6 + 1) splits of 8 heads
    assert "8 partial results of 2 sequences are merged (dark, light, dark, …), for each of 8 KV heads." in canvas.svg(
        "x"
    )
    assert "Nothing is left to merge" in pictures.splits_of_sequences([20, 0], 50, 8, 4)[1]
    assert_legible(canvas.svg(alt))


@pytest.mark.parametrize("split_tokens", [50, 5])
def test_splits_are_drawn_to_scale_and_light_after_dark(split_tokens):
    lengths = [100, 20, 300]
    canvas, _ = pictures.splits_of_sequences(lengths, split_tokens, kv_heads=8, multiprocessors=132)
    drawn = [shape["fill"] for kind, shape in canvas.shapes if kind == "polygon"]
    splits = pictures.cut(lengths, split_tokens)
    assert_to_scale(widths(canvas), sum(splits, []))
    for row, tokens in enumerate(splits):
        fill = style.request_colour(row)
        ours, drawn = drawn[: len(tokens)], drawn[len(tokens) :]
        assert set(ours[::2]) == {fill} and fill not in ours[1::2] and len(set(ours[1::2])) <= 1
    assert drawn == []


# Widgets

SETTINGS = {
    "split_kv": [
        {"batch": batch, "split_tokens": tokens, "kv_heads": heads}
        for batch in widgets.BATCHES
        for tokens, heads in ((128, 32), (8192, 1))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
