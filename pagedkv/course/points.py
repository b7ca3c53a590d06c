"""`python -m pagedkv.course.points` prints for each lesson its minutes, its exercises and its points, and their sums.

The minutes are those of each notebook's first cell, the points those that its checks can give.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from pagedkv.arguments import command
from pagedkv.course.lessons import wings

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


class Row(NamedTuple):
    """One lesson of the timetable."""

    number: str
    title: str
    minutes: int
    exercises: int
    points: int


def minutes(notebook: Path) -> int:
    """The minutes that a lesson's first cell names."""
    first = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
    return int(re.search(r"(\d+) minutes", first)[1])


def timetable(folder: Path = NOTEBOOKS) -> list[Row]:
    """Every lesson whose notebook is in `folder`, in the order of the course."""
    rows = []
    for wing in wings():
        exercises = wing.find("exercises", "EXERCISES", ())
        for path in folder.glob(wing.number.replace(".", "_") + "_*.ipynb"):
            points = sum(exercise.max_points for exercise in exercises)
            rows.append(Row(wing.number, wing.title, minutes(path), len(exercises), points))
    return rows


def main() -> int:
    rows = timetable()
    if not rows:
        print(f"no lesson lies in {NOTEBOOKS}: run this in a copy of the whole course, not in the package alone")
        return 1
    wide = max(len(row.title) for row in rows)
    print(f"{'lesson':<{wide + 5}} minutes  exercises  points")
    for row in [*rows, Row("", "in all", *(sum(column) for column in list(zip(*rows, strict=True))[2:]))]:
        print(f"{row.number:<4} {row.title:<{wide}} {row.minutes:>7,}  {row.exercises:>9}  {row.points:>6}")
    return 0


if __name__ == "__main__":
    command(main)
