"""What an exercise is: a name, a title and parts, each a test with points. A test raises Wrong with one sentence, or is passed.

`calls`, `in_place` and `equals` make the usual parts; for anything else write `Part(title, test)`, whose test takes the answer and
runs the learner's functions through `call`, which copies the inputs, guards against exceptions and endless loops, and reports a
changed input. Hidden cases are drawn from a seed, so a verdict is always the same. A file of exercises imports torch only inside them.
"""

import copy
import dis
import inspect
import random
import signal
import threading
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pagedkv.quiz.compare import EXACT, Wrong, is_tensor, kind, same

SECONDS = 10
"""A call of a learner's function that takes longer is taken for an endless loop."""


class NotAttempted(Exception):
    """The answer is still the stub."""


@dataclass(frozen=True)
class Part:
    """One named sub-check. `test(answer)` raises Wrong; `of` picks this part's answer out of a tuple (an index) or dict (a key)."""

    title: str
    test: Callable
    points: int = 1
    of: int | str | None = None

    def run(self, answer) -> None:
        """Raise NotAttempted, or Wrong with one sentence, unless the answer passes."""
        try:
            if self.of is not None:
                answer = self._own(answer)
            if is_stub(answer):
                raise NotAttempted
            self.test(answer)
        except (Wrong, NotAttempted):
            raise
        except Exception as error:
            raise Wrong(f"{kind(answer)} of this form cannot be checked ({type(error).__name__}); compare it with the task") from None

    def _own(self, answers):
        try:
            return answers[self.of]
        except (TypeError, LookupError):
            where = f"under {self.of!r}" if isinstance(self.of, str) else "at its place"
            raise Wrong(f"no answer stands {where}; hand over all of them, as the cell of the check did") from None


@dataclass(frozen=True)
class Exercise:
    """`name` starts with the lesson ("2.1-kv-bytes"); `parts` are shown and graded one by one."""

    name: str
    title: str
    parts: tuple[Part, ...]

    @property
    def max_points(self) -> int:
        return sum(part.points for part in self.parts)


def calls(title: str, reference: Callable, cases, *, mistakes: Iterable[tuple[Callable, str]] = (), rtol: float = EXACT, points=1, of=None):
    """A part in which the learner's function must return what `reference` returns, and leave its inputs alone.

    cases: argument tuples, or a function of a seeded `random.Random` that returns them (hidden cases).
    mistakes: (wrong function, sentence); the sentence is said when the answer behaves like the wrong function in every case.
    """

    def test(function):
        inputs = _drawn(title, cases)
        results = [call(function, *case) for case in inputs]
        problem = _first_difference(reference, inputs, results, rtol)
        if problem is None:
            return
        for wrong, sentence in mistakes:
            if _first_difference(wrong, inputs, results, rtol) is None:
                raise Wrong(sentence)
        raise Wrong("it returns nothing; is the return missing?" if all(result is None for result in results) else problem)

    return Part(title, test, points, of)


def in_place(title: str, reference: Callable, cases, *, target: int = 0, rtol: float = EXACT, points=1, of=None):
    """A part in which the learner's function must change its argument number `target` as `reference` does, and no other."""

    def test(function):
        for case in _drawn(title, cases):
            right, mine, before = copy.deepcopy(case), copy.deepcopy(case), freeze(case[target])
            reference(*right)
            result = call(function, *mine, changes=(target,))
            if result is not None and freeze(mine[target]) == before != freeze(right[target]):
                raise Wrong("this task changes its argument in place; your function returns a new value and leaves the argument as it was")
            same(right[target], mine[target], rtol)

    return Part(title, test, points, of)


def equals(title: str, expected, *, rtol: float = 5e-3, mistakes: Iterable[tuple[object, str]] = (), points=1, of=None):
    """A part whose answer is a value: a number (three significant digits are enough), a string, a list.

    expected: the value, or a function without arguments that computes it. mistakes: (wrong value, sentence).
    """

    def test(answer):
        right = expected() if callable(expected) else expected
        if type(right) is int and isinstance(answer, float) and answer.is_integer():
            answer = int(answer)
        try:
            same(right, answer, rtol)
        except Wrong:
            for wrong, sentence in mistakes:
                if _matches(wrong, answer, rtol):
                    raise Wrong(sentence) from None
            raise

    return Part(title, test, points, of)


def call(function, *inputs, changes: tuple[int, ...] = (), **named):
    """Call a learner's function and return its result; what goes wrong is a Wrong.

    The function gets copies, and changing one is reported. Arguments numbered in `changes` are handed over as they are: it may change them.
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
    """None, `...`, a function whose body is `...` or pass, a class of such functions, or a container of nothing else."""
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

        data = value.detach().cpu().contiguous().view(-1).view(torch.uint8)     # bytes, because NumPy has no bfloat16
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


def _drawn(title: str, cases) -> list[tuple]:
    return [tuple(case) for case in (cases(random.Random(title)) if callable(cases) else copy.deepcopy(cases))]


def _first_difference(function, inputs, results, rtol) -> str | None:
    """The sentence about the first result that is not what `function` returns, or None."""
    for case, result in zip(inputs, results, strict=True):
        try:
            same(function(*copy.deepcopy(case)), result, rtol)
        except Wrong as wrong:
            return str(wrong)
    return None


def _matches(expected, answer, rtol) -> bool:
    try:
        same(expected, answer, rtol)
    except Wrong:
        return False
    return True


def _argument_name(function, i: int) -> str:
    try:
        return f"`{list(inspect.signature(function).parameters)[i]}`"
    except (ValueError, TypeError, IndexError):
        return f"number {i + 1}"


def _what_was_raised(error: BaseException, function) -> str:
    """The exception's type, its line in the learner's cell, and its message where that holds no number of a hidden case."""
    filename = getattr(getattr(function, "__code__", None), "co_filename", None)
    line, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == filename:
            line = f" in line {frame.tb_lineno} of its cell"
        frame = frame.tb_next
    message = str(error)
    said = f" ({message})" if message and "\n" not in message and not any(c.isdigit() for c in message) else ""
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
            signal.setitimer(signal.ITIMER_REAL, SECONDS)

    def _stop(self, *_):
        raise _TooLong

    def __exit__(self, kind_, *_):
        if self.armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
        if kind_ is _TooLong:
            raise Wrong(f"your function has not returned after {SECONDS} seconds; is there an endless loop?") from None
