"""The data flow of lesson 5.2 draws what a learner's functions return, also where that is wrong or nothing."""

import pytest

from pagedkv.course.lesson_5_2.pictures import ROWS, data_flow

TOKENS, BLOCKS, TABLE, SLOTS = list("PAGED"), [list("PAGE"), ["D"]], [2, 0], [8, 9, 10, 11, 0]


def words(canvas, row: str) -> list[str]:
    """The texts of one row, from the left; the row's name first."""
    texts = [shape for kind, shape in canvas.shapes if kind == "text" and ROWS[row] <= shape["y"] <= ROWS[row] + 28]
    return [shape["text"] for shape in sorted(texts, key=lambda shape: shape["x"])]


def test_each_row_shows_what_was_returned():
    canvas, alt = data_flow(TOKENS, BLOCKS, TABLE, SLOTS, 4, 3)
    assert str(TABLE) in alt and str(SLOTS) in alt
    assert [words(canvas, row)[1:] for row in ROWS] == [TOKENS, TOKENS, ["2", "0"], ["D", *"PAGE"]]
    assert words(data_flow(TOKENS, BLOCKS, TABLE, [0, 1, 2, 3, 4], 4, 3)[0], "pool")[1:] == TOKENS


@pytest.mark.parametrize("nothing", [None, 5, "x", [None], {}, [[1]], [True], [1.5]])
def test_what_cannot_be_drawn_is_said(nothing):
    canvas, alt = data_flow(TOKENS, nothing, nothing, nothing, 4, 3)
    for row in ("block table", "pool"):
        assert words(canvas, row)[1:] == ["nothing returned yet" if nothing is None else "a list of whole numbers is needed here"]
    assert canvas.svg(alt) and alt.endswith(f"slots: {'nothing returned yet' if nothing is None else nothing}.")


def test_entries_and_slots_outside_the_pool_are_not_drawn_into_it():
    canvas, _ = data_flow(TOKENS, BLOCKS, [9, -1, 1], [99, -1, 0, 1, 2], 4, 3)
    assert words(canvas, "block table")[1:] == ["9", "-1", "1"] and words(canvas, "pool")[1:] == list("GED")
