"""Lesson 3.1: from a token to its slot."""

TITLE = "Block, slot, table"
SENTENCE = "token → block, offset\n→ table → slot"
