"""Lesson 2.2: where the memory goes under each policy."""

TITLE = "Fragmentation"
SENTENCE = "reserved, internal, external:\neach measured over time"
