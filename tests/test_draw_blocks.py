"""The pictures of pools, tables and sharing: text stays inside, nothing overlaps, and what they show is what the tables say."""

import re

import pytest
from svg_text import overlaps, text_boxes

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.pool import pool_and_tables
from pagedkv.course.lesson_3_1.pictures import address_path
from pagedkv.course.lesson_3_3.pictures import shared_tables
from pagedkv.course.lesson_3_3.reuse import reuse
from pagedkv.course.lesson_3_3.savings import savings
from pagedkv.simulation.sharing import SharedRequest


def tables(num_blocks, block_size, *lengths):
    pool = BlockPool(num_blocks, block_size)
    grown = [BlockTable(pool) for _ in lengths]
    for table, length in zip(grown, lengths, strict=True):
        table.append(length)
    return pool, grown


def pictures():
    pool, (a, b) = tables(8, 4, 10, 3)
    c = a.fork()
    c.append(2)
    yield "pool", pool_and_tables("A pool", pool, {"A": a, "B": b, "C": c}, ("C", 11), "a line")[0]
    yield "large blocks", pool_and_tables("A pool", pool := BlockPool(6, 16), {"A": BlockTable(pool)})[0]
    yield "blocks of one", pool_and_tables("A pool", *[(p, {"A": t}) for p, (t,) in [tables(12, 1, 7)]][0])[0]
    for position, step in ((0, 1), (5, 3), (9, 4)):
        yield f"address {position}", address_path(a, position, step)
    yield "savings", savings("Saved", {"short": {2: (0.0, 6.1)}, "long": {2: (50.0, 49.9), 6: (79.9, 60.0)}})[0]
    yield "reuse", reuse("Reused", [("turn 1", 0, 10), ("turn 2", 12_345, 1), ("turn 3", 9_999, 20_000)])[0]
    beams = SharedRequest(BlockPool(200), 40, 6, switch=0.1)
    for _ in range(90):
        beams.step()
    yield "beams", shared_tables("Beams", beams.tables, ["a fact", "another"], names=list("abcdef"))[0]


PICTURES = dict(pictures())


@pytest.mark.parametrize("name", PICTURES)
def test_text_is_inside_and_does_not_overlap(name):
    canvas = PICTURES[name]
    boxes = text_boxes(canvas.svg("A picture that is only looked at by a test, in words."))
    for x0, y0, x1, y1, text in boxes:
        assert x0 >= 0 and y0 >= 0 and x1 <= canvas.width and y1 <= canvas.height, text
    assert overlaps(boxes) == []


def texts(canvas):
    return re.findall(r">([^<>]+)</text>", canvas.svg("In words."))


def test_the_address_is_that_of_the_table():
    pool, (_, table) = tables(64, 16, 40, 50)
    said = " ".join(texts(address_path(table, 37)))
    assert f"37 // 16 = 2,  37 % 16 = 5 2  look up     table[2] = {table.blocks[2]}" in said
    assert f"= slot {table.translate(37).slot}" in said
    assert "slot" not in " ".join(texts(address_path(table, 37, steps=2)))


def test_a_shared_block_says_so_and_a_joined_box_is_one_block():
    pool, (a,) = tables(8, 4, 6)
    b = a.fork()
    assert [text for text in texts(pool_and_tables("x", pool, {"A": a, "B": b})[0]) if "owners" in text] == ["0: 2 owners", "1: 2 owners"]
    b.append(1)
    ids = [text for text in texts(shared_tables("x", [a, b], names=["A", "B"])[0]) if text.isdigit()]
    assert ids == ["0", "1", "2"]  # block 0 in one box for both


def test_a_sequence_keeps_its_colour_when_another_goes():
    pool, (a, b) = tables(8, 4, 6, 3)

    def fills(**shown):
        return {shape["fill"] for kind, shape in pool_and_tables("x", pool, shown, names="ABC")[0].shapes if kind == "polygon"}

    assert style.request_colour(1) in fills(A=a, B=b) & fills(B=b)
    assert style.request_colour(0) not in fills(B=b)


def test_the_words_say_what_the_picture_shows():
    pool, (a, b) = tables(8, 4, 6, 3)
    assert "A: 6 tokens in blocks [0, 1]; B: 3 tokens in blocks [2]. Token 5 of A is in block 1, offset 1." in pool_and_tables(
        "x", pool, {"A": a, "B": b}, ("A", 5)
    )[1]
    assert "2 sequences 5.0 and 6.1 %" in savings("Saved", {"short": {2: (5.0, 6.1)}})[1]
