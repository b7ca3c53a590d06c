"""`check("2.1-kv-bytes", answer)` judges an answer, prints a verdict part by part, and returns the points.

The answer is handed over as an object (a function, a value, or a tuple of them), never looked up by name. A graded cell ends in
`check(...).points`, which nbgrader takes as partial credit. Checking again gives the same verdict and never more points.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from pagedkv.quiz.calling import NotAttempted, is_stub
from pagedkv.quiz.compare import Wrong
from pagedkv.quiz.exercise import Exercise
from pagedkv.quiz.progress import remember


@dataclass(frozen=True)
class Result:
    name: str
    points: int
    max_points: int

    def __repr__(self) -> str:
        return f"{self.points} of {self.max_points} points"


def check(name: str, answer) -> Result:
    """Judge `answer` to the exercise called `name`. Raises ValueError where there is no such exercise; no answer makes it raise."""
    exercise = find(name)
    print(f"{exercise.name} · {exercise.title}")
    if is_stub(answer):
        print("   not attempted yet: replace the ... in the cell above and run it, then run this cell again")
        return Result(name, 0, exercise.max_points)
    points = 0
    for part in exercise.parts:
        try:
            part.run(answer)
        except NotAttempted:
            print(f"   not attempted  {part.title}")
        except Wrong as wrong:
            print(f"   not yet  {part.title}: {str(wrong).removesuffix('.')}{'' if str(wrong).endswith('?') else '.'}")
        else:
            print(f"   ok       {part.title}")
            points += part.points
    result = Result(name, points, exercise.max_points)
    print(f"   {result!r}")
    remember(exercise, points)
    return result


def find(name: str) -> Exercise:
    """The exercise called `name`, from the file of its lesson."""
    lesson = str(name).split("-")[0]
    module = f"pagedkv.quiz.lesson_{lesson.replace('.', '_')}"
    exercises = {e.name: e for e in import_module(module).EXERCISES} if lesson.replace(".", "").isdigit() and find_spec(module) else {}
    if name not in exercises:
        known = f"lesson {lesson} has {', '.join(exercises)}" if exercises else f"there is no lesson {lesson!r}"
        raise ValueError(f"name must be that of an exercise, not {name!r}; {known}")
    return exercises[name]
