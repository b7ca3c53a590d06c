"""The pictures of lesson 5.1 show what the structures hold."""

from collections import Counter
from math import e

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lesson_1.pictures import chapter_map
from pagedkv.course.lesson_5_1.block_by_block import Step, block_by_block
from pagedkv.course.lesson_5_1.pictures import journey


def texts(canvas: Canvas) -> Counter:
    return Counter(shape["text"] for kind, shape in canvas.shapes if kind == "text")


def outlined(canvas: Canvas) -> int:
    return sum(kind == "polygon" and shape["stroke"] == style.HIGHLIGHT for kind, shape in canvas.shapes)


def pool_with_free(*blocks: int) -> BlockPool:
    pool = BlockPool(6, block_size=2)
    pool.allocate(6)
    pool.free(reversed(blocks))
    return pool


def test_each_word_stands_in_its_logical_block_and_in_its_slot():
    pool = pool_with_free(4, 1, 3)
    table = BlockTable(pool)
    slots = table.append(3).slots
    canvas, alt = journey("three words", pool, {"A": (["x", "y", "z", "not stored yet"], table)}, new=slots[2:])
    assert alt == "three words. A: 3 words, in blocks 4, 1. Other requests hold 3 of the 6 blocks; free: 1. Outlined slots: 2."
    seen = texts(canvas)
    assert seen["x"] == seen["y"] == seen["z"] == 2 and "not stored yet" not in seen
    assert seen["another request"] == 3 and seen["free"] == 1
    assert outlined(canvas) == 2
    word = {(shape["text"], shape["y"]) for kind, shape in canvas.shapes if kind == "text"}
    number_of_block_4 = max(y for text, y in word if text == "4")  # the last of the two: in the pool, not in the table
    assert ("x", number_of_block_4) in word
    arrow_ends = {shape["points"][-1][1] for kind, shape in canvas.shapes if kind == "path"}
    assert number_of_block_4 in arrow_ends


def test_a_fork_shows_the_shared_block_once_with_both_owners():
    pool = pool_with_free(4, 1, 3)
    table = BlockTable(pool)
    table.append(3)
    branch = table.fork()
    branch.append(1)
    canvas, alt = journey("fork", pool, {"A": (["x", "y", "z"], table), "B": (["x", "y", "z", "w"], branch)})
    seen = texts(canvas)
    assert "With two owners: 4." in alt
    assert seen["x"] == 3 and seen["z"] == 4 and seen["w"] == 2
    assert sum("2 owners" in text for text in seen) == 1


def test_a_pool_without_sequences_is_drawn_too():
    assert texts(journey("nothing", pool_with_free(0, 5), {})[0])["free"] == 2


def test_the_factor_between_two_blocks_is_how_much_l_and_o_shrink():
    steps = [Step(5, [1.0, 0.5], 1.0, 1.6, 2.0), Step(2, [3.0], 3.0, 1.2, 1.5)]
    canvas, alt = block_by_block("two blocks", steps, block_size=2)
    seen = texts(canvas)
    assert "After block 2 m is 3.00, l 1.20" in alt
    assert seen[f"× {e**-2:.2f}"] == 1 and seen["–"] == 1
    assert seen["logical 1 → block 2"] == 1 and seen["|O| / l = 1.25"] == 1


def test_every_lesson_is_on_the_map():
    numbers = {text.split()[0] for text in texts(chapter_map()[0]) if text[0].isdigit()}
    assert numbers == {"1", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "4.1", "4.2", "4.3", "5.1", "5.2"}
