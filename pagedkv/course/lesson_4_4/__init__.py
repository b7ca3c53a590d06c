"""Lesson 4.4: the decode kernel, rung by rung."""

TITLE = "The ladder"
SENTENCE = "bytes first: tiles, groups,\nsplit-KV"
