"""Lesson 4.1: attention that reads a block at a time."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Reading by block"
SENTENCE = "look up one block at a time;\nmask the last one"
_LAST = MIRA.stored % BLOCK_SIZE
THREAD = (
    f"The query of its newest token reads blocks {str([*MIRA.table])[1:-1]}: three whole ones, and {_LAST} slots\n"
    f"of the last. What lies in the {BLOCK_SIZE - _LAST} slots behind them must not matter."
)
