"""Lesson 4.6: who reads which tokens, decided once a step over the real lengths."""

from pagedkv.course.thread import MIRA

TITLE = "Plan and run"
SENTENCE = "lengths cut into items,\nonce a step for all layers"
THREAD = (
    f"Its row in the table of a plan: its number, part -1, tokens 0 to {MIRA.stored}. A sequence as short\n"
    "as this is not cut, and nothing of it is merged."
)
