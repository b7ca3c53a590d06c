"""Lesson 3.3: one block for several sequences."""

TITLE = "Sharing blocks"
SENTENCE = "reference counts, copy on\nwrite, reuse of prefixes"
