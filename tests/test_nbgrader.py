"""The sources are assignments that nbgrader releases and grades: the solution gets every point, an untouched edition
none.
"""

import csv
import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from pagedkv.course import editions

ROOT = Path(__file__).parents[1]
NBGRADER = ROOT / ".venv-teach/bin/nbgrader"
SOURCES = sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))
GRADED = "5_2_quiz"

pytestmark = pytest.mark.skipif(not NBGRADER.exists(), reason="nbgrader has an environment of its own: make teach")


def nbgrader(course: Path, *arguments: str) -> None:
    """Run nbgrader on the course, with settings of its own."""
    places = {f"JUPYTER_{name}_DIR": str(course / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")} | {"CI": "1"}
    places["PATH"] = f"{NBGRADER.parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader calls alembic
    ran = subprocess.run([NBGRADER, *arguments], env=os.environ | places, capture_output=True, text=True, cwd=course)
    assert ran.returncode == 0, ran.stderr


def scores(course: Path, assignment: str) -> dict[str, tuple[float, float]]:
    """(points, highest possible points) of each student, from nbgrader's own export."""
    nbgrader(course, "export", "--to=grades.csv")
    rows = csv.DictReader((course / "grades.csv").read_text().splitlines())
    return {
        row["student_id"]: (float(row["score"] or 0), float(row["max_score"]))
        for row in rows
        if row["assignment"] == assignment
    }


def test_every_source_can_be_released(tmp_path):
    assignment = tmp_path / "source" / "course"
    assignment.mkdir(parents=True)
    for path in SOURCES:
        shutil.copy(path, assignment)
    nbgrader(tmp_path, "generate_assignment", "course")
    released = sorted((tmp_path / "release" / "course").glob("*.ipynb"))
    assert [path.name for path in released] == [path.name for path in SOURCES]
    assert all(
        "BEGIN SOLUTION" not in path.read_text() and "NotImplementedError" in path.read_text() for path in released
    )


def test_grading_gives_the_solution_every_point_and_the_untouched_editions_none(tmp_path):
    source = ROOT / f"notebooks/solutions/{GRADED}.ipynb"
    (tmp_path / "source" / GRADED).mkdir(parents=True)
    shutil.copy(source, tmp_path / "source" / GRADED)
    nbgrader(tmp_path, "generate_assignment", GRADED)
    other_words = nbformat.read(source, as_version=4)
    for cell in other_words.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = f"# as handed out before these words were changed\n{cell.source}"
    nbformat.write(editions.normalise(editions.graded(other_words)), tmp_path / source.name)
    handed_in = {
        "solved": source,
        "earlier": tmp_path / source.name,
        "released": tmp_path / "release" / GRADED / source.name,
        "derived": ROOT / "notebooks" / source.name,
    }
    for student, path in handed_in.items():
        folder = tmp_path / "submitted" / student / GRADED
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
    nbgrader(tmp_path, "autograde", GRADED, "--create")
    metadata = [cell.metadata.get("nbgrader", {}) for cell in nbformat.read(source, as_version=4).cells]
    total = sum(cell.get("points", 0) for cell in metadata)
    assert total > 0
    assert scores(tmp_path, GRADED) == {
        "solved": (total, total),
        "earlier": (total, total),
        "released": (0, total),
        "derived": (0, total),
    }
