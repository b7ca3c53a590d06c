"""The pictures of lessons 2.1 to 2.3 show the numbers that they are given."""

import numpy as np
import pytest
from svg_text import text_boxes

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lesson_2_1.exercises import computed_with_cache, computed_without_cache
from pagedkv.course.lesson_2_1.lengths import lengths_against_reservation
from pagedkv.course.lesson_2_1.recompute import recomputed_and_kept
from pagedkv.course.lesson_2_2.allocators import rounding_share, shares_by_allocator
from pagedkv.course.lesson_2_2.branches import copied_prompts
from pagedkv.course.lesson_2_3.block_sizes import token_share_by_block_size
from pagedkv.course.lesson_2_3.scattered import scattered
from pagedkv.simulation.arena import BuddyArena
from pagedkv.simulation.policies import Oracle
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests


def texts(canvas: Canvas) -> list[str]:
    return [shape["text"] for kind, shape in canvas.shapes if kind == "text"]


def filled(canvas: Canvas, colour: str) -> list[dict]:
    return [shape for kind, shape in canvas.shapes if kind == "polygon" and shape["fill"] == colour]


def width(shape: dict) -> float:
    xs = [x for x, _ in shape["points"]]
    return max(xs) - min(xs)


@pytest.mark.parametrize(("prompt", "steps"), [(4, 8), (1, 1), (9, 3)])
def test_a_dark_cell_for_every_token_that_is_computed(prompt, steps):
    canvas, _ = recomputed_and_kept(prompt, steps)
    without, kept = computed_without_cache(prompt, steps), computed_with_cache(prompt, steps)
    assert len(filled(canvas, style.TOKEN)) == without + kept + 1  # one in the legend
    assert {f"without a cache: {without}", f"with a cache: {kept}"} <= set(texts(canvas))


def test_every_token_stands_in_its_slot_and_in_its_place():
    canvas, _ = scattered({"A": [0, 2], "B": [1]}, num_slots=4)
    seen = texts(canvas)
    assert all(seen.count(label) == 2 for label in ("A0", "A1", "B0"))
    x = {shape["text"]: shape["x"] for kind, shape in canvas.shapes if kind == "text" and shape["text"] in ("0", "1", "2")}
    in_memory = {s["text"]: s["x"] for kind, s in canvas.shapes if kind == "text" and s["y"] == 176}
    assert (in_memory["A1"], in_memory["B0"]) == (x["2"], x["1"])
    assert sum(kind == "path" for kind, _ in canvas.shapes) == 3


def test_copies_are_counted_and_drawn_to_scale():
    canvas, _ = copied_prompts(100, [50, 30])
    assert texts(canvas)[0] == "2 branches of one prompt: 100 of 280 slots hold copies (36 %)"
    first, copy = filled(canvas, style.request_colour(0))[0], filled(canvas, style.mix(style.request_colour(0)))[0]
    assert width(first) == pytest.approx(width(copy)) == pytest.approx(800 * 100 / 280)


def test_rounding_and_holes_are_the_two_parts_of_external():
    run = simulate(sample_requests("paper-sharegpt", 100), Oracle(BuddyArena(4096)), 4096)
    canvas, _ = shares_by_allocator({"oracle, buddy": run}, "a title")
    external = 100 * run.shares()["external"]
    assert 0 < rounding_share(run) < external
    parts = [width(shape) for shape in filled(canvas, style.EXTERNAL) if shape["hatch"] in ("x", None) and shape["stroke"]]
    assert sum(parts) == pytest.approx((style.WIDTH - 256) * external / 100)
    assert f"rounding {rounding_share(run):.1f}" in texts(canvas)
    assert all(x1 <= style.WIDTH for _, _, x1, _, _ in text_boxes(canvas.svg("In words.")))


def test_bars_are_as_high_as_the_shares():
    canvas, _ = token_share_by_block_size({"long": {1: 1.0, 64: 0.5}, "short": {1: 0.25}})
    heights = [max(y for _, y in shape["points"]) - min(y for _, y in shape["points"]) for shape in filled(canvas, style.TOKEN)]
    assert heights == pytest.approx([150, 75, 37.5])
    assert {"100", "50", "25", "64", "block size, long"} <= set(texts(canvas))


def test_the_histogram_says_how_many_fit_and_how_full_they_are():
    figure, words = lengths_against_reservation({"some": np.array([256, 512, 768, 5000])}, reserved=1024)
    assert figure.axes[0].get_title(loc="left") == "some: 75 % of the requests fit, and fill 50 % of 1,024 slots"
    assert sum(patch.get_height() for patch in figure.axes[0].patches) == 3
    assert "some: 75% fit, their mean of 512 tokens fills 50%" in words
