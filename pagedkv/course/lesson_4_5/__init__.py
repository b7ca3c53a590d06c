"""Lesson 4.5: the production kernel read, compiled ahead, measured, profiled and tuned."""

from pagedkv.course.thread import MIRA

TITLE = "The kernel in use"
SENTENCE = "what decides its speed, and\nhow to know"
THREAD = f"Among others of a batch: one program for each KV head, since\n{MIRA.stored} tokens need no second split."
