"""The lessons, found by their folders: a wing is `lesson_X_Y/`, and nothing is registered anywhere.

A wing says its TITLE, the SENTENCE of its box on the map where it is one of a chapter's lessons, and the THREAD of the
strip at its top (`draw/thread.py`). Its `exercises.py` has EXERCISES, its `pictures.py` the FIGURES that are stored in
figures/; a wing without one of these files has none.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


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
    found = {wing.number: wing.find("exercises", "EXERCISES", ()) for wing in wings()}
    return {number: exercises for number, exercises in found.items() if exercises}


def all_figures() -> dict[str, Callable[[], tuple]]:
    """File name -> a function that returns (picture, words), for every picture in figures/."""
    return {name: draw for wing in wings() for name, draw in wing.find("pictures", "FIGURES", {}).items()}


def find(name: str):
    """The `Exercise` called `name`. Raises ValueError that lists those of its lesson."""
    lesson = str(name).split("-")[0]
    wing = next((wing for wing in wings() if wing.number == lesson), None)
    exercises = {exercise.name: exercise for exercise in wing.find("exercises", "EXERCISES", ())} if wing else {}
    if name not in exercises:
        known = f"lesson {lesson} has {', '.join(exercises)}" if exercises else f"there is no lesson {lesson!r}"
        raise ValueError(f"name must be that of an exercise, not {name!r}; {known}")
    return exercises[name]
