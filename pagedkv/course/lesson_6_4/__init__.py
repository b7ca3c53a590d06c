"""Lesson 6.4: prefixes found in the step that computes them, and caches that are narrower, smaller or split."""

from pagedkv.course.thread import BLOCK_SIZE, MIRA

TITLE = "Reuse and scale"
SENTENCE = "found again at once; windows,\nFP8, heads on two ranks"
_FULL = MIRA.prompt_tokens // BLOCK_SIZE
THREAD = (
    f"The next request with its beginning finds blocks {str([*MIRA.table[:_FULL]])[1:-1]} and need not run them.\n"
    f"On two ranks each holds half of its heads, under the one table {[*MIRA.table]}."
)
