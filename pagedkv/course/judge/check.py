"""`check("2.1-kv-bytes", answer)` judges an answer, prints a verdict part by part, and returns the points.

The answer is handed over as an object (a function, a value, or a tuple of them), never looked up by name. A graded cell
ends in `check(...).points`, which nbgrader takes as partial credit. Checking again gives the same verdict and never
more points.

The right answers stand in this package, open to all: points are for practice, and nothing here keeps a determined
reader from them.
"""

from dataclasses import dataclass
from importlib.util import find_spec

from pagedkv.course.judge.calling import NotAttempted, is_stub
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Exercise, Part
from pagedkv.course.judge.progress import remember
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
    print(f"{exercise.name} · {exercise.title}")
    reason = _not_judged(exercise, answer)
    if reason:
        print(f"   {reason}")
        return Result(name, 0, exercise.max_points)
    points, faults = 0, {part.title: _fault(part, answer) for part in exercise.parts}
    for part in exercise.parts:
        other = exercise.only_with.get(part.title, part.title)
        if faults[part.title]:
            print(f"   {faults[part.title]}")
        elif faults[other]:
            print(f"   ok       {part.title}; counts only together with: {other}")
        else:
            print(f"   ok       {part.title}")
            points += part.points
    result = Result(name, points, exercise.max_points)
    print(f"   {result!r}")
    remember(exercise, points)
    return result


def _not_judged(exercise: Exercise, answer) -> str | None:
    """Why this answer is not judged at all, or None."""
    if exercise.needs and find_spec(exercise.needs) is None:
        return (
            f"needs {exercise.needs.capitalize()} (Linux), which is not installed here: not judged, and the 0 below "
            "does not count"
        )
    if is_stub(answer):
        return "not attempted yet: replace the ... in the cell above and run it, then run this cell again"
    if borrowed(answer):
        return "this is the course's own reference, imported; write yours in the cell above"
    return None


def borrowed(answer) -> bool:
    """Whether an answer, or a part of it, is defined in this package."""
    parts = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else [answer]
    return any(str(getattr(part, "__module__", "")).startswith("pagedkv.course") for part in parts)


def _fault(part: Part, answer) -> str | None:
    """The line that says what is missing for this part, or None."""
    try:
        part.run(answer)
    except NotAttempted:
        return f"not attempted  {part.title}"
    except Wrong as wrong:
        return f"not yet  {part.title}: {str(wrong).removesuffix('.')}{'' if str(wrong).endswith('?') else '.'}"
    return None
