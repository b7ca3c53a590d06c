"""`check("2.1-kv-bytes", answer)` judges an answer, prints a verdict part by part, and returns the points.

The answer is handed over as an object (a function, a value, or a tuple of them), never looked up by name. A graded cell
ends in `check(...).points`, which nbgrader takes as partial credit. Checking again gives the same verdict and never
more points.

The right answers stand in this package, open to all: points are for practice, and nothing here keeps a determined
reader from them.
"""

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec

from pagedkv.course.judge import limit
from pagedkv.course.judge.calling import NotAttempted
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Exercise, Part
from pagedkv.course.judge.keep import remember_passed
from pagedkv.course.judge.progress import remember
from pagedkv.course.judge.stub import is_stub
from pagedkv.course.lessons import find


@dataclass(frozen=True)
class Result:
    name: str
    points: int
    max_points: int

    def __repr__(self) -> str:
        return f"{self.points} of {self.max_points} points"


def check(name: str, answer) -> Result:
    """Judge `answer` to the exercise called `name`.

    Raises ValueError where there is no such exercise; no answer makes it raise.
    """
    exercise = find(name)
    print(f"{exercise.name} · {exercise.title}", flush=True)
    points, verdicts = 0, _Verdicts(exercise, answer)
    with limit.told_apart(), limit.time_limit():
        if reason := _not_judged(exercise, answer):
            print(f"   {reason}")
            return Result(name, 0, exercise.max_points)
        for part in exercise.parts:
            other = exercise.only_with.get(part.title, part.title)
            if fault := verdicts.fault(part.title):
                print(f"   {fault}", flush=True)
            elif verdicts.fault(other):
                print(f"   ok       {part.title}; counts only together with: {other}", flush=True)
            else:
                print(f"   ok       {part.title}", flush=True)
                points += part.points
    result = Result(name, points, exercise.max_points)
    print(f"   {result!r}")
    remember(exercise, points)
    if points == exercise.max_points:
        remember_passed(exercise, answer)
    return result


def _not_judged(exercise: Exercise, answer) -> str | None:
    """Why this answer is not judged at all, or None."""
    if exercise.needs and find_spec(exercise.needs) is None:
        return (
            f"needs {exercise.needs.capitalize()} (Linux), which is not installed here: not judged, and the 0 below "
            "does not count"
        )
    try:
        if limit.limited(is_stub, answer):
            return "not attempted yet: replace the ... in the cell above and run it, then run this cell again"
        if limit.limited(borrowed, answer):
            return "this is the course's own reference, imported; write yours in the cell above"
    except limit.Stopped:
        raise
    except BaseException:  # of an object that cannot even be looked at; its parts say so
        return None
    return None


def borrowed(answer) -> bool:
    """Whether an answer, or a part of it, is defined in this package."""
    parts = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else [answer]
    return any(str(getattr(part, "__module__", "")).startswith("pagedkv.course") for part in parts)


class _KeptOpen:
    """What an answer prints to. Closing it, or putting something else in its place, lasts as long as the answer."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def close(self) -> None: ...


class _Verdicts:
    """What is wrong with each part of an answer. A part is judged when it is first asked for, and none any more once
    the time is over, or where the parts build on one another and one is not passed.
    """

    def __init__(self, exercise: Exercise, answer):
        self.parts, self.answer = {part.title: part for part in exercise.parts}, answer
        self.faults, self.is_over, self.in_order = {}, False, exercise.in_order

    def fault(self, title: str) -> str | None:
        """The line that says what is missing for the part called `title`, or None."""
        if title not in self.faults:
            self.faults[title] = f"not judged  {title}" if self.is_over else self._judge(self.parts[title])
            self.is_over |= self.in_order and self.faults[title] is not None
        return self.faults[title]

    def _judge(self, part: Part) -> str | None:
        try:
            with redirect_stdout(_KeptOpen(sys.stdout)):
                part.run(self.answer)
        except NotAttempted:
            return f"not attempted  {part.title}"
        except Wrong as wrong:
            return f"not yet  {part.title}: {str(wrong).removesuffix('.')}{'' if str(wrong).endswith('?') else '.'}"
        except limit.TooLong:
            self.is_over = True
            return (
                f"not yet  {part.title}: your function has not returned after {limit.SECONDS} seconds, which are for "
                "the whole check; is there an endless loop? Or the machine is busy: run the cell again."
            )
        return None
