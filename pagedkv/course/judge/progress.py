"""What the learner has solved, kept in `.progress.json` beside the notebooks, and how the predictions went."""

from pagedkv.arguments import one_of
from pagedkv.course.judge import beside
from pagedkv.course.judge.exercise import Exercise
from pagedkv.course.judge.predict import outcome
from pagedkv.course.lessons import all_exercises, all_predictions

_since_start: dict[str, int] = {}  # the best points in this kernel, kept in CI too


def remember(exercise: Exercise, points: int) -> None:
    """Note the best points so far."""
    _since_start[exercise.name] = max(points, _since_start.get(exercise.name, 0))

    def better(best: dict) -> dict:
        return best | {exercise.name: points} if points > _points(best).get(exercise.name, 0) else best

    beside.change(_path(), better)


def progress() -> None:
    """Print, lesson by lesson, which exercises are solved (■), begun (◧) and open (□), and how predictions went."""
    best, predictions = _load(), all_predictions()
    for lesson, exercises in all_exercises().items():
        points = [min(best.get(exercise.name, 0), exercise.max_points) for exercise in exercises]
        marks = "".join("■" if p == e.max_points else "◧" if p else "□" for p, e in zip(points, exercises, strict=True))
        line = f"{lesson}  {marks:<12} {sum(points):>3} of {sum(e.max_points for e in exercises)} points"
        print(line + _predicted(predictions.pop(lesson, ())))
    for lesson, asked in predictions.items():  # of lessons without exercises
        if said := _predicted(asked):
            print(f"{lesson}  {said.strip()}")


def _predicted(predictions) -> str:
    """How many were committed, where any was, and how many of them came out so; never graded."""
    committed, right = outcome(predictions)
    return f"   predicted {committed} of {len(predictions)}, {right} as it came out" if committed else ""


def score(lesson: str) -> None:
    """Print, for each exercise of a lesson ("5.2"), the best points so far or that it is open, and their sum."""
    best = _load()
    exercises, total = all_exercises()[one_of("lesson", lesson, all_exercises())], 0
    for exercise in exercises:
        points = min(max(best.get(exercise.name, 0), _since_start.get(exercise.name, 0)), exercise.max_points)
        total += points
        print(f"{exercise.name:<20} {f'{points} of {exercise.max_points}' if points else 'open':<8} {exercise.title}")
    print(f"{total} of {sum(exercise.max_points for exercise in exercises)} points")


def _path():
    return (folder := beside.notebooks()) and folder / ".progress.json"


def _load() -> dict[str, int]:
    return _points(beside.load(_path()))


def _points(found: dict) -> dict[str, int]:
    return {name: points for name, points in found.items() if type(points) is int and points > 0}
