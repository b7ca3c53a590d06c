"""Lesson 6.1: a real model that writes and reads K and V through block tables."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "A model on the cache"
SENTENCE = "a real model, with attention\nthrough the block tables"
_BLOCK, _OFFSET = MIRA.table[MIRA.stored // BLOCK_SIZE], MIRA.stored % BLOCK_SIZE
THREAD = (
    f"In every layer of a model the token at position {MIRA.stored} writes K and V to slot "
    f"{_BLOCK} × {BLOCK_SIZE} + {_OFFSET},\n"
    f"then reads all {MIRA.stored + 1}. One table of {len(MIRA.table)} entries serves all layers."
)
