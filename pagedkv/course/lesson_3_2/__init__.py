"""Lesson 3.2: blocks taken when they are needed, K and V written and read by slot."""

TITLE = "Logical to physical"
SENTENCE = "take a block when needed;\nwrite and read by slot"
