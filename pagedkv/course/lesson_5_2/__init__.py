"""Lesson 5.2: the chapter's three questions."""

from pagedkv.course.thread import MIRA

TITLE = "Quiz"
THREAD = f"One wrong entry in {[*MIRA.table]}, and it reads what belongs to somebody else."
