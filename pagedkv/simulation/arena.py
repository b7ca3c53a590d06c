"""Contiguous memory, in token slots: every request gets one unbroken stretch, and what lies between the stretches is
holes.

`Arena` cuts exactly what was asked for out of a hole and merges neighbouring holes when a stretch comes back.
`BuddyArena` rounds every request up to a power of two, as early serving systems did: cheaper to search, but the
rounding is lost.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

from pagedkv.arguments import one_of, shown, whole_number

MAX_SLOTS = 2**40


class Extent(NamedTuple):
    """Slots `start` to `start + size - 1`. `requested` of them were asked for (0 for a hole); the rest is rounding."""

    start: int
    size: int
    requested: int = 0


class OutOfMemory(RuntimeError):
    """No hole is large enough. `fragmented` tells whether all holes together would have been. Nothing was allocated."""

    def __init__(self, requested: int, total_free: int, largest_hole: int):
        self.requested, self.total_free, self.largest_hole = requested, total_free, largest_hole
        self.fragmented = total_free >= requested
        reason = "fragmentation" if self.fragmented else "too little memory is left"
        super().__init__(
            f"{shown(requested)} slot{'s' * (requested != 1)} requested, {total_free} free, "
            f"the largest hole has {largest_hole}: {reason}"
        )


class _Contiguous:
    """What both arenas share: the count of free slots and the record of what was given out."""

    def __init__(self, capacity: int):
        self.capacity = whole_number("capacity", capacity, 1, MAX_SLOTS)
        self.total_free = self.capacity
        self._given: dict[int, Extent] = {}  # start -> extent

    def allocate(self, n: int) -> Extent:
        """Take `n` slots in a row. Raises OutOfMemory, changing nothing, when no hole is large enough."""
        if type(n) is not int or n < 1:
            n = whole_number("n", n, 1)
        extent = self._take(n)
        if extent is None:
            raise OutOfMemory(n, self.total_free, self.largest_hole)
        self._given[extent.start] = extent
        self.total_free -= extent.size
        return extent

    def free(self, extent: Extent) -> None:
        """Give an extent back.

        Raises ValueError, changing nothing, for one that is not out: freed before, or never given out.
        """
        if not isinstance(extent, Extent):
            raise TypeError(f"extent must be an Extent that allocate returned, not {shown(extent)}")
        if self._given.get(extent.start) != extent:
            raise ValueError(
                f"extent must be one that is allocated now, not {extent}: it was freed before or never given out"
            )
        del self._given[extent.start]
        self.total_free += extent.size
        self._give_back(extent)

    @property
    def largest_hole(self) -> int:
        return max((hole.size for hole in self.holes()), default=0)


class Arena(_Contiguous):
    """`capacity` slots; a request is cut from the start of the first hole that fits ("first"), or of the smallest one
    ("best").
    """

    def __init__(self, capacity: int, fit: str = "first"):
        super().__init__(capacity)
        self.fit = one_of("fit", fit, ("first", "best"))
        self.largest_request = self.capacity  # what an empty arena can serve
        self._starts, self._sizes = [0], [self.capacity]  # the holes, by address; no two of them touch

    def holes(self) -> list[Extent]:
        """The free stretches, by address."""
        return [Extent(start, size) for start, size in zip(self._starts, self._sizes, strict=True)]

    def _take(self, n: int) -> Extent | None:
        if self.fit == "first":
            i = next((i for i, size in enumerate(self._sizes) if size >= n), None)
        else:
            i = min((i for i, size in enumerate(self._sizes) if size >= n), key=self._sizes.__getitem__, default=None)
        if i is None:
            return None
        start = self._starts[i]
        if self._sizes[i] == n:
            del self._starts[i], self._sizes[i]
        else:
            self._starts[i] += n
            self._sizes[i] -= n
        return Extent(start, n, n)

    def _give_back(self, extent: Extent) -> None:
        start, size = extent.start, extent.size
        i = bisect_left(self._starts, start)
        if i < len(self._starts) and start + size == self._starts[i]:
            size += self._sizes.pop(i)
            del self._starts[i]
        if i > 0 and self._starts[i - 1] + self._sizes[i - 1] == start:
            self._sizes[i - 1] += size
        else:
            self._starts.insert(i, start)
            self._sizes.insert(i, size)


class BuddyArena(_Contiguous):
    """`capacity` slots, handed out in powers of two (Knowlton, CACM 1965). A larger block is halved until it fits; a
    block that comes back joins its buddy, the other half, if that is free too. A capacity that is no power of two
    starts as descending powers.
    """

    def __init__(self, capacity: int):
        super().__init__(capacity)
        self.largest_request = 1 << (self.capacity.bit_length() - 1)
        self._free: list[list[int]] = [
            [] for _ in range(self.capacity.bit_length())
        ]  # order -> starts of free blocks of 2**order
        start = 0
        for order in reversed(range(self.capacity.bit_length())):
            if self.capacity >> order & 1:
                self._free[order].append(start)
                start += 1 << order

    def holes(self) -> list[Extent]:
        """The free blocks, by address. Neighbours that are no buddies stay apart."""
        return sorted(Extent(start, 1 << order) for order, starts in enumerate(self._free) for start in starts)

    def _take(self, n: int) -> Extent | None:
        wanted = (n - 1).bit_length()
        order = next((order for order in range(wanted, len(self._free)) if self._free[order]), None)
        if order is None:
            return None
        start = self._free[order].pop(0)  # the lowest address
        while order > wanted:
            order -= 1
            self._free[order].append(start + (1 << order))  # the list was empty, or this size would have been taken
        return Extent(start, 1 << wanted, n)

    def _give_back(self, extent: Extent) -> None:
        start, order = extent.start, extent.size.bit_length() - 1
        while order < len(self._free):
            buddy = start ^ (1 << order)
            i = bisect_left(self._free[order], buddy)
            if i == len(self._free[order]) or self._free[order][i] != buddy:
                break
            del self._free[order][i]
            start = min(start, buddy)
            order += 1
        insort(self._free[order], start)
