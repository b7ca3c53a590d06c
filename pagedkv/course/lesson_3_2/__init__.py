"""Lesson 3.2: blocks taken when they are needed, K and V written and read by slot."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Logical to physical"
SENTENCE = "take a block when needed;\nwrite and read by slot"
THREAD = (
    f"K and V of the next token, position {MIRA.stored}, go into block {MIRA.table[-1]}, "
    f"offset {MIRA.stored % BLOCK_SIZE}:\n"
    "written by slot, read back through the table."
)
