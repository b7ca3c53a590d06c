"""Lesson 6.5: an engine on the learner's own parts, faults found in what it holds, a policy of one's own."""

from pagedkv.course.thread import MIRA

TITLE = "Your engine"
SENTENCE = "a real model on your own pool,\ntable, attention and schedule"
THREAD = (
    f"Its way ends: after {MIRA.output_tokens} tokens of answer all blocks go back, {[*MIRA.table]} among them.\n"
    "Every part that it went through can be yours: pool, table, names, attention, kernel, schedule."
)
