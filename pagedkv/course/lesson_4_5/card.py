"""A graphics card on paper, for those who have none: a clock, a queue and one kernel. What makes benchmarks wrong on a
real card makes them wrong here, and always by the same amount.

It knows nothing of PyTorch; `launch` stands for an eager call of a kernel, `capture` for a CUDA graph.
"""

from collections import deque
from collections.abc import Sequence

REPLAY_US, WAIT_US = 4.0, 3.0  # the host's time for a replay, and what waiting costs once the card is done
BUSY_US = 4000.0  # how long something else holds the card, in two of each six stretches of work
L2_FACTOR = 0.6  # the share of its time that a kernel takes when K and V still lie in the L2 cache


class Card:
    """One kernel on `copies` copies of its tensors; the L2 cache holds the last `cached` of those that were read.

    The kernel takes `kernel_us` on the card when it reads from memory; a launch takes `launch_us` of the host's time,
    the first one `compile_us` more. `shared`: something else uses the card now and then; `stretches` of work are over.
    """

    def __init__(self, kernel_us, launch_us=20.0, compile_us=0.0, copies=8, cached=0, shared=False, stretches=0):
        self.copies = copies
        self._kernel_us, self._launch_us, self._compile_us = kernel_us, launch_us, compile_us
        self._shared, self._recent = shared, deque(maxlen=cached)
        self._host = self._done = 1000.0  # µs: the host's clock, and when the card will have run all it was given
        self._stretches = stretches

    def clock(self) -> float:
        """The host's clock, in µs."""
        return self._host

    def launch(self, copy: int = 0) -> None:
        """Queue the kernel on the tensors of that copy, and return at once."""
        self._host += self._launch_us
        self._run(self._compiled([copy]))

    def synchronize(self) -> None:
        """Wait until the card has run all that was queued."""
        if self._done > self._host:
            self._stretches += 1
            self._host = self._done + (BUSY_US if self._shared and self._stretches % 6 in (1, 2) else 0.0)
        self._host += WAIT_US

    def capture(self, copies: Sequence[int]) -> "Graph":
        """A graph of the kernel on each of these copies, in order. Nothing runs before it is replayed."""
        return Graph(self, self._compiled(copies))

    def _compiled(self, copies: Sequence[int]) -> list[int]:
        copies = list(copies)
        for copy in copies:
            if not (type(copy) is int and 0 <= copy < self.copies):
                raise IndexError("a copy is one of range(card.copies)")
        self._host, self._compile_us = self._host + self._compile_us, 0.0
        return copies

    def _run(self, copies: Sequence[int]) -> None:
        for copy in copies:
            taken = self._kernel_us * (L2_FACTOR if copy in self._recent else 1.0)
            if copy in self._recent:
                self._recent.remove(copy)
            self._recent.append(copy)
            self._done = max(self._done, self._host) + taken


class Graph:
    """Calls that are launched together."""

    def __init__(self, card: Card, copies: list[int]):
        self._card, self._copies = card, copies

    def replay(self) -> None:
        """Queue all calls of the graph, which run one right after the other, and return at once."""
        self._card._host += REPLAY_US
        self._card._run(self._copies)
