"""Lesson 2.1: how many bytes a token takes, and a span for every request."""

from pagedkv.course.thread import MIRA

TITLE = "Contiguous allocation"
SENTENCE = "a span as long as the\nlongest possible request"
THREAD = (
    f"K and V of {MIRA.stored} tokens are stored, {MIRA.generated} of them the model's own. They stay until it ends,\n"
    f"in a reservation for the longest sequence there is: 2,048 slots, of which {MIRA.total_tokens} will be filled."
)
