"""Lesson 3.1: from a token to its slot."""

from pagedkv.course.thread import MIRA

TITLE = "Block, slot, table"
SENTENCE = "token → block, offset\n→ table → slot"
THREAD = (
    f"Its {MIRA.stored} tokens lie in the blocks {[*MIRA.table]}, in that order.\n"
    f"Token {MIRA.prompt_tokens - 1} is the last of the prompt: in which slot is it?"
)
