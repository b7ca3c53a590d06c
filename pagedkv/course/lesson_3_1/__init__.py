"""Lesson 3.1: from a token to its slot."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Block, slot, table"
SENTENCE = "token → block, offset\n→ table → slot"
_LAST = MIRA.prompt_tokens - 1
_BLOCK, _OFFSET = MIRA.table[_LAST // BLOCK_SIZE], _LAST % BLOCK_SIZE
THREAD = (
    f"Its table is {[*MIRA.table]}. Token {_LAST}, the last of the prompt, lies in block {_BLOCK}\n"
    f"at offset {_OFFSET}: slot {_BLOCK * BLOCK_SIZE + _OFFSET}."
)
