"""The pictures of lessons 4.1 and 4.2: texts stay apart and inside, and what is drawn is what is said."""

import itertools
import math

import pytest
from svg_text import overlaps, text_boxes

from pagedkv.course.lesson_4_1.bytes_moved import bytes_moved
from pagedkv.course.lesson_4_1.causal_blocks import causal_blocks, kind_of
from pagedkv.course.lesson_4_1.pictures import OWN, SEEN, reading
from pagedkv.course.lesson_4_2 import widgets as online
from pagedkv.course.lesson_4_2.merge_tree import merge_trees
from pagedkv.course.lesson_4_2.pictures import online_step, statistics
from pagedkv.course.lesson_4_2.rounding import rounding_errors

TREES = [("One after another", (((0, 1), 2), 3)), ("In pairs, shuffled", ((3, 1), (0, 2)))]
STATES = {tree: (14.25, 103.5, 12.3456) for tree in [0, 1, 2, 3, (0, 1), ((0, 1), 2), (((0, 1), 2), 3), (3, 1), (0, 2), ((3, 1), (0, 2))]}
CANVASES = {
    **{f"reading {p} by {b}": reading(p, 50, list(range(90, 90 + math.ceil(50 / b))), b)[0] for p in (0, 31, 49) for b in (8, 16, 32)},
    **{f"causal {n} {b} {t}": causal_blocks(n, 32, b, t)[0] for n, b, t in ((16, 8, 4), (32, 16, 8), (10, 4, 4), (1, 8, 4))},
    "bytes": bytes_moved({"read in place": {"read K and V": 1.0}, "gather first": {"read the pool": 1.0, "write the copy": 1.0}})[0],
    "merge": merge_trees(TREES, STATES)[0],
    **{
        f"step {step} jump {jump} in {place}": online_step(online.blocks(jump, place), online.VALUES, step)[0]
        for step, jump, place in itertools.product(range(4), (0.0, 6.0), (0, 3))
    },
}


@pytest.mark.parametrize("canvas", list(CANVASES.values()), ids=CANVASES)
def test_texts_are_apart_and_inside(canvas):
    boxes = text_boxes(canvas.svg("a picture"))
    assert overlaps(boxes) == []
    assert [text for left, top, right, bottom, text in boxes if left < 0 or top < 0 or right > canvas.width or bottom > canvas.height] == []


@pytest.mark.parametrize("position, block_size", list(itertools.product((0, 15, 16, 37, 49), (8, 16, 32))))
def test_as_many_slots_are_drawn_as_seen_as_the_query_sees(position, block_size):
    canvas, _ = reading(position, 50, range(-(-50 // block_size)), block_size)
    fills = [shape["fill"] for kind, shape in canvas.shapes if kind == "polygon"]
    assert fills.count(SEEN) - 1 == position and fills.count(OWN) - 1 == 1  # one more of each in the legend


def test_the_kinds_of_a_block_are_those_of_its_pairs():
    for first, size, logical, block_size in itertools.product(range(0, 20, 3), (1, 4), range(5), (1, 4, 8)):
        pairs = [logical * block_size + t <= q for q in range(first, first + size) for t in range(block_size)]
        kind = "whole" if all(pairs) else "mask" if any(pairs) else "skip"
        assert kind_of(first, first + size - 1, logical, block_size) == kind


def test_the_statistics_of_a_step_are_those_of_a_softmax():
    m, total, o = statistics([1.0, 3.0], [5.0, 7.0])
    assert (m, total, o) == (3.0, 1 + math.exp(-2), 7 + 5 * math.exp(-2))
    assert statistics([], []) == (-math.inf, 0, 0)


def test_the_errors_are_lines_named_at_their_ends():
    axes = rounding_errors([16, 64], {"one": [1e-3, 2e-3], "other": [1e-7, 1e-7]})[0].axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1e-3, 2e-3], [1e-7, 1e-7]]
    assert [text.get_text() for text in axes.texts] == ["one", "other"]
