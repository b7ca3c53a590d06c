"""Lesson 6.2: the loop of an engine, in which requests join and leave at every step."""

from pagedkv.course.thread import MIRA

TITLE = "Continuous batching"
SENTENCE = "requests join and leave\nat every step, within a budget"
THREAD = (
    f"Its prompt is a share of {MIRA.prompt_tokens} tokens in one step, then come {MIRA.output_tokens - 1} of one.\n"
    "It joins the batch between two steps and leaves between two; nobody waits for its last token."
)
