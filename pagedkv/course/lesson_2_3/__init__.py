"""Lesson 2.3: allocate on demand, read in order, and the table between the two."""

TITLE = "The core tension"
SENTENCE = "allocate on demand,\nyet read in order"
