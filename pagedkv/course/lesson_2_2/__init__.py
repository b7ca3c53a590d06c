"""Lesson 2.2: where the memory goes under each policy."""

from pagedkv.course.thread import MIRA

TITLE = "Fragmentation"
SENTENCE = "reserved, internal, external:\neach measured over time"
_POWER = MIRA.prompt_tokens + (1 << (MIRA.output_tokens - 1).bit_length())
THREAD = (
    f"For {MIRA.stored} stored tokens it holds 2,048 slots under max length, {_POWER} under power of two,\n"
    f"{MIRA.total_tokens} where its length is known, {16 * -(-MIRA.stored // 16)} where it is paged."
)
