"""The one request that the course follows from lesson 2.1 on: Mira's question, seen at one moment of its answer.

At that moment 50 tokens are stored, the whole prompt and the first 12 of the answer. In blocks of 16 that is the table
[12, 7, 42, 3] of lessons 3.1 and 3.2, and token 37, which they follow to slot 677, is the last one of the prompt. In
the end 200 tokens need a slot: the example of lesson 2.2. Lengths are in tokens; a token is here a word or a mark.
"""

import re
from dataclasses import dataclass

BLOCK_SIZE = 16


def tokens_of(text: str) -> list[str]:
    """The words and marks of a text: longer pieces than a real tokenizer's, and enough to count with."""
    return re.findall(r"\w+|[^\w\s]", text)


@dataclass(frozen=True)
class Thread:
    """A request at one moment: its text so far, and how many tokens its answer will have."""

    name: str
    prompt: str
    answer: str  # sampled so far; its last token has no K and V yet
    output_tokens: int
    table: tuple[int, ...]  # the blocks of lessons 3.1 and 3.2, of BLOCK_SIZE slots

    @property
    def prompt_tokens(self) -> int:
        return len(tokens_of(self.prompt))

    @property
    def generated(self) -> int:
        """Tokens of the answer whose K and V are stored."""
        return len(tokens_of(self.answer)) - 1

    @property
    def stored(self) -> int:
        return self.prompt_tokens + self.generated

    @property
    def total_tokens(self) -> int:
        """Slots that it needs in the end, as part one counts: the last token has one too."""
        return self.prompt_tokens + self.output_tokens


MIRA = Thread(
    name="Mira",
    prompt=(
        "My train leaves at nine, the station is twenty minutes away on foot, and it is raining. "
        "When should I leave, what should I take, and what if I miss the train?"
    ),
    answer="Leave at half past eight: in the rain the walk takes longer",
    output_tokens=162,
    table=(12, 7, 42, 3),
)
