"""Lesson 4.2: softmax in one pass, and the merge of partial results."""

TITLE = "Online softmax"
SENTENCE = "m, l and O make one pass\nover the tiles exact"
