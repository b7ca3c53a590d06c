"""Ctrl-C comes between two lines, wherever Python is; here it waits until the books are in order.

While blocks are given and taken, an interrupt would leave some that nobody owns. So the engine holds interrupts back,
and lets them through while the model runs, which is where the time goes, and at the end of its step. In a thread other
than the main one none arrives, and nothing is done.
"""

import signal
import threading


class held:
    """`with held() as interrupts:` holds back what SIGINT does, but for the time from `let_through` to `hold`.

    May be nested: what the inner one held back, the outer one holds.
    """

    def __enter__(self) -> "held":
        self._came, self._through, self._handler = None, False, None
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, self._arrives)
        return self

    def __exit__(self, *error) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.let_through()

    def let_through(self) -> None:
        self._through = True
        if self._came is not None:
            came, self._came = self._came, None
            self._handler(*came)

    def hold(self) -> None:
        self._through = False

    def _arrives(self, *signal_and_frame) -> None:
        self._came = signal_and_frame
        if self._through:
            self.let_through()
