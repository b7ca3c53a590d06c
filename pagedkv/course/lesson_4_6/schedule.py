"""A card on paper: which item of a decode step runs where and when, if reading a token takes one unit of time.

A *place* is room for an item: for its programs, one for each KV head. A place that is free takes the next item, in
order. Left out is all that a real card adds: programs that share the memory slow one another down, each takes a while
before its first token, and partial results have to be written, read and merged.
"""

import heapq
from collections.abc import Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import ceil_div

TILE, LONG = 32, 16_384  # tokens
Q_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128  # Llama-3-8B's
MULTIPROCESSORS, FIT = 132, 6  # of an H200; programs on one, with tiles of 32 and two warps
PLACES = MULTIPROCESSORS * FIT // KV_HEADS


class Bar(NamedTuple):
    place: int
    start: int
    end: int
    item: int


class Schedule(NamedTuple):
    bars: list[Bar]
    places: int

    @property
    def time(self) -> int:
        """When the last item ends."""
        return max(bar.end for bar in self.bars)

    @property
    def at_best(self) -> float:
        """The same, if no place were ever idle."""
        return sum(bar.end - bar.start for bar in self.bars) / self.places

    @property
    def idle(self) -> float:
        """The share of all places' time in which they have no item."""
        return 1 - self.at_best / self.time if self.time else 0.0


def chats() -> list[int]:
    """The lengths of 63 requests of a chat service, each halfway through its answer."""
    requests = sample_requests("azure-conv", 63, seed=0)
    return [request.prompt_tokens + request.output_tokens // 2 for request in requests]


def one_long() -> list[int]:
    """The same, and among them one of 16,384 tokens."""
    lengths = chats()
    return [*lengths[:20], LONG, *lengths[20:]]


def cut_evenly(lengths: Sequence[int], cut: int, tile: int = TILE) -> list[tuple[int, int, int, int]]:
    """Rows (sequence, part, first, end): as few parts of at most `cut` tokens as there can be, equal in whole tiles.

    The part is -1 where it is the only one; a sequence without tokens has one.
    """
    rows = []
    for seq, length in enumerate(lengths):
        parts = max(1, ceil_div(length, cut))
        size = tile * ceil_div(length, parts * tile)
        for part in range(parts):
            rows.append((seq, part if parts > 1 else -1, part * size, min(length, (part + 1) * size)))
    return rows


def cut_at(lengths: Sequence[int], cut: int) -> list[tuple[int, int, int, int]]:
    """The same rows, cut after every `cut` tokens, as a call without a plan does: the last part is what is left."""
    return [
        (seq, part if length > cut else -1, first, min(length, first + cut))
        for seq, length in enumerate(lengths)
        for part, first in enumerate(range(0, max(length, 1), cut))
    ]


def run(rows: Sequence[tuple[int, int, int, int]], places: int = PLACES) -> Schedule:
    """The items of `rows`, in order, each on the place that is free first."""
    free, bars = [(0, place) for place in range(places)], []
    for item, (_, _, first, end) in enumerate(rows):
        start, place = free[0]
        heapq.heapreplace(free, (start + end - first, place))
        bars.append(Bar(place, start, start + end - first, item))
    return Schedule(bars, places)


def partial_bytes(rows) -> int:
    """What the items of cut sequences write: the output and the log-sum-exp of each query head, in float32."""
    return sum(part >= 0 for _, part, _, _ in rows) * Q_HEADS * (HEAD_DIM + 1) * 4


def kv_bytes(lengths) -> int:
    """K and V of one layer, in two bytes a number."""
    return sum(lengths) * KV_HEADS * HEAD_DIM * 2 * 2


def rows_of(plan) -> list[tuple[int, int, int, int]]:
    """The rows of a plan's table that hold a sequence; none where it has no table."""
    return [] if plan.items is None else [tuple(row) for row in plan.items[: int(plan.first_items[-1])].tolist()]


@contextmanager
def card_of(multiprocessors: int):
    """Plans made inside are for a card with so few: the interpreter takes milliseconds a program."""
    from pagedkv.attention.triton import plan

    real, plan.multiprocessors = plan.multiprocessors, lambda device: multiprocessors
    try:
        yield
    finally:
        plan.multiprocessors = real
