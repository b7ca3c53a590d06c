"""Lesson 4.3: Triton from zero."""

from pagedkv.course.thread import MIRA

TITLE = "Triton from zero"
SENTENCE = "kernels from a blank page,\nup to paged decode"
THREAD = (
    f"Program 2 reads entry 2 of its table, {MIRA.table[2]}, and with it {MIRA.table[2]} · 16 + 5: the row of token 37.\n"
    f"One kernel gathers its {MIRA.stored} rows, another attends to them where they lie."
)
