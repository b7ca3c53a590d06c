"""Lesson 4.4: what its checks accept and refuse, none of it with a dead process, and what its pictures count."""

import math
import random

import numpy as np
import pytest
from exercise_rules import exercise_tests
from kernels import changed, kernel
from picture_rules import assert_legible, assert_to_scale, heights, strokes, widths
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.bench.report import recorded, results
from pagedkv.course.draw import style
from pagedkv.course.judge import limit
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_4_4 import exercises, pictures, predictions, widgets

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "4.4-tile": {
        "0 → ...": "a hidden token's block is not read",
        "0.0 → ...": "a hidden key's score is replaced, and a hidden value has weight 0: any finite number serves",
    },
    "4.4-merge": {
        "0.0 → ...": "a hidden part has weight 0: any finite number serves",
        "0 → -1": "the first axis of one is its last",
    },
}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A machine that does other things as well may take its time."""
    monkeypatch.setattr(limit, "SECONDS", 60)


# A tile

TILED = """
def tiled(q, k_cache, v_cache, tables, lens, out, scale, width,
          BLOCK: tl.constexpr, TILE: tl.constexpr, DIM: tl.constexpr, GROUP: tl.constexpr):
    head, seq, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    length = tl.load(lens + seq)
    column, dim = tl.arange(0, TILE), tl.arange(0, DIM)
    query = tl.load(q + (seq * heads + head) * DIM + dim)
    m, l, o = float("-inf"), 0.0, tl.zeros([DIM], tl.float32)
    for start in range(0, length, TILE):
        token = start + column
        seen = token < length
        block = tl.load(tables + seq * width + token // BLOCK, seen, 0).to(tl.int64)
        slot = block * BLOCK + token % BLOCK
        at = (slot * (heads // GROUP) + head // GROUP)[:, None] * DIM + dim[None, :]
        keys = tl.load(k_cache + at, seen[:, None], 0.0).to(tl.float32)
        values = tl.load(v_cache + at, seen[:, None], 0.0).to(tl.float32)
        s = tl.where(seen, tl.sum(query[None, :] * keys, 1) * scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        p, shrink = tl.exp(s - m_new), tl.exp(m - m_new)
        l = l * shrink + tl.sum(p, 0)
        o = o * shrink + tl.sum(p[:, None] * values, 0)
        m = m_new
    tl.store(out + (seq * heads + head) * DIM + dim, o / l)
"""
CLAMPED = (
    ("token = start + column\n        seen = token < length", "seen = start + column < length\n"
     "        token = tl.minimum(start + column, length - 1)"),
    ("token // BLOCK, seen, 0", "token // BLOCK"),
    ("k_cache + at, seen[:, None], 0.0", "k_cache + at"),
    ("v_cache + at, seen[:, None], 0.0", "v_cache + at"),
)  # fmt: skip
BY_STRIDES = (
    ("        slot = block * BLOCK + token % BLOCK\n", ""),
    (
        "(slot * (heads // GROUP) + head // GROUP)[:, None] * DIM",
        "(block * (BLOCK * DIM * (heads // GROUP)) + token % BLOCK * (DIM * (heads // GROUP)) + head // GROUP * DIM)"
        "[:, None]",
    ),
)
WRONG_TILES = [
    ((("token // BLOCK, seen, 0", "start // BLOCK"),), "each token looks up its own block|NaN or infinity"),
    ((("token // BLOCK, seen, 0", "start // BLOCK, seen, 0"),), "each token looks up its own entry"),
    (((", seen, 0).to(tl.int64)", ", seen, 0)"),), "the block id int64, `.to(tl.int64)`, before it multiplies"),
    ((("token // BLOCK, seen, 0", "token // BLOCK"),), "past the length no entry may be read"),
    ((("token // BLOCK, seen, 0", "column // BLOCK, seen, 0"),), "NaN or infinity|is not right"),
    ((("token // BLOCK, seen, 0", "token // TILE, seen, 0"),), "NaN or infinity|is not right"),
    ((("token % BLOCK", "column"),), "NaN or infinity|a cache is [block, slot, KV head, dim]"),
    ((("token % BLOCK", "column % BLOCK"),), "with a tile smaller than a block|drawn sizes"),
    ((("token % BLOCK", "token % TILE"),), "NaN or infinity|is not right|a cache is"),
    ((("seq * width + token", "token"),), "NaN or infinity|is not right|-1 is no block"),
    ((("block * BLOCK + token", "block + token"),), "NaN or infinity|is not right"),
    ((("+ head // GROUP)", "+ head)"),), "GROUP query heads share a KV head|NaN"),
    ((("slot * (heads // GROUP)", "slot * heads"),), "a cache is [block, slot, KV head, dim]|NaN"),
    ((("v_cache + at, seen[:, None], 0.0", "v_cache + at"),), "a hidden value must be loaded as a number"),
    ((("v_cache + at, seen[:, None], 0.0", "v_cache + at, seen[:, None]"),), "a hidden value must be loaded"),
    ((("token < length", "token <= length"),), "a hidden value must be loaded|past the length"),
    ((("token < length", "token < length - 1"),), "is not right|NaN"),
    ((("token = start + column", "token = column"),), "only the first tile of a sequence is read|is not right"),
    ((("range(0, length, TILE)", "range(0, length // TILE * TILE, TILE)"),), "left out|NaN"),
    (
        (("seen[:, None], 0.0).to(tl.float32)\n        values", "seen, 0.0).to(tl.float32)\n        values"),),
        "[:, None]",
    ),
    ((("token < length", "token < LENGTH"),), "NameError|global variable"),
]

# The merge

MERGE = """
def merge(part, part_lse, out, splits, DIM: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    split, dim = tl.arange(0, SPLITS), tl.arange(0, DIM)
    there = split < splits
    lse = tl.load(part_lse + row * splits + split, there, float("-inf"))
    at = (row * splits + split)[:, None] * DIM + dim[None, :]
    o = tl.load(part + at, there[:, None], 0.0)
    weights = tl.exp(lse - tl.max(lse, 0))
    tl.store(out + row * DIM + dim, tl.sum(weights[:, None] * o, 0) / tl.sum(weights, 0))
"""
IN_TURN = """
def merge(part, part_lse, out, splits, DIM: tl.constexpr, SPLITS: tl.constexpr):
    first, dim = tl.program_id(0) * splits, tl.arange(0, DIM)
    m, l, o = -3.0e38, 0.0, tl.zeros([DIM], tl.float32)
    for split in range(splits):
        lse = tl.load(part_lse + first + split)
        m_new = tl.maximum(m, lse)
        weight, shrink = tl.exp(lse - m_new), tl.exp(m - m_new)
        o = o * shrink + weight * tl.load(part + (first + split) * DIM + dim)
        l = l * shrink + weight
        m = m_new
    tl.store(out + tl.program_id(0) * DIM + dim, o / l)
"""
NO_MAXIMUM = ("lse - tl.max(lse, 0)", "lse")
WRONG_MERGES = [
    ((("tl.exp(lse - tl.max(lse, 0))", "tl.where(there, 1.0, 0.0)"),), "each part counts alike here"),
    (
        (("tl.exp(lse - tl.max(lse, 0))", 'tl.where(lse > float("-inf"), 1.0, 0.0)'),),
        "each part that saw something counts alike|each part counts alike",
    ),
    (
        (("tl.exp(lse - tl.max(lse, 0))", "tl.where(there, 1.0, 0.0)"), (" / tl.sum(weights, 0)", "")),
        "the parts are added up, but they are averages already",
    ),
    (((" / tl.sum(weights, 0)", ""),), "divided by the sum of the weights"),
    (((', there, float("-inf")', ", there, 0.0"),), "a lane without a part came in with an lse of 0"),
    (((', there, float("-inf")', ", there"),), "has NaN or infinity: e^lse overflows"),
    (((", there[:, None], 0.0", ", there[:, None]"),), "has NaN or infinity: e^lse overflows"),
    (((', there, float("-inf")', ""),), "only `splits` of the SPLITS lanes have one"),
    (((", there[:, None], 0.0", ""),), "only `splits` of the SPLITS lanes have one"),
    ((NO_MAXIMUM,), "subtract the largest lse first"),
    ((("tl.exp(", "tl.exp2("),), "weights are e^lse, not 2^lse"),
    ((("tl.exp(lse - tl.max(lse, 0))", "tl.where(lse == tl.max(lse, 0), 1.0, 0.0)"),), "the largest lse alone"),
    ((("row * splits + split, there", "row * SPLITS + split, there"),), "r · splits + split"),
    ((("part_lse + row * splits + split", "part_lse + split"),), "is not right"),
    ((("out + row * DIM", "out + row"),), "each program writes its own row|is overwritten|row"),
    ((("out + row * DIM + dim", "out + dim"),), "each program writes its own row"),
    ((("there[:, None], 0.0", "there[None, :], 0.0"),), "do not fit together"),
    ((("tl.sum(weights[:, None] * o, 0)", "tl.sum(weights[:, None] * o, 1)"),), "do not fit|is not right|row"),
    (
        (
            ("    tl.store(out + row * DIM + dim, tl.sum", "    return tl.sum"),
            ("tl.sum(weights, 0))", "tl.sum(weights, 0)"),
        ),
        "is not written",
    ),
]


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


def kernels(source, cases):
    return [(kernel(changed(source, *changes)), words) for changes, words in cases]


RIGHT = {
    "4.4-predict": [(exercises.predict_us, 1.0, 4.0), (in_seconds, 1, 4), (by_numpy, np.float64(1.0), 4)],
    "4.4-tile": [
        kernel(changed(TILED, ("// BLOCK, seen, 0", "// BLOCK, seen"))),
        kernel(changed(TILED, *CLAMPED)),
        kernel(changed(TILED, *BY_STRIDES)),
    ],
    "4.4-merge": [kernel(MERGE), kernel(IN_TURN)],
}
WRONG = {
    "4.4-predict": [*WRONG_PREDICTIONS.values()],
    "4.4-tile": kernels(TILED, WRONG_TILES),
    "4.4-merge": kernels(MERGE, WRONG_MERGES),
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)
test_wrong = pytest.mark.thorough(test_wrong)  # dozens of kernels


def test_a_kernel_with_its_lines_missing_is_not_attempted(capsys):
    first, last = TILED.index("        token = "), TILED.index("        s = ")
    assert check("4.4-tile", kernel(TILED[:first] + "        ...\n" + TILED[last:])).points == 0
    assert "not attempted" in capsys.readouterr().out


# Predictions


def times(case: str) -> dict[str, float]:
    return {name: timing["us"] for name, timing in results(recorded(), case).items()}


def coalesced(share: float) -> str:
    return f"{share:.0%}"


def sectors_of_a_warp() -> str:
    """16 threads a token of 256 bytes, two tokens far apart."""
    addresses = [token * 10_000_000 * 32 + 16 * i for token in range(2) for i in range(16)]
    return coalesced(len(addresses) * 16 / (32 * len(pictures.sectors_of(addresses, 16))))


def most_gained() -> str:
    steps = {}
    for case in ("a", "d"):
        climb = [times(case)[name] for name in ("rung 0", "rung 1", "rung 2", "pagedkv")]
        gains = [one / other for one, other in zip(climb, climb[1:], strict=False)]
        steps[case] = ("tiles", "packing", "splits")[gains.index(max(gains))]
    return f"{steps['a']} for one, {steps['d']} for a batch"


COMPUTED = {
    "4.4-intensity": lambda: 4 * 32 / (2 * 2 * 8),  # operations for each query head over bytes of each KV head
    "4.4-sectors": sectors_of_a_warp,
    "4.4-idle": lambda: 100 * 8 / 132,
    "4.4-most": most_gained,
}

test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


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
    assert strokes(canvas) == {style.HIGHLIGHT: 2 + 1}  # and one in the legend
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
