"""Calling what a learner wrote: on copies of the inputs, within a time limit, every failure turned into one sentence.

`call` runs a function; `is_stub` knows an answer that was not begun; `freeze` sees whether a value has changed.
"""

import copy
import dis
import inspect
import re
import signal
import threading
import types
import warnings
from collections import deque

import numpy as np

from pagedkv.course.judge.compare import Wrong, is_tensor, kind

SECONDS = 10
"""A call of a learner's function that takes longer is taken for an endless loop."""


class NotAttempted(Exception):
    """The answer is still the stub."""


def call(function, *inputs, changes: tuple[int, ...] = (), **named):
    """Call a learner's function and return its result; what goes wrong is a Wrong.

    The function gets copies, and changing one is reported. Arguments numbered in `changes` are handed over as they are:
    it may change them.
    """
    if is_stub(function):
        raise NotAttempted
    if not callable(function):
        raise Wrong(f"a function is expected, not {kind(function)}; hand over the function itself, without calling it")
    given = tuple(value if i in changes else copy.deepcopy(value) for i, value in enumerate(inputs))
    with warnings.catch_warnings(), _time_limit():
        warnings.simplefilter("ignore")
        try:
            result = function(*given, **named)
        except NotImplementedError:
            raise NotAttempted from None
        except (Exception, SystemExit) as error:
            raise Wrong(_what_was_raised(error, function)) from None
    for i, (value, before) in enumerate(zip(given, inputs, strict=True)):
        if i not in changes and freeze(value) != freeze(before):
            raise Wrong(f"your function changes its input {_argument_name(function, i)}; work on a copy")
    return result


def is_stub(answer) -> bool:
    """None, `...`, a function whose body is `...` or pass, a class of such functions, a container of nothing else."""
    if answer is None or answer is Ellipsis:
        return True
    if isinstance(answer, type):
        methods = [m for m in vars(answer).values() if isinstance(m, types.FunctionType)]
        return bool(methods) and all(map(is_stub, methods))
    if isinstance(answer, (tuple, list, dict)):
        values = answer.values() if isinstance(answer, dict) else answer
        return bool(answer) and all(map(is_stub, values))
    if not isinstance(answer, (types.FunctionType, types.MethodType)):
        return False
    steps = [step for step in dis.get_instructions(answer) if step.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")]
    returned = steps[0].argval if steps[0].opname in ("LOAD_CONST", "RETURN_CONST") else answer
    return len(steps) <= 2 and (returned is None or returned is Ellipsis)


def freeze(value, seen=()):
    """A nested tuple that changes whenever the value does; for lists, dicts, arrays, tensors and plain objects."""
    if id(value) in seen:
        return "seen"
    seen = (*seen, id(value))
    if is_tensor(value):
        import torch

        data = value.detach().cpu().contiguous().view(-1).view(torch.uint8)  # bytes, because NumPy has no bfloat16
        return "tensor", str(value.dtype), tuple(value.shape), data.numpy().tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, tuple(freeze(x, seen) for x in value)
    if isinstance(value, dict):
        return "dict", tuple((freeze(k, seen), freeze(v, seen)) for k, v in value.items())
    if isinstance(value, (set, frozenset)):
        return "set", tuple(sorted(map(repr, value)))
    if value is None or callable(value) or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return type(value).__name__, repr(value)
    return type(value).__name__, freeze(value.__getstate__(), seen)


def _argument_name(function, i: int) -> str:
    try:
        return f"`{list(inspect.signature(function).parameters)[i]}`"
    except (ValueError, TypeError, IndexError):
        return f"number {i + 1}"


# How PyTorch and NumPy say that shapes do not fit together.
SHAPES = re.compile(
    "broadcast|sizes? .*must match|size mismatch|inconsistent tensor size|"
    "shapes cannot be multiplied|not aligned|core dimension",
    re.IGNORECASE,
)


def _what_was_raised(error: BaseException, function) -> str:
    """The exception's type, its line in the learner's cell, and its message where that holds no number of a hidden
    case.
    """
    filename = getattr(getattr(function, "__code__", None), "co_filename", None)
    line, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == filename:
            line = f" in line {frame.tb_lineno} of its cell"
        frame = frame.tb_next
    message = str(error)
    said = f" ({message})" if message and "\n" not in message and not any(c.isdigit() for c in message) else ""
    if not said and isinstance(error, (RuntimeError, ValueError)) and SHAPES.search(message):
        said = " (shapes do not fit together)"
    return f"your function raises {type(error).__name__}{line}{said}"


class _TooLong(BaseException):
    """Not an Exception, so that a learner's `except Exception` does not swallow it."""


class _time_limit:
    """Stops the block after SECONDS with Wrong, where the platform has timers (the main thread on Linux and macOS)."""

    def __enter__(self):
        can_interrupt = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
        self.armed = can_interrupt and not any(signal.getitimer(signal.ITIMER_REAL))
        if self.armed:
            self.before = signal.signal(signal.SIGALRM, self._stop)
            signal.setitimer(
                signal.ITIMER_REAL, SECONDS, 1
            )  # and every second after: what it raises inside a destructor is lost

    def _stop(self, *_):
        raise _TooLong

    def __exit__(self, kind_, *_):
        if self.armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
        if kind_ is _TooLong:
            raise Wrong(f"your function has not returned after {SECONDS} seconds; is there an endless loop?") from None
