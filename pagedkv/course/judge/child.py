"""Running a function in a process of its own, so that whatever it does there, this one goes on.

The child is forked: it has all that this process has, and what it changes is gone with it. It ends with what the
function returns or raises, when the time of a check is over, or when it is killed; a child that dies is reported.
Linux and macOS only.
"""

import faulthandler
import os
import pickle
import signal
import sys
import time
import warnings
from multiprocessing import Pipe

from pagedkv.course.judge import limit
from pagedkv.course.judge.compare import Wrong


def in_child(function):
    """What `function()` returns, or raises: both are pickled. A child that dies is a Wrong, one that takes longer than
    a check may is a `limit.TooLong`.
    """
    reader, writer = Pipe(duplex=False)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: this process has threads; the child none
        pid = os.fork()
    if pid == 0:
        _run_and_leave(function, writer)
    writer.close()
    try:
        returned, value = limit.limited(_receive, reader, pid)
    finally:
        reader.close()
        _end(pid)
    if returned:
        return value
    raise value


def _run_and_leave(function, writer) -> None:
    """The whole life of the child. It is left without a look back: nothing of the parent's is flushed or closed."""
    try:
        faulthandler.disable()  # a crash is told in one sentence
        signal.signal(limit.SIGNAL, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit.SECONDS + 5)  # should the parent be gone
        try:
            message = pickle.dumps((True, function()))
        except BaseException as error:
            message = _pickled(error)
        writer.send_bytes(message)
    finally:
        os._exit(0)


def _pickled(error: BaseException) -> bytes:
    """The error if it can be pickled and is the same after it, else a Wrong that names it."""
    try:
        message = pickle.dumps((False, error))
        pickle.loads(message)
    except Exception:
        message = pickle.dumps((False, Wrong(f"it raises {type(error).__name__}")))
    return message


def _receive(reader, pid: int) -> tuple:
    """(whether it returned, the value or the error) from the child."""
    end = time.monotonic() + limit.SECONDS
    while not reader.poll(min(1.0, max(end - time.monotonic(), 0))):
        if time.monotonic() >= end:
            raise limit.TooLong
    try:
        return pickle.loads(reader.recv_bytes())
    except EOFError:
        _, status = os.waitpid(pid, 0)
        how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
        return False, Wrong(f"it ended the process that ran it ({how}); this notebook was spared")


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):  # _receive has seen it die
        return
