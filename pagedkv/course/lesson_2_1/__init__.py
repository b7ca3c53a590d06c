"""Lesson 2.1: how many bytes a token takes, and a span for every request."""

from pagedkv.course.thread import MIRA

TITLE = "Contiguous allocation"
SENTENCE = "a span as long as the\nlongest possible request"
THREAD = (
    f"{MIRA.stored} tokens are known, {MIRA.generated} of them from the model. Their K and V stay until it ends,\n"
    f"in a reservation for the longest sequence there is: 2,048 slots, of which {MIRA.total_tokens} will be filled."
)
