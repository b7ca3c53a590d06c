"""What a simulated run held in memory at every step, in token slots, and where.

Between two events of a run's log nothing but growth happens, so all follows from the stays by sums over arrays.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from pagedkv.arguments import whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.simulation.log import Layout, Log
from pagedkv.sizing import ceil_div

SHARES = ("token_states", "reserved", "internal", "external", "free")


class Piece(NamedTuple):
    """One unbroken stretch of memory of one request: from slot `start` on `tokens` slots that hold K/V, then `reserved`
    ones (used later by this request), `internal` ones (asked for, never used) and `rounding` (the allocator's)."""

    request_id: int
    start: int
    tokens: int
    reserved: int
    internal: int
    rounding: int


class Hole(NamedTuple):
    """`size` slots from `start` on that nobody holds; `usable` unless it is too small for a request that waits."""

    start: int
    size: int
    usable: bool


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

    - `step`, `duration`: the point's first step, and how many steps it lasts
    - `token_states`: slots that hold the K/V of a token
    - `reserved`: slots that will be used later by the request that holds them
    - `internal`: slots that the policy asked for and nobody will ever use
    - `free`: slots that any request could use: the free blocks of a pool; the holes of an arena, while a request waits
      only those that could take the head of the queue
    - `external`: all others: holes too small for it, the allocator's rounding, what is not the policy's. The five add
      up to `capacity`
    - `rounding`: the part of `external` that the allocator added to what it was asked for
    - `running`, `waiting`: requests
    - `wanted`: slots that the head of the queue asks an arena for; 0 while none waits, or in a pool
    - `preemptions`, `copied_tokens`: requests preempted, and tokens moved to a larger extent, in the point's first step

    `refused` maps the ids of requests that can never fit to the reason, `finished` those of the others to their last
    step.
    """

    def __init__(self, log: Log, num_points: int, capacity: int, block_size: int | None):
        self.capacity, self.block_size, self.refused = capacity, block_size, log.refused
        self._layouts, self._wanted, self._usable = log.layouts, log.wanted, log.usable
        self._stays = stays = _stays(log)
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
        self.preemptions = at(log.preempted)
        self.copied_tokens = at([point for point, _ in log.copies], [count for _, count in log.copies])
        self.waiting = np.cumsum(
            at(np.searchsorted(self.step, log.arrival_steps)) + self.preemptions - at(log.left_queue)
        )
        self.free = log.usable - held - self.rounding
        self.wanted = np.zeros(num_points, np.int64)
        if block_size is None:
            then = self._layout_at(np.arange(num_points))
            fit = [sum(hole.size for hole in self._holes(layout) if hole.usable) for layout in log.layouts]
            self.free = np.where(self.waiting, np.array(fit)[then], self.free)
            self.wanted = np.array([self._wanted_by_head(layout) for layout in log.layouts])[then]
        self.external = capacity - held - self.free

    @property
    def num_steps(self) -> int:
        """Steps from the start to the end of the run, idle ones included."""
        return int(self.step[-1] + self.duration[-1])

    def shares(self) -> dict[str, float]:
        """Mean share of `capacity` of each of the five parts over the steps at which a request waits, or over all at
        which one runs if none ever waits. They sum to 1."""
        return {name: self.share(getattr(self, name)) for name in SHARES}

    def share(self, slots: np.ndarray) -> float:
        """The same mean for any number of slots at each point, such as `rounding`."""
        busy = self.waiting > 0 if self.waiting.any() else self.running > 0
        return float((slots * self.duration)[busy].sum() / (self.capacity * int(self.duration[busy].sum())))

    def snapshot(self, step: int) -> list[Piece]:
        """Who holds which slots at `step`, by address; what nobody holds is in `holes(step)`.

        Blocks of a paged run are one piece each.
        """
        point = self._point(step)
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

    def holes(self, step: int) -> list[Hole]:
        """What nobody holds at `step`, by address: the holes of an arena, or the stretches of free blocks of a pool."""
        point = self._point(step)
        if self.block_size is None:
            return self._holes(self._layouts[self._layout_at(point)])
        held = [piece.start for piece in self.snapshot(step)]
        ends, starts = [0, *(start + self.block_size for start in held)], [*held, self._usable]
        return [Hole(end, start - end, True) for end, start in zip(ends, starts, strict=True) if end < start]

    def _point(self, step: int) -> int:
        return int(np.searchsorted(self.step, whole_number("step", step, 0, self.num_steps - 1), "right")) - 1

    def _layout_at(self, points):
        """The place in the log of the layout that holds at each point."""
        return np.searchsorted([layout.point for layout in self._layouts], points, "right") - 1

    def _holes(self, layout: Layout) -> list[Hole]:
        wanted = self._wanted_by_head(layout)
        return [Hole(hole.start, hole.size, hole.size >= wanted) for hole in layout.holes]

    def _wanted_by_head(self, layout: Layout) -> int:
        return self._wanted[layout.head] if layout.head else 0

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


def _stays(log: Log) -> _Stays:
    """The log's stays as arrays. Raises ValueError if an extent has too few slots."""
    rows = []
    for stay in log.stays:
        request, extent = stay.request, stay.extent
        stored = stay.tokens + stay.stop - 1 - stay.start
        if extent and stored > extent.requested:
            raise ValueError(
                f"policy must hold a slot for each token: request {request.request_id} stores {stored} in an extent of "
                f"{extent.requested}"
            )
        rows.append(
            (request.request_id, stay.start, stay.stop, stay.tokens, request.total_tokens, *(extent or (0, 0, 0)))
        )
    return _Stays(*np.array(rows, np.int64).reshape(-1, len(_Stays._fields)).T)
