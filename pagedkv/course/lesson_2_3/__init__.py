"""Lesson 2.3: allocate on demand, read in order, and the table between the two."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "The core tension"
SENTENCE = "allocate on demand,\nyet read in order"
_BLOCKS = -(-MIRA.stored // BLOCK_SIZE)
THREAD = (
    f"Its {MIRA.stored} tokens keep their order in a table of {_BLOCKS} entries; the blocks may lie anywhere.\n"
    f"{_BLOCKS * BLOCK_SIZE - MIRA.stored} slots of the last block wait for its next tokens: less than a block."
)
