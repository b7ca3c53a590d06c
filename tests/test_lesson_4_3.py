"""Lesson 4.3: what the checks of its four kernels accept and refuse, none of it with a dead process."""

import pytest
from exercise_rules import exercise_tests
from kernels import DECODE, changed, kernel
from picture_rules import assert_legible, texts
from prediction_rules import prediction_test

from pagedkv.course.judge import guarded, limit
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_4_3 import attending, decoding, exercises, moving, pictures, predictions

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

HIDDEN = "a hidden key's score is replaced, and a hidden value has weight 0: any finite number serves"
# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "4.3-block": {"0 → -1": "of one axis the last is the first", "0.0 → ...": HIDDEN},
    "4.3-decode": {"0 → -1": "the same", "0.0 → ...": f"{HIDDEN}; l starts as anything, since its first factor is 0"},
}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A machine that does other things as well may take its time."""
    monkeypatch.setattr(limit, "SECONDS", 60)


WRITE = """
def write_rows(new, cache, slot_mapping, WIDTH: tl.constexpr, LANES: tl.constexpr):
    token = tl.program_id(0)
    slot = tl.load(slot_mapping + token)
    lane = tl.arange(0, LANES)
    inside = lane < WIDTH
    if slot >= 0:
        row = tl.load(new + token * WIDTH + lane, mask=inside)
        tl.store(cache + slot * WIDTH + lane, row, mask=inside)
"""
WRITE_WITH_A_MASK = """
def write(new, cache, slot_mapping, WIDTH: tl.constexpr, LANES: tl.constexpr):
    source = new + tl.program_id(0) * WIDTH
    slot = tl.load(slot_mapping + tl.program_id(0))
    lane = tl.arange(0, LANES)
    mask = (lane < WIDTH) & (slot != -1)
    tl.store(cache + slot * WIDTH + lane, tl.load(source + lane, mask, 0.0), mask)
"""
NO_ROOM = ("lane < WIDTH", "lane < tl.where(slot < 0, 0, WIDTH)")
LOADED, STORED = ("+ lane, mask=inside)\n        tl.", "+ lane)\n        tl."), ("row, mask=inside", "row")
WRONG_WRITES = [
    ((("if slot >= 0:", "if True:"),), "writes row -1 of `cache`, which has rows 0 to 15 (element -24): a slot of -1"),
    ((("if slot >= 0:", "if slot > 0:"),), "row 0 of `cache` is not written: a token has that slot"),
    ((("slot = tl.load", "slot = tl.maximum(0, tl.load"), ("+ token)\n", "+ token))\n")), "two tokens met in one row"),
    ((LOADED,), "reads row 7 of `new`, which has rows 0 to 6 (element 168): `new` has a row for each token; rows lie"),
    ((STORED,), "writes row 16 of `cache`|two tokens met in one row"),
    ((LOADED, STORED), "writes row 16 of `cache`|two tokens met in one row|reads row 7 of `new`"),
    ((("slot * WIDTH", "slot * LANES"),), "writes row 20 of `cache`, which has rows 0 to 15"),
    ((("token * WIDTH", "slot * WIDTH"),), "reads row 15 of `new`"),
    ((("if slot >= 0:", "if True:"), ("lane < WIDTH", "lane < WIDTH & slot >= 0")), "each comparison in parentheses"),
    ((("slot * WIDTH", "token * WIDTH"),), "each row went to the number of its token"),
    ((("lane < WIDTH", "lane < 1"),), "one number of each row is written"),
    ((("lane < WIDTH", "lane <= WIDTH"),), "writes row 16 of `cache`|two tokens met"),
    ((("lane < WIDTH", "lane < WIDTH - 1"),), "row 0 of `cache` is not written"),
    (
        (("program_id(0)", "program_id(0) + 1"),),
        "reads element 7 of `slot_mapping`, which has elements 0 to 6: there is",
    ),
    ((("load(new", "load(cache"), ("store(cache", "store(new")), "which it is only to read"),
    ((("if slot >= 0:", "if inside:"),), "ask one question, and a block holds many answers"),
    ((("tl.arange(0, LANES)", "tl.arange(0, WIDTH)"),), "tl.arange counts to a power of two only"),
    ((("tl.store(cache + slot * WIDTH + lane, row", "tl.store(cache + slot * WIDTH + lane, new + lane"),), "addresses"),
    (
        (("tl.load(slot_mapping + token)", "tl.load(slot_mapping, token)"),),
        "a slot loads as one number, tl.load(slot_mapping + i)",
    ),
    ((("slot = tl.load", "slot = 10**12 + tl.load"),), "writes row 1,000,000,000,005 of `cache`"),
    (
        (("slot = tl.load", "slot = -(10**12) - tl.load"), ("if slot >= 0:", "if True:")),
        "writes row -1,000,000,000,005",
    ),
]
GATHER = """
def gather_rows(cache, table, out, length, BLOCK: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr):
    j = tl.program_id(0)
    block = tl.load(table + j).to(tl.int64)
    slot, lane = tl.arange(0, BLOCK), tl.arange(0, LANES)
    token = j * BLOCK + slot
    inside = (token < length)[:, None] & (lane < WIDTH)[None, :]
    rows = tl.load(cache + (block * BLOCK + slot)[:, None] * WIDTH + lane[None, :], mask=inside)
    tl.store(out + token[:, None] * WIDTH + lane[None, :], rows, mask=inside)
"""
GATHER_BY_TOKEN = """
def gather(cache, table, out, length, BLOCK: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    first = tl.program_id(0) * BLOCK
    start = tl.load(table + tl.program_id(0)).to(tl.int64) * BLOCK
    for i in range(tl.minimum(BLOCK, length - first)):
        row = tl.load(cache + (start + i) * WIDTH + lane, mask=lane < WIDTH, other=0.0)
        tl.store(out + (first + i) * WIDTH + lane, row, mask=lane < WIDTH)
"""
WRONG_GATHERS = [
    ((("(token < length)[:, None] & ", ""),), "shape|writes row 50 of `out`"),
    (
        (("(token < length)", "(token < length + BLOCK)"),),
        "writes row 50 of `out`, which has rows 0 to 49 (element 1,200",
    ),
    ((("(table + j).to(tl.int64)", "(table + j)"),), "the block id int64, `.to(tl.int64)`, before it multiplies"),
    (
        (("(token < length)[:, None] & (lane < WIDTH)[None, :]", "token[:, None] < length & lane[None, :] < WIDTH"),),
        "in line 7 of its cell `&` binds closer",
    ),
    ((("(token < length)", "(slot < length)"),), "writes row 50 of `out`"),
    ((("token < length", "token <= length"),), "writes row 50 of `out`"),
    ((("token < length", "token < length - 1"),), "row 49 of `out` is not written"),
    (
        (("lane[None, :], mask=inside)\n    tl", "lane[None, :], mask=(token < length)[:, None])\n    tl"),),
        "the pool ends",
    ),
    ((("rows, mask=inside", "rows, mask=(token < length)[:, None]"),), "from two lanes of one store: rows lie WIDTH"),
    ((("(block * BLOCK", "(j * BLOCK"),), "row 0 of `out` has NaN or infinity: that slot holds no token of this"),
    ((("(block * BLOCK", "(block"),), "row 0 of `out` has NaN or infinity: that slot holds no token of this"),
    ((("out + token[:", "out + slot[:"),), "overwrites what another has written to `out`"),
    ((("out + token[:, None] * WIDTH", "out + token[:, None] * LANES"),), "writes row 50 of `out`|writes row"),
    ((("table + j", "table + j * BLOCK"),), "reads element 16 of `table`, which has elements 0 to 3"),
    ((("table + j", "table + j + 1"),), "reads element 4 of `table`, which has elements 0 to 3: a program reads one"),
    ((("table + j", "table"),), "row 16 of `out` is not right"),
    ((("(lane < WIDTH)[None, :]", "(lane < WIDTH)[:, None]"),), "blocks of these shapes do not fit together"),
    ((("block * BLOCK", "(block + 10**9) * BLOCK"),), "the pool ends there"),
    ((("block * BLOCK", "-(block + 10**9) * BLOCK"),), "-1 is no block: which entry of the table was followed?"),
    ((("lane < WIDTH", "lane < WIDTH // 2"),), "row 0 of `out` is not written"),
    ((("(block * BLOCK + slot)", "(block * BLOCK + (slot + 1) % BLOCK)"),), "is not right|has NaN"),
    (
        (("j = tl", "s = 0\n    for i in range(length):\n        s += 0.5\n    j = tl"),),
        "(here s starts as a whole number)",
    ),
]
ATTEND = """
def attend_block(q, k, v, out, count, scale, BLOCK: tl.constexpr, DIM: tl.constexpr):
    head, heads = tl.program_id(0), tl.num_programs(0)
    slot, dim = tl.arange(0, BLOCK), tl.arange(0, DIM)
    seen = slot < count
    at = (slot[:, None] * heads + head) * DIM + dim[None, :]
    query = tl.load(q + head * DIM + dim).to(tl.float32)
    keys = tl.load(k + at, mask=seen[:, None], other=0.0).to(tl.float32)
    values = tl.load(v + at, mask=seen[:, None], other=0.0).to(tl.float32)
    scores = tl.where(seen, tl.sum(query[None, :] * keys, 1) * scale, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 0))
    o = tl.sum(weights[:, None] * values, 0) / tl.sum(weights, 0)
    tl.store(out + head * DIM + dim, o)
"""
ATTEND_DIMS_FIRST = """
def attend(q, k, v, out, count, scale, BLOCK: tl.constexpr, DIM: tl.constexpr):
    head = tl.program_id(0)
    dims = head * DIM + tl.arange(0, DIM)
    slots = tl.arange(0, BLOCK)
    inside = (slots < count)[None, :]
    place = dims[:, None] + slots[None, :] * (tl.num_programs(0) * DIM)
    keys = tl.load(k + place).to(tl.float32)
    values = tl.where(inside, tl.load(v + place).to(tl.float32), 0.0)
    s = tl.sum(tl.load(q + dims).to(tl.float32)[:, None] * keys, 0)[None, :]
    s = tl.where(inside, s * scale, float("-inf"))
    w = tl.exp(s - tl.max(s, 1)[:, None])
    tl.store(out + dims, tl.sum(w * values, 1) / tl.sum(w))
"""
MASKED = "mask=seen[:, None], other=0.0"
WRONG_BLOCKS = [
    ((("v + at, " + MASKED, "v + at"),), "row 0 of `out` has NaN or infinity: a value that is NaN stays NaN"),
    ((("v + at, " + MASKED, "v + at, mask=seen[:, None]"),), "row 0 of `out` has NaN or infinity: a value"),
    ((('float("-inf"))\n    w', "0.0)\n    w"),), "hidden tokens got the score 0, and with it a weight"),
    ((("tl.where(seen, ", ""), (', float("-inf"))\n    w', "\n    w")), "hidden tokens got the score 0"),
    (((" * scale", ""),), "that is attention without the scale"),
    (((" / tl.sum(weights, 0)", ""),), "is not divided by the sum of the weights"),
    ((("scores - tl.max(scores, 0)", "scores"),), "with a query of large numbers, part of `out` has NaN or infinity"),
    ((("weights = tl.exp(scores - tl.max(scores, 0))", "weights = tl.where(seen, 1.0, 0.0)"),), "plain mean of the"),
    ((("tl.sum(weights[:, None] * values, 0) / tl.sum(weights, 0)", "tl.sum(values, 0)"),), "without their weights"),
    ((("(slot[:, None] * heads + head)", "(head * BLOCK + slot[:, None])"),), "here the slots of a head lie together"),
    ((("at = (slot[:, None] * heads + head)", "at = (slot[:, None])"),), "row 0 of `out` is not right|has NaN"),
    ((("slot < count", "slot <= count"),), "row 0 of `out` has NaN or infinity"),
    ((("slot < count", "slot < count - 1"),), "row 0 of `out` is not right: do all seen tokens, and no others"),
    ((("mask=seen[:, None]", "mask=seen[None, :]"),), "blocks of these shapes do not fit together"),
    ((("query[None, :] * keys, 1", "query[None, :] * keys, 0"),), "blocks of these shapes|do not fit"),
    ((("q + head * DIM + dim", "q + dim"),), "row 1 of `out` is not right"),
    ((("out + head * DIM + dim", "out + dim"),), "overwrites what another has written to `out`"),
    ((("out + head * DIM + dim", "out + head + dim"),), "overwrites what another|is not written"),
    ((("k + at", "k + at + 10**9"),), "in k and v the heads lie inside a slot"),
    ((("    o = tl.sum", "    if seen:\n        return\n    o = tl.sum"),), "ask one question"),
]
DECODE_BY_TABLE = changed(
    DECODE,  # all entries of the table are walked over, those of -1 too
    ("range(tl.cdiv(length, BLOCK))", "range(width)"),
    ('m, l, o = float("-inf")', "m, l, o = -1e30"),
    ("tl.where(length > 0, o / l, 0.0)", "o / tl.maximum(l, 1e-30)"),
)
DECODE_BY_TOKEN = """
def decode(q, k_cache, v_cache, tables, lens, out, scale, q_stride, width,
           BLOCK: tl.constexpr, DIM: tl.constexpr, GROUP: tl.constexpr):
    dim = tl.arange(0, DIM)
    kv = tl.program_id(0) // GROUP
    kv_heads = tl.num_programs(0) // GROUP
    x = tl.load(q + tl.program_id(1) * q_stride + tl.program_id(0) * DIM + dim).to(tl.float32)
    top = -1e30
    total = 0.0
    result = tl.zeros([DIM], tl.float32)
    for token in range(tl.load(lens + tl.program_id(1))):
        block = tl.load(tables + tl.program_id(1) * width + token // BLOCK).to(tl.int64)
        place = ((block * BLOCK + token % BLOCK) * kv_heads + kv) * DIM + dim
        s = tl.sum(x * tl.load(k_cache + place).to(tl.float32), 0) * scale
        base = tl.maximum(top, s)
        total = total * tl.exp(top - base) + tl.exp(s - base)
        result = result * tl.exp(top - base) + tl.exp(s - base) * tl.load(v_cache + place).to(tl.float32)
        top = base
    row = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(out + row * DIM + dim, result / tl.where(total == 0.0, 1.0, total))
"""
AXES = ("tl.program_id(0), tl.program_id(1)", "tl.program_id(1), tl.program_id(0)")
WRONG_DECODES = [
    ((('m, l, o = float("-inf")', "m, l, o = 0.0"),), "m must start at -∞: a maximum that starts at 0 is too large"),
    (
        (('m, l, o = float("-inf")', "m, l, o = 0.0"), ("tl.where(length > 0, o / l, 0.0)", "o / tl.maximum(l, 1e-9)")),
        "m must start at -∞",
    ),
    ((AXES,), "axis 0 of the grid is the head, axis 1 the sequence"),
    ((AXES, ("num_programs(0)", "num_programs(1)")), "axis 0 of the grid is the head, axis 1 the sequence"),
    ((("o = o * shrink + ", "o = o + "),), "what is in o is relative to the old one: shrink it as well as l"),
    ((("l = l * shrink + ", "l = l + "),), "what is in l is relative to the old one: shrink it as well as o"),
    ((("        m = m_new\n", ""),), "at the end of a step m must become the new maximum"),
    (
        (("        weights, shrink", "        m = m_new\n        weights, shrink"),),
        "shrink is e^(m - new m), taken before m changes",
    ),
    ((("        m = m_new\n    o =", "        m, o = m_new, o / l\n    o ="), ("o / l, 0.0", "o, 0.0")), "each step"),
    ((("seen = j * BLOCK + slot < length", "seen = j * BLOCK + slot < length & slot >= 0"),), "binds closer than the"),
    ((("(tables + seq * width + j).to(tl.int64)", "(tables + seq * width + j)"),), "make the block id int64"),
    ((("tl.cdiv(length, BLOCK)", "length // BLOCK"),), "a last block that is not full is left out|NaN"),
    ((("tl.cdiv(length, BLOCK)", "tl.minimum(1, length)"),), "only the first block of a sequence is read"),
    (((" * scale", ""),), "that is attention without the scale"),
    (
        (("tl.where(length > 0, o / l, 0.0)", "o / l"),),
        "without a token o / l is 0 / 0, and zeros are asked for",
    ),
    ((("tl.where(length > 0, o / l, 0.0)", "o"),), "o is not divided by l at the end"),
    (
        (
            ("o = tl.where(length > 0, o / l, 0.0)\n    tl.store", "if length > 0:\n        tl.store"),
            ("dim, o)", "dim, o / l)"),
        ),
        "`out` for the sequence of no token is not written: a program writes its row of `out` in any case",
    ),
    ((("tables + seq * width + j", "tables + j"),), "`out` for the full block is not right|NaN"),
    ((("seq * width", "seq * (width + 1)"),), "every sequence has its own row of `tables`"),
    ((("block * BLOCK + slot", "j * BLOCK + slot"),), "`out` for Mira's 50 tokens has NaN or infinity"),
    ((("+ head // GROUP", "+ head"),), "GROUP query heads share a KV head|NaN"),
    ((("+ head // GROUP", "+ head % (heads // GROUP)"),), "query head h reads KV head h // GROUP"),
    ((("seq * q_stride", "seq * heads * DIM"),), "between two rows of `q`|is not right"),
    ((("head * DIM + dim).to", "dim).to"),), "is not right"),
    ((("j * BLOCK + slot < length", "slot < length"),), "has NaN or infinity"),
    (
        (("v_cache + at, mask=seen[:, None], other=0.0", "v_cache + at"),),
        "`out` for Mira's 50 tokens has NaN or infinity",
    ),
    ((('float("-inf"))\n        m_new', "0.0)\n        m_new"),), "hidden tokens got the score 0"),
    ((('m, l, o = float("-inf"), 0.0', 'm, l, o = float("-inf"), 0'),), "(here l starts as a whole number)"),
    ((("(block * BLOCK", "((block + 10**10) * BLOCK"),), "a cache is [block, slot, KV head, dim]"),
    ((("range(tl.cdiv(length, BLOCK))", "range(width + 1)"),), "has its own row of `tables`"),
    ((("out + (seq * heads + head)", "out + (head * 3 + seq)"),), "is not right"),
    ((("        m = m_new\n", "        m = m_new\n        if m > 1e9:\n            break\n"),), "knows no `break`"),
]


def kernels(source, cases):
    return [(kernel(changed(source, *changes)), words) for changes, words in cases]


RIGHT = {
    "4.3-scatter": [
        kernel(WRITE),
        kernel(WRITE_WITH_A_MASK),
        kernel(changed(WRITE, NO_ROOM, ("if slot >= 0", "if True"))),
    ],
    "4.3-gather": [kernel(GATHER), kernel(GATHER_BY_TOKEN)],
    "4.3-block": [kernel(ATTEND), kernel(ATTEND_DIMS_FIRST)],
    "4.3-decode": [kernel(DECODE), kernel(DECODE_BY_TABLE)],
}
WRONG = {
    "4.3-scatter": kernels(WRITE, WRONG_WRITES),
    "4.3-gather": kernels(GATHER, WRONG_GATHERS),
    "4.3-block": kernels(ATTEND, WRONG_BLOCKS),
    "4.3-decode": kernels(DECODE, WRONG_DECODES),
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)
test_wrong = pytest.mark.thorough(test_wrong)  # dozens of kernels


@pytest.mark.thorough
def test_a_decode_that_goes_token_by_token_is_slow_and_right():
    assert check("4.3-decode", kernel(DECODE_BY_TOKEN)).points == 3


def test_what_the_text_of_an_exercise_says_of_its_case():
    import pagedkv.attention.paged as package

    batch = decoding.mira_and_others()
    right = exercises.DECODE.parts[0]
    assert right.title == "the case of the text" and batch["lens"].tolist() == [50, 0, 16]
    assert batch["tables"].tolist() == [[12, 7, 42, 3], [-1] * 4, [5, -1, -1, -1]]
    assert not batch["q"].is_contiguous() and batch["q"].stride(0) == batch["q_stride"] > 4 * 32
    handed = [batch[name] for name in ("q", "k_cache", "v_cache", "tables", "lens")]
    expected = package.paged_attention(*handed, scale=batch["scale"]).float()
    torch.testing.assert_close(decoding._decoded(batch)["out"], expected, atol=2e-3, rtol=2e-3)
    mira = moving.mira()
    assert mira["length"] == 50 and mira["cache"].shape == (43 * 16, 24) and mira["cache"].isnan().any(1).sum() == 638


@pytest.mark.thorough
def test_a_kernel_far_out_of_its_memory_ends_nobody():
    """Every pointer of every solution, moved by far more than any tensor has, in front and behind."""
    cases = {WRITE: moving.rows_to_write([1, 0], 4, 24), GATHER: moving.mira(), ATTEND: attending.one_block(3)}
    cases[DECODE] = decoding.mira_and_others()
    for source, given in cases.items():
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                continue
            for far in ("+ 10**9", "- 2**40"):
                moved = source.replace(f"{name} +", f"{name} {far} +").replace(f"({name})", f"({name} {far})")
                with pytest.raises(guarded.Fault, match=f"of `{name}`, which has"):
                    guarded.run(kernel(moved), (1, 1), given)


# Predictions


def unmasked():
    """`careless` of the lesson, with room behind x for the two lanes: what it stores is right."""
    careless = """
def careless(x, out, n, factor, LANES: tl.constexpr):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    y = factor * tl.load(x + lane)
    tl.store(out + lane, y, mask=lane < n)
"""
    given = {"x": torch.arange(12.0), "out": torch.zeros(10), "n": 10, "factor": 2.0, "LANES": 4}
    right = guarded.run(kernel(careless), (3,), given).outputs["out"].equal(2 * torch.arange(10.0))
    return "the right numbers, and no error" if right else "wrong numbers at the end"


def ran(body: str, **given):
    source = f"def f({', '.join(given)}, out):\n    {body}"
    return guarded.run(kernel(source), (1,), given | {"out": torch.zeros(2)}).outputs["out"].tolist()


def hidden():
    block = "tl.load(x + tl.arange(0, 4), mask=tl.arange(0, 4) < 3, other=0.0)"
    return ran(f"tl.store(out, tl.max({block}, 0))", x=torch.tensor([-3.0, -1.0, -2.0]))[0]


def minus():
    return "block {:.0f}, offset {:.0f}".format(*ran("tl.store(out, s // 16)\n    tl.store(out + 1, s % 16)", s=-1))


test_answers = prediction_test(
    predictions.PREDICTIONS, {"4.3-unmasked": unmasked, "4.3-hidden": hidden, "4.3-minus": minus}
)


# Pictures


def test_the_picture_of_programs_counts_them_and_their_hidden_lanes():
    for numbers, lanes, count, hidden_lanes in ((10, 4, 3, 2), (8, 4, 2, 0), (1, 16, 1, 15), (16, 1, 16, 0)):
        canvas, alt = pictures.programs(numbers, lanes)
        programs = "1 program" if count == 1 else f"{count} programs"
        assert f", {programs} of {lanes} lanes" in alt and f"In the last program {hidden_lanes} lanes lie" in alt
        assert texts(canvas).count(pictures.HIDDEN) == hidden_lanes
        assert_legible(canvas.svg(alt))


def test_the_picture_of_a_row_shows_where_it_begins():
    canvas, alt = pictures.row_of_a_token((12, 7, 42, 3), 37, 16, 24)
    assert "The token's is row 677, and its 24 numbers begin at element 16,248." in alt
    assert "row 42 · 16 + 5 = 677, counted over the whole cache" in texts(canvas)
    assert_legible(canvas.svg(alt))


def test_the_picture_of_a_tile_has_the_offsets_that_the_lesson_prints():
    canvas, alt = pictures.tile(block=3, first_token=8, length=11, block_size=4, width=6, lanes=8)
    said = texts(canvas)
    assert [said.count(str(offset)) for offset in (72, 77, 78, 89, 90)] == [1, 1, 1, 1, 0]
    assert said.count(pictures.HIDDEN) == 4 * 8 - 3 * 6 and "18 of them not hidden" in alt
    assert_legible(canvas.svg(alt))
