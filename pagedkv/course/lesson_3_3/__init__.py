"""Lesson 3.3: one block for several sequences."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Sharing blocks"
SENTENCE = "reference counts, copy on\nwrite, reuse of prefixes"
_SHARED = -(-MIRA.prompt_tokens // BLOCK_SIZE)
THREAD = (
    f"A second answer to the same prompt shares blocks {str([*MIRA.table[:_SHARED]])[1:-1]}; "
    f"{MIRA.table[_SHARED - 1]}, where the\nprompt ends, is copied as soon as one of the two writes into it."
)
