"""The lessons, found by their folders: a wing is `lesson_X_Y/`, and nothing is registered anywhere.

A wing says its TITLE, the SENTENCE of its box on the map where it is one of a chapter's lessons, and the THREAD of the
strip at its top (`draw/thread.py`). Its `exercises.py` has EXERCISES, its `predictions.py` PREDICTIONS, its
`pictures.py` the FIGURES that are stored in figures/; a wing without one of these files has none.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pagedkv.arguments import shown


class Wing(NamedTuple):
    """One lesson: its number ("2.1"), and the name of its package."""

    number: str
    package: str

    @property
    def title(self) -> str:
        return import_module(self.package).TITLE

    @property
    def sentence(self) -> str:
        """What the lesson adds, in two lines; empty for those that frame the chapter."""
        return getattr(import_module(self.package), "SENTENCE", "")

    @property
    def thread(self) -> str:
        """What the lesson does with the request that the course follows, in one or two lines; empty for lesson 1."""
        return getattr(import_module(self.package), "THREAD", "")

    def find(self, file: str, name: str, default):
        """`name` from one of the wing's files, `default` where the wing has no such file or the file no such name."""
        module = f"{self.package}.{file}"
        return getattr(import_module(module), name, default) if find_spec(module) else default


def wings() -> list[Wing]:
    """Every lesson, in the order of the course."""
    folders = [path for path in Path(__file__).parent.glob("lesson_*") if (path / "__init__.py").is_file()]
    numbers = sorted(tuple(map(int, path.name.split("_")[1:])) for path in folders)
    return [
        Wing(".".join(map(str, number)), "pagedkv.course.lesson_" + "_".join(map(str, number))) for number in numbers
    ]


def all_exercises() -> dict[str, tuple]:
    """The exercises of every lesson that has some, by lesson ("2.1")."""
    return _by_lesson("exercises")


def all_predictions() -> dict[str, tuple]:
    """The predictions of every lesson that has some, by lesson."""
    return _by_lesson("predictions")


def _by_lesson(file: str) -> dict[str, tuple]:
    found = {wing.number: wing.find(file, file.upper(), ()) for wing in wings()}
    return {number: some for number, some in found.items() if some}


def all_figures() -> dict[str, Callable[[], tuple]]:
    """File name -> a function that returns (picture, words), for every picture in figures/."""
    return {name: draw for wing in wings() for name, draw in wing.find("pictures", "FIGURES", {}).items()}


def find(name: str):
    """The `Exercise` called `name`. Raises ValueError that lists those of its lesson."""
    return _named(name, "exercises", "an exercise")


def find_prediction(name: str):
    """The `Prediction` called `name`. Raises ValueError that lists those of its lesson."""
    return _named(name, "predictions", "a prediction")


def _named(name: str, file: str, what: str):
    lesson = name.split("-")[0] if isinstance(name, str) else shown(name)
    wing = next((wing for wing in wings() if wing.number == lesson), None)
    there = {thing.name: thing for thing in wing.find(file, file.upper(), ())} if wing else {}
    if not isinstance(name, str) or name not in there:
        known = f"lesson {lesson} has {', '.join(there) or 'none'}" if wing else f"there is no lesson {lesson!r}"
        raise ValueError(f"name must be that of {what}, not {shown(name)}; {known}")
    return there[name]
