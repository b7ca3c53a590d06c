"""Lesson 5.1: one request through everything."""

from pagedkv.course.thread import MIRA

TITLE = "Summary"
THREAD = (
    f"The whole way in one run. A request of eleven words stands in for its {MIRA.stored} tokens and\n"
    f"{len(MIRA.table)} blocks, so that every slot can be drawn; its output equals the standard one."
)
