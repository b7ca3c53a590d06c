"""Lesson 5.1: one request through everything."""

from pagedkv.course.thread import MIRA

TITLE = "Summary"
THREAD = (
    f"The whole way in one run: {MIRA.stored} tokens, {len(MIRA.table)} blocks, their slots, K and V,\n"
    "attention by block, and an output that equals the standard one."
)
