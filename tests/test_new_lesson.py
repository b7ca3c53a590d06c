"""A lesson is one folder and one notebook: in a copy of the course a throw-away one is found by all that asks for
lessons.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("torch")  # the figures of the other lessons need it

ROOT = Path(__file__).parents[1]
NAME = "4_9_throw_away"
FILES = {
    f"pagedkv/course/lesson_{NAME[:3]}/__init__.py": '''"""Lesson 4.9: thrown away."""

TITLE = "Throw-away"
SENTENCE = "twice as many,\\nfor a test"
THREAD = "Its tokens are thrown away."
''',
    f"pagedkv/course/lesson_{NAME[:3]}/exercises.py": '''"""Exercises of lesson 4.9: doubling."""

from pagedkv.course.judge.exercise import Exercise, calls

NUMBERS = calls("numbers", lambda n: 2 * n, lambda rng: [(n,) for n in range(5)])
EXERCISES = (Exercise("4.9-double", "doubling", (NUMBERS,)),)
''',
    f"pagedkv/course/lesson_{NAME[:3]}/pictures.py": '''"""The picture of lesson 4.9."""

from pagedkv.course.draw.canvas import Canvas


def nothing():
    canvas = Canvas(100, 50)
    canvas.text(10, 20, "nothing")
    return canvas, "A picture of nothing, for a test."


FIGURES = {"figure_9": nothing}
''',
}
SOURCE = [
    nbformat.v4.new_markdown_cell("# 4.9 Throw-away\nCPU, 5 minutes."),
    nbformat.v4.new_code_cell("from pagedkv.course.judge.check import check"),
    nbformat.v4.new_code_cell("def double(n):\n    ### BEGIN SOLUTION\n    return n + n\n    ### END SOLUTION"),
    nbformat.v4.new_code_cell('check("4.9-double", double).points'),
]
FINDS = """
import os
from pagedkv.course.judge.check import check
from pagedkv.course.judge.progress import progress, score
from pagedkv.course.draw.thread import strip
from pagedkv.course.lesson_1.pictures import chapter_map
from pagedkv.course.lessons import all_figures
print(check("4.9-double", lambda n: n * 2).points)
print("figure_9" in all_figures(), chapter_map()[1], strip("4.9")[1])
score("4.9")
progress()
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with the folder, the notebook's source, and a row in each of the two tables."""
    folder = tmp_path_factory.mktemp("course")
    for part in ("pagedkv", "notebooks", "figures", ".github", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    nbformat.write(nbformat.v4.new_notebook(cells=SOURCE), folder / f"notebooks/solutions/{NAME}.ipynb")
    row = f"| [4.9 Throw-away]({NAME}.ipynb) | 5 | CPU | throw it away |"
    shutil.copy(ROOT / "README.md", folder)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    link = f"[4.9 Throw-away](notebooks/{NAME}.ipynb) (5) · "
    (folder / "README.md").write_text(readme.replace("[5.1 ", f"{link}[5.1 "), encoding="utf-8")
    first = nbformat.read(folder / "notebooks/1_start_here.ipynb", as_version=4)
    for cell in first.cells:
        cell.source = re.sub(r"^\| \[5\.1 ", row + "\n" + r"\g<0>", cell.source, flags=re.MULTILINE)
    nbformat.write(first, folder / "notebooks/1_start_here.ipynb")
    return folder


def run(course: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(course), "CI": "1"}
    ran = subprocess.run([sys.executable, *arguments], cwd=course, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_its_exercise_its_figure_and_its_row_on_the_map_are_found(course):
    said = run(course, "-c", FINDS)
    assert "numbers" in said and "\n1\nTrue" in said
    assert "4.9 Throw-away. Then 5.1" in said and "in 4.9, Throw-away. Its tokens are thrown away" in said
    assert "4.9-double           1 of 1   doubling" in said and re.search(
        r"^4\.9  □ +0 of 1 points$", said, re.MULTILINE
    )


@pytest.mark.thorough
def test_its_notebook_is_built_and_the_tables_are_held_against_it(course):
    assert f"{NAME}.ipynb: stored" in run(course, "-m", "pagedkv.course.editions", NAME)
    learner = nbformat.read(course / f"notebooks/{NAME}.ipynb", as_version=4)
    assert learner.cells[-1].metadata.nbgrader.points == 1 and learner.cells[-1].outputs[-1].data["text/plain"] == "0"
    tables = [
        "tests/test_readme.py::test_the_minutes_are_those_of_the_lessons",
        "tests/test_notebooks.py",
        "tests/test_house.py",
    ]
    named = "minutes or first_lesson or every_exercise or imports"
    run(course, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tables, "-k", named)
