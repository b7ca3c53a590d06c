"""One request on its way through the engine, a step of many, and what is said of a step.

A request has no state to keep up to date: what is known (`tokens`) minus what is stored (`table`) says what is left to
do.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pagedkv.arguments import finite_number, whole_number
from pagedkv.block_table import BlockTable


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: at temperature 0 the likeliest, else drawn, the same from the same seed and position.

    `stop_token` ends a request, and is its last token. Raises TypeError or ValueError that names the argument.
    """

    max_new_tokens: int = 16
    temperature: float = 0.0
    seed: int = 0
    stop_token: int | None = None

    def __post_init__(self):
        keep = partial(object.__setattr__, self)  # plain numbers: sums of a NumPy uint8 would overflow
        keep("max_new_tokens", whole_number("max_new_tokens", self.max_new_tokens, 1))
        keep("temperature", finite_number("temperature", self.temperature, 0))
        keep("seed", whole_number("seed", self.seed, -math.inf))
        if self.stop_token is not None:
            keep("stop_token", whole_number("stop_token", self.stop_token))


GREEDY = Sampling()


@dataclass(eq=False, slots=True)
class Generation:
    """A request: `tokens` are the prompt and all that was sampled, `table` holds those whose K and V are stored.

    Without a table it waits; then `parked` may say where in host memory its K and V are.
    """

    request_id: int
    tokens: list[int] = field(repr=False)
    sampling: Sampling
    identity: Hashable = None  # whose tokens these are, for reuse: an adapter, a tenant
    num_prompt: int = field(init=False)
    table: BlockTable | None = None
    parked: Any = None  # what the host's `park` gave
    finish_reason: str | None = None  # "length", "stop", or "abort"
    preemptions: int = 0
    clears: int = 0  # how often the prefix cache had been cleared when the first of these tokens was stored

    def __post_init__(self):
        self.num_prompt = len(self.tokens)

    @property
    def num_stored(self) -> int:
        return self.table.num_tokens if self.table is not None else 0

    @property
    def num_pending(self) -> int:
        """Tokens to run before the next can be sampled: 1 in decode; more is (the rest of) a prefill."""
        return len(self.tokens) - (self.table.num_tokens if self.table is not None else 0)

    @property
    def output(self) -> list[int]:
        return self.tokens[self.num_prompt :]

    @property
    def max_stored(self) -> int:
        """Tokens that are stored at the end: the last one sampled never is."""
        return self.num_prompt + self.sampling.max_new_tokens - 1


@dataclass(slots=True)
class Step:
    """What to run now: `work` is (request, tokens), its last so many; `slots` are theirs, in the same order."""

    work: list[tuple[Generation, int]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)  # blocks, (source, destination), before anything else
    ready: list[Generation] = field(default_factory=list)  # whose next token this step gives, in the order of work
    admitted: list[Generation] = field(default_factory=list)
    preempted: list[Generation] = field(default_factory=list)
    lost: int = 0  # tokens of those preempted whose K and V are gone
    parked: int = 0  # tokens whose K and V went to the host
    restored: int = 0  # tokens that came back from there
    reused: int = 0  # tokens found in blocks of the prefix cache


class Token(NamedTuple):
    """One token as it is handed out; the last of a request says why it is the last."""

    request_id: int
    token: int
    finish_reason: str | None  # of the last: "length", or "stop"


class Event(NamedTuple):
    """A request arrives, is admitted or preempted, or leaves, before the step of this number runs."""

    step: int
    what: str  # "arrived", "admitted", "preempted", or a finish_reason
    request_id: int
    tokens: int  # known then
    max_stored: int  # tokens that are stored if it runs to its end


class Usage(NamedTuple):
    """A step in numbers, read after it was scheduled and before anyone left. All but the first three in tokens."""

    running: int
    waiting: int
    blocks_used: int
    tokens_stored: int
    prefill_tokens: int  # run for requests with more than one token pending
    decode_tokens: int
    preempted: int  # requests
    lost: int
    parked: int
    reused: int
    restored: int


def usage_of(scheduler, step: Step) -> Usage:
    """The numbers of a step that `scheduler` has just given."""
    running, pool = scheduler.running.values(), scheduler.pool
    prefill = sum(n for _, n in step.work if n > 1)
    return Usage(
        len(running), len(scheduler.waiting), pool.num_blocks - pool.num_free,
        sum(request.table.num_tokens for request in running), prefill, len(step.slots) - prefill,
        len(step.preempted), step.lost, step.parked, step.reused, step.restored,
    )  # fmt: skip
