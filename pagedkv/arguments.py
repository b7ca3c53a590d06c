"""One sentence for every bad argument: its name, what it was, and what is allowed; and for what a command lacks, and
what stops it.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable
from importlib.util import find_spec
from math import inf, isfinite
from numbers import Real
from operator import index

LONGEST = 200  # characters of a value in a sentence


def shown(value) -> str:
    """The value as a sentence has it: its beginning where it is long, its type where it cannot be written."""
    try:
        text = repr(value)
    except Exception:  # of an object's own, or of an int with more digits than Python writes
        return f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def whole_number(name: str, value, minimum: float = 0, maximum: int | None = None) -> int:
    """Return `value` as an int in [minimum, maximum].

    Raises TypeError for bools, floats and strings, ValueError out of range.
    """
    if type(value) is int and value >= minimum and (maximum is None or value <= maximum):
        return value  # the common case, before any sentence is put together
    allowed = "a whole number" + ("" if minimum == -inf else f" of at least {minimum}")
    allowed += "" if maximum is None else f" and at most {maximum}"
    try:
        is_bool = (
            isinstance(value, bool) or getattr(value, "dtype", None) == "bool"
        )  # NumPy before 2.3 takes its own for integers
        number = None if is_bool else index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be {allowed}, not {shown(value)}")
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be {allowed}, not {shown(number)}")
    return number


def finite_number(name: str, value, minimum: float = -inf, maximum: float = inf, above: bool = False) -> float:
    """Return `value` as a float in [minimum, maximum], or above minimum. Raises TypeError for bools and strings,
    ValueError for NaN, infinities and numbers out of range."""
    if type(value) is float and minimum < value < maximum:
        return value  # the common case, before any sentence is put together
    allowed = "a finite number" + ("" if minimum == -inf else f" {'above' if above else 'of at least'} {minimum:g}")
    allowed += "" if maximum == inf else f" and at most {maximum:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {allowed}, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:  # an int beyond every float
        number = inf
    if not isfinite(number) or not minimum <= number <= maximum or (above and number == minimum):
        raise ValueError(f"{name} must be {allowed}, not {number}")
    return number


def hashable(name: str, value) -> None:
    """Raises TypeError for a value that is not hashable, such as a list."""
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"{name} must be hashable, such as a string or a tuple, not {shown(value)}") from None


def listed(name: str, values: Iterable, of: str) -> list:
    """Return the iterable `values` as a list. Raises TypeError that says `of` what it must be."""
    try:
        values = iter(values)
    except TypeError:
        raise TypeError(f"{name} must be an iterable of {of}, not {shown(values)}") from None
    return list(values)


def having(name: str, value, what: str, *attributes: str, or_none: bool = False):
    """Return `value` if it has these attributes. Raises TypeError that says `what` it must be."""
    if value is None and or_none:
        return None
    for attribute in attributes:
        if not hasattr(value, attribute):
            what += " or None" if or_none else ""
            raise TypeError(f"{name} must be {what}, not {shown(value)}, which has no {attribute}")
    return value


def flag(name: str, value) -> bool:
    """Return `value` if it is True or False, NumPy's included. Raises TypeError for what only counts as one of them."""
    if value is True or value is False:
        return value
    if getattr(value, "dtype", None) == "bool" and value.ndim == 0:
        return bool(value)
    raise TypeError(f"{name} must be True or False, not {shown(value)}")


def one_of(name: str, value, allowed: Collection):
    """Return `value` if it is in `allowed`. Raises ValueError that lists what is."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {shown(value)}")
    return value


def installed(*packages: str) -> None:
    """For a command, before it imports them: ends it with a sentence that names the cure where one is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        cure = "run `pip install -r requirements.txt -e .` in the project's folder (notebooks/SETUP.md)"
        raise SystemExit(f"{', '.join(missing)} {are} not installed: {cure}")


def command(main: Callable[[], object]) -> None:
    """Run `main` and end the process with the status that it gives, 0 if that is none. Ctrl-C, and a file that cannot
    be written, are a sentence; who has closed the pipe that it prints to, as `head` does, is told nothing.
    """
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
        print("\ninterrupted", file=sys.stderr)
    except BrokenPipeError:
        status = 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tells of it at its end
    except OSError as error:
        status = str(error)
    sys.exit(status if isinstance(status, int | str) else 0)
