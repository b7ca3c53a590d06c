"""Lesson 6.3: preemption, by computing again or by swapping."""

from pagedkv.course.thread import MIRA

TITLE = "When memory runs out"
SENTENCE = "who goes, what is lost,\nrecompute or swap"
THREAD = (
    f"No block is free, and it was admitted last: it gives up all {len(MIRA.table)} of its own, {MIRA.stored} tokens.\n"
    f"When it is back, {MIRA.stored + 1} tokens run at once: these, and the one that was sampled last."
)
