"""What an exercise is: a name, a title and parts, each a test with points. A test raises Wrong with one sentence, or is
passed.

`calls` and `equals` make the usual parts; for anything else write `Part(title, test)`, whose test takes the answer and
runs the learner's functions through `call`, which copies the inputs, guards against exceptions, lets a check's time
limit stop them, and reports a changed input. Hidden cases are drawn from a seed, so a verdict is always the same:
`hidden(title)` draws them, and a teacher's PAGEDKV_SEED gives a class cases of its own. A file of exercises imports
torch only inside them.
"""

import ast
import copy
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pagedkv.course.judge.calling import NotAttempted, call, freeze
from pagedkv.course.judge.compare import EXACT, Wrong, alike, kind, same
from pagedkv.course.judge.limit import Stopped, TooLong, limited
from pagedkv.course.judge.stub import is_stub


@dataclass(frozen=True)
class Part:
    """One named sub-check.

    `test(answer)` raises Wrong; `of` picks this part's answer out of a tuple (an index) or dict (a key).
    """

    title: str
    test: Callable
    points: int = 1
    of: int | str | None = None

    def run(self, answer) -> None:
        """Raise NotAttempted, or Wrong with one sentence, unless the answer passes."""
        try:
            if self.of is not None:
                answer = self._own(answer)
            if limited(is_stub, answer):
                raise NotAttempted
            self.test(answer)
        except (Wrong, NotAttempted, Stopped, TooLong):
            raise
        except BaseException as error:
            raise Wrong(
                f"{kind(answer)} of this form cannot be checked ({type(error).__name__}); compare it with the task"
            ) from None

    def _own(self, answers):
        try:
            return answers[self.of]
        except (TypeError, LookupError):
            where = f"under {self.of!r}" if isinstance(self.of, str) else "at its place"
            raise Wrong(f"no answer stands {where}; hand over all of them, as the cell of the check did") from None


@dataclass(frozen=True)
class Role:
    """The part of an engine that an answer is, which `keep` stores and `mine(name)` gives back.

    package: a function without arguments that returns the package's own part. methods: what a class must have. `of`
    picks the part out of an answer in several pieces.
    """

    name: str
    package: Callable
    methods: tuple[str, ...] = ()
    of: int | str | None = None


@dataclass(frozen=True)
class Exercise:
    """`name` starts with the lesson ("2.1-kv-bytes"); `parts` are shown and graded one by one.

    only_with: title of a part that a constant, or doing nothing, passes -> title of the part without which it earns no
    points.
    needs: a module without which no answer can be judged, such as "triton".
    role: what an answer with every point can be kept as.
    in_order: the parts build on one another; after the first that is not passed none is judged.
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    only_with: dict[str, str] = field(default_factory=dict)
    needs: str | None = None
    role: Role | None = None
    in_order: bool = False

    @property
    def max_points(self) -> int:
        return sum(part.points for part in self.parts)


def calls(
    title: str,
    reference: Callable,
    cases,
    *,
    mistakes: Iterable[tuple[Callable, str]] = (),
    rtol: float = EXACT,
    points=1,
    of=None,
):
    """A part in which the learner's function must return what `reference` returns, and leave its inputs alone.

    cases: argument tuples, or a function of a seeded `random.Random` that returns them (hidden cases).
    mistakes: (wrong function, sentence); the sentence is said when the answer behaves like the wrong function in every
    case. For any other slip the shortest call that fails is quoted, among those that do not depend on the seed.
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
        if all(result is None for result in results):
            sometimes = any(reference(*copy.deepcopy(case)) is None for case in inputs)
            what = "None in every call, which is right in some only" if sometimes else "nothing"
            raise Wrong(f"it returns {what}; is the return missing?")
        fixed = {freeze(case) for case in _drawn(title + ", again", cases)}
        quoted = [
            (_quoted(function, reference, case), slip) for case, result in zip(inputs, results, strict=True)
            if freeze(case) in fixed and (slip := _first_difference(reference, [case], [result], rtol))
        ]  # fmt: skip
        call_of, slip = min((pair for pair in quoted if pair[0]), key=lambda pair: len(pair[0]), default=("", problem))
        raise Wrong(slip + call_of)  # the slip of the call that is quoted

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
                if alike(wrong, answer, rtol):
                    raise Wrong(sentence) from None
            raise

    return Part(title, test, points, of)


def _drawn(title: str, cases) -> list[tuple]:
    return [tuple(case) for case in (cases(hidden(title)) if callable(cases) else copy.deepcopy(cases))]


def hidden(seed: str | int) -> random.Random:
    """What hidden cases are drawn with: the same for the same seed, and others where PAGEDKV_SEED is set."""
    private = os.environ.get("PAGEDKV_SEED")
    return random.Random(f"{seed}, {private}" if private else seed)


def hidden_number(seed: int) -> int:
    """A seed for what draws by itself: the number given, and another where PAGEDKV_SEED is set."""
    return hidden(seed).randrange(2**31) if os.environ.get("PAGEDKV_SEED") else seed


def _first_difference(function, inputs, results, rtol) -> str | None:
    """The sentence about the first result that is not what `function` returns, or None."""
    for case, result in zip(inputs, results, strict=True):
        try:
            same(function(*copy.deepcopy(case)), result, rtol)
        except Wrong as wrong:
            return str(wrong)
    return None


def _quoted(function, reference, case) -> str:
    """What a call should return, to be added to a sentence; nothing where the case is no plain Python data."""
    inputs, right = ", ".join(map(repr, case)), repr(reference(*copy.deepcopy(case)))
    try:
        ast.literal_eval(f"({inputs}, {right})")
    except (SyntaxError, ValueError):
        return ""
    name = getattr(function, "__name__", "")
    return f": {name if name.isidentifier() else 'your function'}({inputs}) should return {right}"
