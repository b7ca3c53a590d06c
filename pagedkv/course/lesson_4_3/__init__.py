"""Lesson 4.3: Triton from zero."""

from pagedkv.course.thread import MIRA

TITLE = "Triton from zero"
SENTENCE = "kernels from a blank page,\nup to paged decode"
THREAD = (
    f"A program reads entry 2 of its table, {MIRA.table[2]}, and loads 16 rows from there.\n"
    f"One kernel gathers all {MIRA.stored} rows, another attends to them where they lie."
)
