"""Is this result the right one? Compared by kind: whole numbers exactly, fractions within a relative tolerance,
containers by element.

A mismatch raises Wrong with one sentence that names kinds ("a list is expected, not a generator") and quotes no value,
so that sentences about hidden cases are the same everywhere. NaN never equals anything; an infinity only where it is
the right answer.
PyTorch is never imported here: a tensor can only arrive where it has been imported already.
"""

import dataclasses
import math
import types
from collections import deque
from collections.abc import Mapping
from numbers import Real

import numpy as np

from pagedkv.course.judge.limit import limited

EXACT = 1e-6
"""Default relative tolerance for what a learner's function computes in float32 or better."""

SINGLE = 1e-5
"""The same where the inputs are float64 and a learner may keep scores or sums in float32, as `torch.zeros(n)` does."""


class Wrong(Exception):
    """What is wrong with an answer, in one sentence."""


def is_tensor(value) -> bool:
    return type(value).__module__ == "torch" and hasattr(value, "detach")


def kind(value) -> str:
    """The kind of a value in words, as the sentences use it."""
    if value is None:
        return "nothing (None)"
    if value is Ellipsis:
        return "an untouched ..."
    if is_tensor(value):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}"
    if issubclass(type(value), np.ndarray):
        return f"a NumPy array of {value.dtype}"
    for types_, words in _WORDS:
        if issubclass(type(value), types_):
            return words
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


_WORDS = (
    ((bool, np.bool_), "True or False"),
    ((int, np.integer), "a whole number"),
    ((float, np.floating), "a float"),
    (str, "a string"),
    (type, "a class"),
    (types.GeneratorType, "a generator"),
    ((types.FunctionType, types.MethodType, types.BuiltinFunctionType), "a function"),
)


def alike(expected, got, rtol: float = EXACT) -> bool:
    """Whether `same` finds nothing wrong."""
    try:
        same(expected, got, rtol)
    except Wrong:
        return False
    return True


def same(expected, got, rtol: float = EXACT) -> None:
    """Raise Wrong unless `got` is `expected`: same kind, same shape or length, equal within `rtol` of the largest
    expected element.

    A one-element array or tensor stands for its number, a tuple for a list, an array for a list of numbers or of such
    lists.
    """
    limited(_same, expected, got, rtol)


def _same(expected, got, rtol: float) -> None:
    if is_tensor(expected) or isinstance(expected, np.ndarray):
        return _same_array(expected, got, rtol)
    if is_tensor(got) or isinstance(got, np.ndarray):
        got = _unpacked(expected, got)
    if isinstance(expected, (bool, np.bool_)):
        _of_kind(expected, got, (bool, np.bool_))
        if bool(expected) != bool(got):
            raise Wrong("the result is the opposite of the right one in at least one case")
    elif isinstance(expected, (int, np.integer)):
        _of_kind(
            expected,
            got,
            (int, np.integer),
            "; use // where a count is divided" if isinstance(got, (float, np.floating)) else "",
        )
        _same_number(int(expected), int(got), 0)
    elif isinstance(expected, (float, np.floating)):
        _of_kind(expected, got, Real)
        _same_number(float(expected), float(got), rtol * abs(expected))
    elif isinstance(expected, (list, tuple, deque)):
        _same_sequence(expected, got, rtol)
    elif isinstance(expected, Mapping):
        _of_kind(expected, got, Mapping)
        if expected.keys() != got.keys():
            raise Wrong("the dict does not have the right keys")
        for key in expected:
            same(expected[key], got[key], rtol)
    elif dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        _of_kind(expected, got, type(expected))
        for field in dataclasses.fields(expected):
            same(getattr(expected, field.name), getattr(got, field.name), rtol)
    elif isinstance(expected, str):
        _of_kind(expected, got, str)
        if expected.strip().casefold() != got.strip().casefold():
            raise Wrong("the string is not the right one")
    else:
        _of_kind(expected, got, type(expected))
        if expected != got:
            raise Wrong(f"{kind(got)} is expected, but not this one")


def _of_kind(expected, got, allowed, hint: str = "") -> None:
    right_bool = isinstance(got, (bool, np.bool_)) == isinstance(expected, (bool, np.bool_))
    if not isinstance(got, allowed) or not right_bool:
        raise Wrong(f"{kind(expected)} is expected, not {kind(got)}{hint}")


def _same_number(expected, got, tolerance: float) -> None:
    if got == expected:
        return
    if not math.isfinite(got):
        raise Wrong("the result is not finite (NaN or infinity)")
    if math.isinf(expected) or not abs(got - expected) <= tolerance:
        raise Wrong("the number is too large" if got > expected else "the number is too small")


def _same_sequence(expected, got, rtol: float) -> None:
    if not isinstance(got, (list, tuple, deque)):
        raise Wrong(f"{kind(expected)} is expected, not {kind(got)}")
    if len(expected) != len(got):
        raise Wrong(f"the {type(expected).__name__} is too {'long' if len(got) > len(expected) else 'short'}")
    if expected and all(
        isinstance(x, float) for x in expected
    ):  # one scale for all, so that rounding of a zero is no error
        for x in got:
            _of_kind(0.0, x, Real)
        return _same_array(np.array(expected), np.array(got, dtype=float), rtol)
    for i, (right, mine) in enumerate(zip(expected, got, strict=True)):
        try:
            same(right, mine, rtol)
        except Wrong as wrong:
            is_number = str(wrong).startswith("the number")  # most are ids, of which "too small" would say nothing
            raise Wrong(f"entry {i} is not the right one" if is_number else f"entry {i}: {wrong}") from None


def _unpacked(expected, got):
    """An array where a plain number or sequence is expected: its number if it has one element, else its list."""
    if isinstance(expected, (list, tuple, deque)):
        dimensions = 2 if all(isinstance(x, (list, tuple)) for x in expected) else 1
        return got.tolist() if 0 < got.ndim <= dimensions else got
    elements = math.prod(got.shape)
    return got.reshape(-1).tolist()[0] if elements == 1 else got


def _same_array(expected, got, rtol: float) -> None:
    """Same library, shape and kind of dtype (whole numbers: same dtype), equal within `rtol` of the largest finite
    expected element.
    """
    if is_tensor(expected) != is_tensor(got) or not hasattr(got, "dtype"):
        raise Wrong(f"{kind(expected)} is expected, not {kind(got)}")
    if is_tensor(expected) and expected.device != got.device:
        raise Wrong("the tensor is on the wrong device")
    if tuple(expected.shape) != tuple(got.shape):
        raise Wrong("the shape is not the right one")
    floats = _is_float(expected)
    if floats != _is_float(got) or (not floats and expected.dtype != got.dtype):
        raise Wrong(f"{kind(expected)} is expected, not {kind(got)}")
    right, mine = _as_numpy(expected), _as_numpy(got)
    if not floats:
        if not np.array_equal(right, mine):
            raise Wrong("some elements are wrong")
        return
    infinite = np.isinf(right)
    if not np.array_equal(right[infinite], mine[infinite]) or not np.isfinite(mine[~infinite]).all():
        raise Wrong("some elements are not finite (NaN or infinity)")
    scale = np.abs(right[~infinite]).max(initial=0.0)
    if not (np.abs(right[~infinite] - mine[~infinite]) <= rtol * scale).all():
        raise Wrong("some elements are wrong")


def _is_float(array) -> bool:
    return array.dtype.is_floating_point if is_tensor(array) else array.dtype.kind == "f"


def _as_numpy(array) -> np.ndarray:
    if not is_tensor(array):
        return array.astype(float) if array.dtype.kind == "f" else array
    array = array.detach().cpu()
    return (array.double() if array.dtype.is_floating_point else array).numpy()
