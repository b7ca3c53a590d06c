"""The sources are assignments that nbgrader releases and grades: the solution gets every point, an untouched edition
none, and a hand-in whose cells were copied, deleted or typed anew what its answers are worth.
"""

import csv
import os
import subprocess
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from notebook_rules import code_cells

from pagedkv.course import editions

ROOT = Path(__file__).parents[1]
NBGRADER = ROOT / ".venv-teach/bin/nbgrader"
SOURCES = sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))
GRADED = "5_2_quiz"
CHANGED, ANSWER, CHECK = "2_1_contiguous_allocation", "solution-2-1-config", "2-1-config"

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not NBGRADER.exists(), reason="nbgrader has an environment of its own: make teach"),
]


def teach(course: Path, program: str, *arguments: str) -> None:
    """Run a program of the teacher's environment on the course, with settings of its own."""
    places = {f"JUPYTER_{name}_DIR": str(course / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")} | {"CI": "1"}
    places["PATH"] = f"{NBGRADER.parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader calls alembic
    command = [NBGRADER.parent / program, *arguments]
    ran = subprocess.run(command, env=os.environ | places, capture_output=True, text=True, cwd=course)
    assert ran.returncode == 0, ran.stderr


def source_of(name: str) -> nbformat.NotebookNode:
    return editions.graded(nbformat.read(ROOT / f"notebooks/solutions/{name}.ipynb", as_version=4))


def grades(course: Path, name: str, handed_in: dict[str, nbformat.NotebookNode]) -> dict[str, tuple[float, float]]:
    """(points, highest possible points) of each student, as course/teaching/README.md's commands give them."""
    (course / "source" / name).mkdir(parents=True)
    nbformat.write(source_of(name), course / f"source/{name}/{name}.ipynb")
    teach(course, "nbgrader", "generate_assignment", name)
    handed_in = handed_in | {"released": nbformat.read(course / f"release/{name}/{name}.ipynb", as_version=4)}
    for student, notebook in handed_in.items():
        (course / f"submitted/{student}/{name}").mkdir(parents=True)
        nbformat.write(notebook, course / f"submitted/{student}/{name}/{name}.ipynb")
    teach(course, "python", "-m", "pagedkv.course.mend", *map(str, course.glob("submitted/*/*/*.ipynb")))
    teach(course, "nbgrader", "autograde", name, "--create")
    teach(course, "nbgrader", "export", "--to=grades.csv")
    teach(course, "python", "-m", "pagedkv.course.grades", "grades.csv", "--for", "canvas")
    assert len((course / "grades-canvas.csv").read_text().splitlines()) == len(handed_in) + 2
    rows = csv.DictReader((course / "grades.csv").read_text().splitlines())
    return {row["student_id"]: (float(row["score"] or 0), float(row["max_score"])) for row in rows}


def points(notebook, name=None) -> int:
    """The points of the exercise whose check is called `name`, or of all."""
    metadata = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    return sum(cell.get("points", 0) for cell in metadata if name in (None, cell.get("grade_id")))


def place_of(notebook, name) -> int:
    return next(i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def test_every_source_can_be_released_and_is_locked_as_the_learners_edition_is(tmp_path):
    assignment = tmp_path / "source" / "course"
    assignment.mkdir(parents=True)
    for path in SOURCES:
        nbformat.write(source_of(path.stem), assignment / path.name)
    teach(tmp_path, "nbgrader", "generate_assignment", "course")
    released = sorted((tmp_path / "release" / "course").glob("*.ipynb"))
    assert [path.name for path in released] == [path.name for path in SOURCES]
    for path in released:
        text = path.read_text()
        assert "BEGIN SOLUTION" not in text and "HIDDEN TESTS" not in text and "NotImplementedError" in text
        cells = (nbformat.read(path, as_version=4).cells, editions.derive(source_of(path.stem)).cells)
        theirs, ours = (
            [[cell.metadata.get(lock) for lock in ("deletable", "editable")] for cell in of] for of in cells
        )
        assert theirs == ours and [False, False] in ours and [False, None] in ours


def test_grading_gives_the_solution_every_point_and_the_untouched_editions_none(tmp_path):
    solved = source_of(GRADED)
    earlier = deepcopy(solved)
    for cell in earlier.cells:
        cell.source = cell.source.removeprefix(editions.OWN_CHECK)
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = f"# as handed out before these words were changed\n{cell.source}"
    handed_in = {"solved": solved, "earlier": editions.normalise(earlier), "derived": editions.derive(solved)}
    total = points(solved)
    assert total > 0
    assert grades(tmp_path, GRADED, handed_in) == {
        "solved": (total, total),
        "earlier": (total, total),
        "released": (0, total),
        "derived": (0, total),
    }


def copied(name):
    def change(notebook):
        place = place_of(notebook, name)
        notebook.cells.insert(place + 1, deepcopy(notebook.cells[place]))
        notebook.cells[place].id = "a-copy"

    return change


def deleted(name):
    return lambda notebook: notebook.cells.pop(place_of(notebook, name))


def typed_anew(notebook):
    place = place_of(notebook, ANSWER)
    notebook.cells[place] = nbformat.v4.new_code_cell(notebook.cells[place].source)


def turned_into_text(name):
    def change(notebook):
        cell = notebook.cells[place_of(notebook, name)]
        text = nbformat.v4.new_markdown_cell(cell.source, metadata=cell.metadata)
        notebook.cells[place_of(notebook, name)] = text

    return change


def more_points_asked_for(notebook):
    notebook.cells[place_of(notebook, CHECK)].source += " + 10"


def check_called_something_else(notebook):
    generous = "class check:\n    def __init__(self, name, answer):\n        self.points = 3"
    for cell in code_cells(notebook):
        if editions.GRADED.search(cell.source):
            notebook.cells.insert(notebook.cells.index(cell), nbformat.v4.new_code_cell(generous))


def test_copied_deleted_and_retyped_cells_are_graded_by_what_they_answer(tmp_path):
    solved = source_of(CHANGED)
    total, lost = points(solved), points(solved, CHECK)
    assert 0 < lost < total
    changes = {
        "answer-copied": (copied(ANSWER), total),
        "check-copied": (copied(CHECK), total),
        "check-deleted": (deleted(CHECK), total - lost),
        "answer-deleted": (deleted(ANSWER), total - lost),
        "answer-typed-anew": (typed_anew, total),
        "answer-as-text": (turned_into_text(ANSWER), total),
        "check-as-text": (turned_into_text(CHECK), total),
        "more-points": (more_points_asked_for, total),
        "own-check": (check_called_something_else, total),
    }
    handed_in = {student: deepcopy(solved) for student in changes}
    for student, (change, _) in changes.items():
        change(handed_in[student])
    handed_in["own-check-unanswered"] = editions.derive(solved)
    check_called_something_else(handed_in["own-check-unanswered"])
    right = {student: (score, total) for student, (_, score) in changes.items()}
    right |= {"own-check-unanswered": (0, total), "released": (0, total)}
    assert grades(tmp_path, CHANGED, handed_in) == right


def test_one_hand_in_alone_is_graded_as_one_of_many(tmp_path):
    for student, notebook in {"ada": source_of(CHANGED), "ben": editions.derive(source_of(CHANGED))}.items():
        nbformat.write(notebook, tmp_path / f"{CHANGED}.ipynb")
        asked = [f"{CHANGED}.ipynb", "--student", student, "--to", f"graded/{student}"]
        teach(tmp_path, "python", "-m", "pagedkv.course.autograde", *asked)
    rows = [csv.DictReader(path.read_text().splitlines()) for path in sorted(tmp_path.glob("graded/*/2_1/grades.csv"))]
    total = points(source_of(CHANGED))
    assert [[float(row["score"]) for row in each] for each in rows] == [[total], [0.0]]
    assert len([*tmp_path.glob("graded/*/2_1/*.html")]) == len([*tmp_path.glob("graded/*/2_1/*.ipynb")]) == 2
