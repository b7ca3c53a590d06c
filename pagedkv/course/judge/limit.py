"""A time limit for functions that others wrote, which nothing in them can swallow.

When the time is over a signal interrupts whatever the main thread runs, and its handler raises TooLong there; again
every tenth of the time. The first is an exception like any other, so that `finally` and `with` clean up. From the
second on TooLong is raised at each step, in `except` and `finally` too, until the function is left. What runs outside
`limited` is never interrupted. Each time there is room for a few calls more, as an answer that calls itself without end
leaves the handler none.

Linux and macOS: calls that block (sleep, a lock, input(), a socket) are interrupted too. Windows: they end when they
return. Nowhere: one call into a library that neither returns nor looks for signals, such as sum(itertools.count()) or
an endless kernel on a GPU; threads that the function has started; a check that is not made in the main thread.
"""

import _thread
import inspect
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, nullcontext

SECONDS = int(os.environ.get("PAGEDKV_SECONDS") or 10)
"""What a check may take, all its parts together; longer is taken for an endless loop. Grading grants more."""

ROOM = 100  # calls; the handler needs three
TOOL = 4  # of sys.monitoring; 0, 1, 2 and 5 are for debuggers and the like
SIGNAL = getattr(signal, "SIGALRM", signal.SIGTERM)  # Windows has no alarm, and no other use for this one


class TooLong(BaseException):
    """Not an Exception, so that `except Exception` does not catch it."""


class Stopped(KeyboardInterrupt):
    """By whoever runs the check. A KeyboardInterrupt that an answer raises is none."""


def limited(function, *inputs):
    """Call a function that `time_limit` may interrupt."""
    return function(*inputs)


@contextmanager
def time_limit():
    """After SECONDS raise TooLong in what runs in `limited`; not where another timer of this process is running."""
    if threading.current_thread() is not threading.main_thread() or _another_timer():
        yield
        return
    struck, recursion = None, sys.getrecursionlimit()

    def strike(_, frame):
        nonlocal struck
        if frame.f_code is strike.__code__ or not _is_limited(frame):
            return
        if struck is None:
            struck = time.monotonic()
        elif time.monotonic() < struck + SECONDS / 20:  # the system and the thread have rung together
            return
        elif hasattr(sys, "monitoring"):
            _raise_at_each_step()
        else:
            # Python 3.11: raised again where Python next looks for signals. It does so after a call, in here too, hence
            # the assignment.
            [_] = map(_thread.interrupt_main, [SIGNAL])
        raise TooLong

    before = signal.signal(SIGNAL, strike)
    try:
        with _alarm_thread(), _alarm() if hasattr(signal, "setitimer") else nullcontext():
            yield
    finally:
        sys.setrecursionlimit(recursion)
        if hasattr(sys, "monitoring") and sys.monitoring.get_tool(TOOL) == __name__:
            sys.monitoring.set_events(TOOL, 0)
            sys.monitoring.free_tool_id(TOOL)
        signal.signal(SIGNAL, before)


@contextmanager
def told_apart():
    """Makes an interrupt from outside a Stopped, where Python's own handler would raise KeyboardInterrupt."""

    def stop(*_):
        raise Stopped

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    """The same from a thread, which first makes ROOM; Python passes it on to the main thread as if it were a signal."""
    left = threading.Event()

    def ring():
        wait = SECONDS
        while not left.wait(wait):
            wait = SECONDS / 10
            sys.setrecursionlimit(sys.getrecursionlimit() + ROOM)  # of all threads
            _thread.interrupt_main(SIGNAL)

    thread = threading.Thread(target=ring, daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()
