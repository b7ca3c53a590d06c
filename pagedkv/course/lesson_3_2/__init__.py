"""Lesson 3.2: blocks taken when they are needed, K and V written and read by slot."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Logical to physical"
SENTENCE = "take a block when needed;\nwrite and read by slot"
THREAD = (
    f"Its text has {MIRA.stored + 1} tokens, of which {MIRA.stored} are stored. K and V of the newest go into block\n"
    f"{MIRA.table[-1]}, offset {MIRA.stored % BLOCK_SIZE}. The block has room for {-MIRA.stored % BLOCK_SIZE};"
    " then another is taken."
)
