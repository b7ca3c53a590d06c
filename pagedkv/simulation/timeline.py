"""What a simulated run held in memory at every step, in token slots, and where.

The log of a run is a list of stays: which request held memory from which step to which. Between two events nothing but
growth happens, so all the rest follows from the stays by sums over arrays.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pagedkv.arguments import whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.simulation.arena import Extent
from pagedkv.simulation.workload import Request
from pagedkv.sizing import ceil_div

SHARES = ("token_states", "reserved", "internal", "external")


@dataclass(slots=True)
class Stay:
    """A request that holds memory from point `start` to before `stop`, in contiguous memory one extent all that time.
    It stores `tokens` tokens at `start` and one more at each following point."""

    request: Request
    start: int
    stop: int
    tokens: int
    extent: Extent | None


@dataclass
class Log:
    """The events of a run. Times are in points: a point is one step, or a whole idle gap."""

    stays: list[Stay] = field(default_factory=list)  # in the order of admission
    gaps: list[tuple[int, int]] = field(default_factory=list)  # (point, steps that it lasts)
    arrival_steps: list[int] = field(default_factory=list)
    left_queue: list[int] = field(
        default_factory=list
    )  # a point for each admission, and for each refusal after waiting
    preempted: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)  # (point, tokens)
    refused: dict[int, str] = field(default_factory=dict)
    finished: dict[int, int] = field(default_factory=dict)


class Piece(NamedTuple):
    """One unbroken stretch of memory of one request: from slot `start` on `tokens` slots that hold K/V, then `reserved`
    ones (used later by this request), `internal` ones (asked for, never used) and `rounding` (the allocator's)."""

    request_id: int
    start: int
    tokens: int
    reserved: int
    internal: int
    rounding: int


class _Stays(NamedTuple):
    """The log's stays as arrays, one entry each: `final` tokens when the request ends; the extent's place, size and
    what was asked for.
    """

    request_id: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    tokens: np.ndarray
    final: np.ndarray
    place: np.ndarray
    size: np.ndarray
    asked: np.ndarray


class Timeline:
    """One run as arrays with one entry per change point. Growth changes them at every step, so each step is a change
    point; an idle gap, however long, is a single one.

    step, duration                 the point's first step, and how many steps it lasts
    token_states                   slots that hold the K/V of a token
    reserved                       slots that will be used later by the request that holds them
    internal                       slots that the policy asked for and nobody will ever use
    external                       all others: holes, free memory, the allocator's rounding. The four add up to
    `capacity` rounding                       the part of `external` that the allocator added to what it was asked for
    running, waiting               requests
    preemptions, copied_tokens     requests preempted, and tokens moved to a larger extent, in the point's first step

    `refused` maps the ids of requests that can never fit to the reason, `finished` those of the others to their last
    step.
    """

    def __init__(self, log: Log, num_points: int, capacity: int, block_size: int | None):
        self.capacity, self.block_size, self.refused = capacity, block_size, log.refused
        rows = [
            (s.request.request_id, s.start, s.stop, s.tokens, s.request.total_tokens, *(s.extent or (0, 0, 0)))
            for s in log.stays
        ]
        self._stays = stays = _Stays(*np.array(rows, np.int64).reshape(-1, len(_Stays._fields)).T)
        start, stop, tokens, final, asked = stays.start, stays.stop, stays.tokens, stays.final, stays.asked

        def at(points, weights=None):
            """For each point, how many events there are, or the sum of their weights."""
            return np.bincount(np.asarray(points, np.int64), weights, num_points + 1)[:num_points].astype(np.int64)

        def over(start, stop, weights=None):
            """For each point, how many spans last over it, or the sum of their weights."""
            return np.cumsum(at(start, weights) - at(stop, weights))

        self.duration = np.ones(num_points, np.int64)
        for point, steps in log.gaps:
            self.duration[point] = steps
        self.step = np.cumsum(self.duration) - self.duration
        self.finished = {request_id: int(self.step[point]) for request_id, point in log.finished.items()}
        self.running = over(start, stop)
        self.token_states = over(start, stop, tokens - start) + self.running * np.arange(num_points)
        if block_size is None:
            held, self.internal = over(start, stop, asked), over(start, stop, np.maximum(asked - final, 0))
            self.rounding = over(start, stop, stays.size - asked)
        else:
            stay, taken = self._growth
            held = block_size * (over(start, stop, ceil_div(tokens, block_size)) + over(taken, stop[stay]))
            last = ceil_div(final, block_size) * block_size  # slots when all of its blocks are held
            full = np.minimum(np.maximum(start, start + last - block_size + 1 - tokens), stop)  # from when on they are
            self.internal = over(full, stop, last - final)
            self.rounding = np.zeros(num_points, np.int64)
        self.reserved = held - self.internal - self.token_states
        self.external = capacity - held
        self.preemptions = at(log.preempted)
        self.copied_tokens = at([point for point, _ in log.copies], [count for _, count in log.copies])
        self.waiting = np.cumsum(
            at(np.searchsorted(self.step, log.arrival_steps)) + self.preemptions - at(log.left_queue)
        )

    @property
    def num_steps(self) -> int:
        """Steps from the start to the end of the run, idle ones included."""
        return int(self.step[-1] + self.duration[-1])

    def shares(self) -> dict[str, float]:
        """Mean share of `capacity` of each of the four parts over the steps at which a request waits, or over all at
        which one runs if none ever waits. They sum to 1."""
        busy = self.waiting > 0 if self.waiting.any() else self.running > 0
        slots = self.capacity * int(self.duration[busy].sum())
        return {name: float((getattr(self, name) * self.duration)[busy].sum() / slots) for name in SHARES}

    def snapshot(self, step: int) -> list[Piece]:
        """Who holds which slots at `step`, by address; what no piece covers is free.

        Blocks of a paged run are one piece each.
        """
        point = int(np.searchsorted(self.step, whole_number("step", step, 0, self.num_steps - 1), "right")) - 1
        here = np.flatnonzero((self._stays.start <= point) & (point < self._stays.stop))
        stays = _Stays(*(column[here] for column in self._stays))
        stored = stays.tokens + point - stays.start
        if self.block_size is not None:
            b = self.block_size
            return sorted(
                (
                    Piece(
                        owner,
                        block * b,
                        n := min(stored - i * b, b),
                        min(final - i * b, b) - n,
                        max((i + 1) * b - final, 0),
                        0,
                    )
                    for stay, owner, stored, final in np.stack(
                        [here, stays.request_id, stored, stays.final], 1
                    ).tolist()
                    for i, block in enumerate(self._blocks[stay][: ceil_div(stored, b)])
                ),
                key=lambda piece: piece.start,
            )
        used = np.minimum(stays.final, stays.asked)
        columns = (stays.request_id, stays.place, stored, used - stored, stays.asked - used, stays.size - stays.asked)
        return sorted((Piece(*row) for row in np.stack(columns, 1).tolist()), key=lambda piece: piece.start)

    @cached_property
    def _growth(self) -> tuple[np.ndarray, np.ndarray]:
        """Every block taken by growth: the index of the stay, and the point."""
        start, stop, tokens = self._stays.start, self._stays.stop, self._stays.tokens
        first = start + -tokens % self.block_size + 1
        counts = np.maximum(ceil_div(stop - first, self.block_size), 0)
        stay = np.repeat(np.arange(len(start)), counts)
        nth = np.arange(len(stay)) - np.repeat(np.cumsum(counts) - counts, counts)
        return stay, first[stay] + nth * self.block_size

    @cached_property
    def _blocks(self) -> list[list[int]]:
        """The blocks of each stay, in logical order, from a run of the same events on a BlockPool: at each point blocks
        are freed first, then taken for growth and then for new requests, in order of admission."""
        start, stop, tokens = self._stays.start, self._stays.stop, self._stays.tokens
        num_stays = len(start)
        stay, taken = self._growth
        points = np.concatenate([stop, taken, start])
        stays = np.concatenate([np.arange(num_stays), stay, np.arange(num_stays)])
        takes = np.concatenate([np.zeros(num_stays), np.ones(len(stay)), ceil_div(tokens, self.block_size)]).astype(
            np.int64
        )
        phase = np.repeat([0, 1, 2], [num_stays, len(stay), num_stays])
        pool = BlockPool(self.capacity // self.block_size, self.block_size)
        blocks = [[] for _ in range(num_stays)]
        for event in np.lexsort((stays, phase, points)).tolist():
            if phase[event]:
                blocks[stays[event]] += pool.allocate(int(takes[event]))
            else:
                pool.free(blocks[stays[event]])
        return blocks
