"""Lesson 4.1: attention that reads a block at a time."""

TITLE = "Reading by block"
SENTENCE = "look up one block at a time;\nmask the last one"
