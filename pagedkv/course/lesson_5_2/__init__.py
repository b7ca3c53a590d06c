"""Lesson 5.2: the chapter's three questions."""

TITLE = "Quiz"
