"""A time limit for functions that others wrote, which nothing in them can swallow.

When the time is over a signal interrupts whatever the main thread runs, and its handler raises TooLong there; again
every tenth of the time. The first is an exception like any other, so that `finally` and `with` clean up. From the
second on TooLong is raised at each step, in `except` and `finally` too, until the function is left. What runs outside
`limited` is never interrupted.

Linux and macOS: calls that block (sleep, a lock, input(), a socket) are interrupted too. Windows: they end when they
return. Nowhere: one call into a library that neither returns nor looks for signals, such as sum(itertools.count()) or
an endless kernel on a GPU; threads that the function has started; a check that is not made in the main thread.
"""

import _thread
import inspect
import signal
import sys
import threading
from contextlib import contextmanager

SECONDS = 10
"""What a check may take, all its parts together; longer is taken for an endless loop."""

TOOL = 4  # of sys.monitoring; 0, 1, 2 and 5 are for debuggers and the like
SIGNAL = getattr(signal, "SIGALRM", signal.SIGTERM)  # Windows has no alarm, and no other use for this one


class TooLong(BaseException):
    """Not an Exception, so that `except Exception` does not catch it."""


def limited(function, *inputs):
    """Call a function that `time_limit` may interrupt."""
    return function(*inputs)


@contextmanager
def time_limit():
    """After SECONDS raise TooLong in what runs in `limited`; not where another timer of this process is running."""
    if threading.current_thread() is not threading.main_thread() or _another_timer():
        yield
        return
    struck = False

    def strike(_, frame):
        nonlocal struck
        if not _is_limited(frame):
            return
        if struck and hasattr(sys, "monitoring"):
            _raise_at_each_step()
        elif struck and frame.f_code is not strike.__code__:
            # Python 3.11: raised again where Python next looks for signals. It does so after a call, in here too, hence
            # the assignment.
            [_] = map(_thread.interrupt_main, [SIGNAL])
            raise TooLong
        struck = True
        raise TooLong

    before = signal.signal(SIGNAL, strike)
    try:
        with _alarm() if hasattr(signal, "setitimer") else _alarm_thread():
            yield
    finally:
        if hasattr(sys, "monitoring") and sys.monitoring.get_tool(TOOL) == __name__:
            sys.monitoring.set_events(TOOL, 0)
            sys.monitoring.free_tool_id(TOOL)
        signal.signal(SIGNAL, before)


def _raise_at_each_step():
    """From Python 3.12 on. There the exception of a signal that comes as a loop turns counts as raised in its body."""

    def step(*_):
        if _is_limited(inspect.currentframe()):
            raise TooLong

    if sys.monitoring.get_tool(TOOL) is None:
        sys.monitoring.use_tool_id(TOOL, __name__)
        steps = sys.monitoring.events.LINE, sys.monitoring.events.JUMP  # a loop in one line has no second LINE
        for event in steps:
            sys.monitoring.register_callback(TOOL, event, step)
        sys.monitoring.set_events(TOOL, sum(steps))


def _another_timer() -> bool:
    return hasattr(signal, "setitimer") and any(signal.getitimer(signal.ITIMER_REAL))


def _is_limited(frame) -> bool:
    """Whether this is the frame of `limited`, or was called from it, perhaps by others."""
    while frame and frame.f_code is not limited.__code__:
        frame = frame.f_back
    return frame is not None


@contextmanager
def _alarm():
    """SIGNAL after SECONDS and every tenth of them after that, from the operating system."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS / 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _alarm_thread():
    """The same from a thread, which Python passes on to the main thread as if it were a signal."""
    left = threading.Event()

    def ring():
        wait = SECONDS
        while not left.wait(wait):
            wait = SECONDS / 10
            _thread.interrupt_main(SIGNAL)

    thread = threading.Thread(target=ring, daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()
