"""Calling what a learner wrote: on copies of the inputs, every failure turned into one sentence.

`call` runs a function; `freeze` sees whether a value has changed.
"""

import copy
import inspect
import re
import warnings
from collections import deque

import numpy as np

from pagedkv.course.judge.compare import Wrong, is_tensor, kind
from pagedkv.course.judge.limit import Stopped, TooLong, limited


class NotAttempted(Exception):
    """The answer is still the stub."""


def call(function, *inputs, changes: tuple[int, ...] = (), answer=None):
    """Call a learner's function and return its result; what goes wrong is a Wrong.

    The function gets copies, and changing one is reported. Arguments numbered in `changes` are handed over as they are:
    it may change them. `answer` is what the learner handed over, where `function` is a check's own that uses it.
    """
    answer = function if answer is None else answer
    if not callable(answer):
        raise Wrong(f"a function is expected, not {kind(answer)}; hand over the function itself, without calling it")
    given = tuple(value if i in changes else copy.deepcopy(value) for i, value in enumerate(inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = limited(function, *given)
        except NotImplementedError:
            raise NotAttempted from None
        except (TooLong, Stopped):
            raise
        except BaseException as error:  # whatever the answer raises is said, not passed on
            raise Wrong(_what_was_raised(error, answer)) from None
    for i, (value, before) in enumerate(zip(given, inputs, strict=True)):
        if i not in changes and limited(freeze, value) != freeze(before):
            raise Wrong(f"your function changes its input {_argument_name(answer, i)}; work on a copy")
    return result


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


# Numbers of Python's own, in what `bytes` and `chr` say.
PYTHONS_OWN = re.compile(r"range\((0, 256|0x110000)\)")


def _what_was_raised(error: BaseException, answer) -> str:
    """The exception's type, its line in the learner's cell, and its message where that holds no number of a hidden
    case.
    """
    filename = _file(answer)
    line, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == filename:
            line = f" in line {frame.tb_lineno} of its cell"
        frame = frame.tb_next
    message = limited(_message, error)
    said = (
        f" ({message})"
        if message and "\n" not in message and not re.search(r"\d", PYTHONS_OWN.sub("", message))
        else ""
    )
    if not said and isinstance(error, (RuntimeError, ValueError)) and SHAPES.search(message):
        said = " (shapes do not fit together)"
    return f"your {'class' if isinstance(answer, type) else 'function'} raises {type(error).__name__}{line}{said}"


def _message(error: BaseException) -> str:
    """Its message, which an answer's own class of exceptions may fail to make."""
    try:
        return str(error)
    except Exception:
        return ""


def _file(answer) -> str | None:
    """Where a function, or the first method of a class, was written."""
    functions = vars(answer).values() if isinstance(answer, type) else [inspect.unwrap(answer)]
    return next((function.__code__.co_filename for function in functions if hasattr(function, "__code__")), None)
