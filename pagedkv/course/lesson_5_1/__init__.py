"""Lesson 5.1: one request through everything."""

TITLE = "Summary"
