"""Ctrl-C comes between two lines, wherever Python is; here it waits until the books are in order.

While blocks are given and taken, an interrupt would leave some that nobody owns. So the engine holds interrupts back,
and lets them through while the model runs, which is where the time goes, and at the end of its step. In a thread other
than the main one none arrives, and nothing is done.
"""

import threading
from _signal import SIGINT, getsignal, signal  # those of `signal` without its enums: a tenth of the time, each step
from collections.abc import Callable


class held:
    """`with held() as interrupts:` holds back what SIGINT does, but for `interrupts.let_through(call, ...)`.

    May be nested: what the inner one held back, the outer one holds.
    """

    def __enter__(self) -> "held":
        self._came, self._through, self._handler = [], False, None
        if threading.current_thread() is threading.main_thread() and callable(getsignal(SIGINT)):
            self._handler = signal(SIGINT, self._arrives)
        return self

    def __exit__(self, *error) -> None:
        if self._handler is not None:
            signal(SIGINT, self._handler)
            self._deliver()

    def let_through(self, call: Callable, *arguments):
        """What `call(*arguments)` gives; until then an interrupt comes at once."""
        self._through = True
        try:
            self._deliver()
            return call(*arguments)
        finally:
            self._through = False

    def _arrives(self, *signal_and_frame) -> None:
        self._came.append(signal_and_frame)
        if self._through:
            self._deliver()

    def _deliver(self) -> None:
        while self._came:
            self._handler(*self._came.pop())
