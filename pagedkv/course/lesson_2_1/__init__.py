"""Lesson 2.1: how many bytes a token takes, and a span for every request."""

from pagedkv.course.thread import MIRA
from pagedkv.sizing import MODELS

TITLE = "Contiguous allocation"
SENTENCE = "a span as long as the\nlongest possible request"
_MIB = {name: MODELS[name].bytes_for(MIRA.stored) / 2**20 for name in ("opt-13b", "llama-3-8b")}
THREAD = (
    f"K and V of {MIRA.stored} tokens: {_MIB['opt-13b']:.1f} MiB in OPT-13B, {_MIB['llama-3-8b']:.2f} MiB in "
    f"Llama-3-8B.\nA reservation of 2,048 slots holds far more than the {MIRA.total_tokens} that it will ever fill."
)
