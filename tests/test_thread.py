"""The request that every lesson follows: its numbers are those of the lessons, and its strip shows where it is."""

import pytest
from picture_rules import assert_legible, assert_to_scale, boxes, texts, widths

from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.thread import strip
from pagedkv.course.lesson_2_2 import widgets
from pagedkv.course.lesson_3_1 import pictures
from pagedkv.course.lessons import wings
from pagedkv.course.thread import BLOCK_SIZE, MIRA

STATIONS = [wing.number for wing in wings() if wing.thread]


def said(number: str) -> str:
    return next(wing for wing in wings() if wing.number == number).thread.replace("\n", " ")


def test_its_lengths_are_those_of_the_examples():
    assert (MIRA.prompt_tokens, MIRA.generated, MIRA.stored, MIRA.total_tokens) == (38, 12, 50, 200)
    table = pictures.example_table()
    assert table.blocks == [*MIRA.table] and table.num_tokens == MIRA.stored and table.pool.block_size == BLOCK_SIZE
    assert "Token 37 is the last" in said("3.1") and table.translate(37).slot == 677
    newest = BlockTable.append(table, 1).slots[0]
    assert f"block {newest // BLOCK_SIZE}, offset {newest % BLOCK_SIZE}:" in said("3.2")


def test_what_it_holds_under_each_policy():
    held = {name: widgets.slots_held(name, MIRA.prompt_tokens, MIRA.output_tokens, 12) for name in widgets.ONE_REQUEST}
    assert all(states["token_states"] == MIRA.stored for states in held.values())
    slots = [sum(held[name].values()) for name in ("max length", "power of two", "oracle", "paged")]
    assert "{:,} slots under max length, {} under power of two, {} where its length is known, {} ".format(*slots) in (
        said("2.2")
    )


@pytest.mark.parametrize("number", STATIONS)
def test_the_strip_shows_where_it_is(number):
    canvas, words = strip(number)
    assert_legible(canvas.svg(words))
    assert said(number).count("\n") < 2 and said(number) in words and f"with {number} marked" in words
    assert len(boxes(canvas, style.HIGHLIGHT)) == 1
    assert [text for text in texts(canvas) if text in STATIONS] == STATIONS
    assert_to_scale([*widths(canvas, style.TOKEN), widths(canvas, style.BACKGROUND)[0]], [38, 12, 150])


def test_a_lesson_that_it_does_not_pass_is_refused():
    with pytest.raises(ValueError, match=r"a lesson with a THREAD, 2\.1, .*, not '1'"):
        strip("1")
