"""Lesson 4.2: softmax in one pass, and the merge of partial results."""

from pagedkv.course.thread import MIRA

TITLE = "Online softmax"
SENTENCE = "m, l and O make one pass\nover the tiles exact"
THREAD = (
    f"Its {len(MIRA.table)} blocks are {len(MIRA.table)} updates of m, l and O. After the last one the output is that\n"
    f"of all {MIRA.stored} tokens at once."
)
