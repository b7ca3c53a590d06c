"""Lesson 3.3: one block for several sequences."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Sharing blocks"
SENTENCE = "reference counts, copy on\nwrite, reuse of prefixes"
_SHARED = MIRA.table[: -(-MIRA.prompt_tokens // BLOCK_SIZE)]
THREAD = (
    f"A second answer to the same prompt need not store blocks {str([*_SHARED])[1:-1]} again. But both answers\n"
    f"are written behind the prompt, and that ends inside block {_SHARED[-1]}."
)
