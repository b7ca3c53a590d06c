"""Lesson 4.4: the decode kernel, rung by rung."""

from pagedkv.course.thread import MIRA

TITLE = "The ladder"
SENTENCE = "bytes first: tiles, groups,\nsplit-KV"
THREAD = (
    f"The kernel looks up {str([*MIRA.table])[1:-1]}, loads K and V from there,\nand stops after {MIRA.stored} tokens."
)
