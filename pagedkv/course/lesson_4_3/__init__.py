"""Lesson 4.3: the decode kernel, rung by rung."""

TITLE = "The Triton kernel"
SENTENCE = "bytes first: tiles, groups,\nsplit-KV"
