"""The stored notebooks keep the rules, the learner's editions follow their sources, and building one gives what nbval
accepts.
"""

import os
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from notebook_rules import code_cells, problems, text_of

from pagedkv.course import editions
from pagedkv.course.judge.check import check
from pagedkv.course.lessons import find

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb")) + sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))
SOURCES = [path for path in NOTEBOOKS if path.parent.name == "solutions"]
LESSONS = [
    path for path in NOTEBOOKS if path.parent.name != "solutions" and path.stem not in ("1_start_here", "glossary")
]


def read(path: Path):
    return nbformat.read(path, as_version=4)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "notebooks").with_suffix(""))


every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
every_source = pytest.mark.parametrize("path", SOURCES, ids=name)


@every_notebook
def test_a_stored_notebook_keeps_the_rules(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert problems(notebook) == []
    assert path.stat().st_size < 2_000_000


@every_notebook
def test_links_lead_somewhere(path):
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    targets = [
        target.split("#")[0]
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if "://" not in target and not target.startswith("#")
    ]
    assert [target for target in targets if not (path.parent / target).exists()] == []


# 2.2 has a place to stop after half of it, 5.1 and 5.2 go over the whole chapter, the glossary is for looking up.
LONG = ("2_2", "5_1", "5_2", "glossary")


@every_notebook
def test_a_lesson_has_an_hours_length(path):
    if not path.stem.startswith(LONG):
        cells = nbformat.read(path, as_version=4).cells
        assert len(cells) <= 60
        assert sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown") <= 1900


def test_the_first_lesson_lists_every_lesson_with_its_minutes():
    lessons = {path.name: re.search(r"(\d+) minutes", read(path).cells[0].source)[1] for path in LESSONS}
    text = "\n".join(cell.source for cell in read(ROOT / "notebooks/1_start_here.ipynb").cells)
    assert dict(re.findall(r"^\| \[.*?\]\((\w+\.ipynb)\) \| (\d+) \|", text, re.MULTILINE)) == lessons


@every_source
def test_the_learners_edition_follows_its_source(path):
    source, learner = read(path), read(path.parents[1] / path.name)
    derived = editions.derive(editions.graded(deepcopy(source)))
    for cell in code_cells(learner):
        cell.outputs, cell.execution_count = [], None
    assert derived == learner
    assert "SOLUTION" not in nbformat.writes(learner)


@every_source
def test_the_solution_gets_every_point_and_the_untouched_edition_none(path):
    source, learner = read(path), read(path.parents[1] / path.name)
    for solved, untouched in zip(code_cells(source), code_cells(learner), strict=True):
        if solved.metadata.get("nbgrader", {}).get("grade"):
            points = find(editions.GRADED.search(solved.source)[1]).max_points
            assert solved.metadata["nbgrader"]["points"] == points > 0
            assert text_of(solved.outputs[-1]) == str(points)
            assert text_of(untouched.outputs[-1]) == "0"
            assert "not attempted" in text_of(untouched.outputs[0])
    graded = [cell.metadata["nbgrader"]["grade_id"] for cell in code_cells(source) if "nbgrader" in cell.metadata]
    assert len(graded) == len(set(graded)) > 0


def test_every_exercise_is_asked_in_its_lesson():
    from pagedkv.course.lessons import all_exercises

    asked = [
        found[1]
        for path in LESSONS
        for cell in code_cells(read(path))
        if (found := editions.GRADED.search(cell.source))
    ]
    assert sorted(asked) == sorted(exercise.name for exercises in all_exercises().values() for exercise in exercises)


def test_nbval_runs_in_the_environment_that_is_tested():
    commands = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--nbval" in line]
    assert commands and all("--nbval-current-env" in line for line in commands)


# the rules themselves


def notebook_of(*sources, tags=()):
    v4 = nbformat.v4
    cells = [v4.new_code_cell(source, metadata={"tags": list(tags)} if tags else {}) for source in sources]
    return v4.new_notebook(cells=[v4.new_markdown_cell("# Title\n5 minutes, CPU"), *cells])


def run(notebook, folder: Path):
    return editions.execute(editions.graded(notebook), folder)


BAD_CELLS = {
    "object()": "an object's address",
    "print(0.1 + 0.2)": "an unrounded fraction",
    "import os; print(os.path.abspath(os.sep + 'tmp/x'))": "a path of this machine",
    "print('10 %\\r', end='')": "a carriage return",
    "import sys; print('oh', file=sys.stderr)": "stderr",
    "import warnings; warnings.warn('oh')": "stderr",
    "print('long ' * 21 + '\\n' + 'long ' * 21)": "a printed table that would wrap",
    "x = 1\n" * 31: "a code cell of 31 lines",
    "x = '../README.md'": "../ in a code cell",
    "import ipywidgets\nipywidgets.IntSlider()": "without a static picture",
    "import matplotlib.pyplot as plt\nplt.plot([1]);": "without alt text",
}


def test_a_cell_that_breaks_a_rule_is_found(tmp_path):
    found = "\n".join(problems(run(notebook_of(*BAD_CELLS), tmp_path)))
    assert [problem for problem in BAD_CELLS.values() if problem not in found] == []


def test_a_notebook_as_an_editor_leaves_it_breaks_several_rules(tmp_path):
    notebook = run(notebook_of("1 + 1", "2 + 2"), tmp_path)
    assert problems(notebook) == []
    notebook.metadata.kernelspec.name = "my-env"
    notebook.metadata["widgets"] = {}
    notebook.cells[1].execution_count = 7
    notebook.cells[2].metadata["scrolled"] = True
    notebook.cells[0].source = "# Title\n![](x.png)"
    assert len(problems(notebook)) == 6


WIDGET = """from pagedkv.course.draw.widget import explore, slider
explore(lambda n: f"<b>{n}</b>", n=slider("n", 2, 0, 4))"""
LONG_STREAM = "import sys\nfor i in range(200):\n    print(i, flush=True)"


def nbval(folder: Path) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-current-env",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        str(folder),
    ]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.thorough
def test_widgets_timings_and_long_streams_pass_nbval_and_build_to_the_same_bytes(tmp_path):
    notebook = notebook_of("import time\ntime.perf_counter_ns()", tags=[editions.IGNORE])
    notebook.cells += notebook_of(WIDGET, LONG_STREAM).cells[1:]
    nbformat.write(notebook, tmp_path / "lesson.ipynb")
    editions.build("lesson", tmp_path)
    stored = (tmp_path / "lesson.ipynb").read_bytes()
    editions.build("lesson", tmp_path)
    assert (tmp_path / "lesson.ipynb").read_bytes() == stored
    for _ in range(2):
        ran = nbval(tmp_path)
        assert ran.returncode == 0, ran.stdout
    (tmp_path / "lesson.ipynb").write_bytes(stored.replace(b"199", b"198"))
    assert nbval(tmp_path).returncode == 1


@pytest.mark.thorough
def test_the_first_lesson_runs_from_any_folder(tmp_path):
    run(read(ROOT / "notebooks/1_start_here.ipynb"), tmp_path)


# editions


SOLVED = '''def f(x):
    """Double."""
    ### BEGIN SOLUTION
    if x:
        return 2 * x
    return 0
    ### END SOLUTION'''


def test_a_solution_becomes_a_stub_and_hidden_tests_go():
    source = notebook_of(
        SOLVED,
        "y = ...\n### BEGIN SOLUTION\ny = 3\n### END SOLUTION",
        "f(1)\n### BEGIN HIDDEN TESTS\nassert f\n### END HIDDEN TESTS\ny",
    )
    cells = code_cells(editions.derive(editions.graded(source)))
    assert [cell.source for cell in cells] == ['def f(x):\n    """Double."""\n    ...', "y = ...", "f(1)\ny"]
    assert [cell.metadata.get("nbgrader", {}).get("solution") for cell in cells] == [True, True, None]


@pytest.mark.parametrize("line", ["y = ...", "y: int = ...", 'y = {"a": ..., "b": ...}'])
def test_a_line_that_is_a_stub_already_gets_no_second_one(line):
    source = notebook_of(f"{line}\n### BEGIN SOLUTION\ny = 3\n### END SOLUTION")
    assert code_cells(editions.derive(source))[0].source == line


def test_dots_in_a_docstring_are_no_stub():
    source = notebook_of(
        'def f():\n    """f() is "TTTrr...": three."""\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION'
    )
    assert code_cells(editions.derive(source))[0].source.endswith("\n    ...")


def test_a_link_out_of_the_solutions_leads_to_the_same_file():
    source = notebook_of("1")
    source.cells[0].source += "\n[glossary](../glossary.ipynb), [next](2_2_fragmentation.ipynb)"
    assert "[glossary](glossary.ipynb), [next](2_2_fragmentation.ipynb)" in editions.derive(source).cells[0].source


def test_a_cell_with_both_a_solution_and_a_check_is_refused():
    exercise = next(editions.GRADED.finditer('check("2.1-x", f).points'))[1]
    with pytest.raises(ValueError, match=f"not both: {exercise}"):
        editions.graded(notebook_of(SOLVED + f'\ncheck("{exercise}", f).points'))


def test_grade_ids_come_from_the_exercise_and_stay_when_words_change():
    def ids(*sources):
        return [cell.metadata.nbgrader.grade_id for cell in code_cells(editions.graded(notebook_of(*sources)))]

    changed = SOLVED.replace("Double.", "Twice the number.")
    cells = [SOLVED, 'check("2.1-computed", f).points', SOLVED, changed, 'check("2.1-config", f).points']
    expected = ["solution-2-1-computed", "2-1-computed", "solution-2-1-config-2", "solution-2-1-config", "2-1-config"]
    assert ids(*cells) == ids(*(cell.replace("Double.", "Two times.") for cell in cells)) == expected


def test_answers_and_checks_of_the_learners_edition_are_locked_and_no_other_cell():
    source = editions.graded(notebook_of("from pagedkv import sizing", SOLVED, 'check("2.1-reservation", f).points'))
    edition = editions.normalise(editions.derive(source))
    locks = [[cell.metadata.get(lock) for lock in ("deletable", "editable")] for cell in edition.cells]
    assert locks == [[None, None], [None, None], [False, None], [False, False]]
    assert not any({"deletable", "editable"} & set(cell.metadata) for cell in source.cells)
    assert not any("locks" in problem for problem in problems(edition))
    edition.cells[1].metadata["editable"] = False
    edition.cells[2].metadata["editable"] = False
    edition.cells[3].metadata.pop("deletable")
    assert len([problem for problem in problems(edition) if "locks" in problem]) == 3


def test_a_source_judges_by_the_packages_own_check_and_the_learner_sees_nothing_of_it():
    call = 'check("2.1-reservation", f).points'
    source = editions.graded(editions.graded(notebook_of("def check(name, answer):\n    return 9", SOLVED, call)))
    names = {"f": lambda x: x, "check": None}
    exec(source.cells[-1].source, names)
    assert names["check"] is check
    assert source.cells[-1].source == editions.OWN_CHECK + call
    assert editions.derive(source).cells[-1].source == call


def test_a_solution_that_misses_a_point_is_not_stored_and_named(tmp_path):
    (tmp_path / "solutions").mkdir()
    path = tmp_path / "solutions/lesson.ipynb"
    nbformat.write(
        notebook_of("from pagedkv.course.judge.check import check", SOLVED, 'check("2.1-reservation", f).points'), path
    )
    before = path.read_bytes()
    with pytest.raises(ValueError, match="2.1-reservation does not get its 1 points"):
        editions.build("lesson", tmp_path)
    assert path.read_bytes() == before and not (tmp_path / "lesson.ipynb").exists()


def test_a_cell_that_fails_leaves_the_stored_notebook_alone(tmp_path):
    nbformat.write(notebook_of("1 / 0"), tmp_path / "lesson.ipynb")
    before = (tmp_path / "lesson.ipynb").read_bytes()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        editions.build("lesson", tmp_path)
    assert (tmp_path / "lesson.ipynb").read_bytes() == before
