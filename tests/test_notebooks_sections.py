"""Any section of a lesson runs after the set-up sections and those that it names ("After *Fork*"): who returns to one
need not run all.
"""

import contextlib
import io
import re

import nbformat
import pytest
from cells import run_cell

from pagedkv.course import editions

pytest.importorskip("torch")
pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("nothing_kept")]
SOLUTIONS = {path.stem: path for path in (editions.FOLDER / "solutions").glob("*.ipynb")}
LESSONS = {path.stem: path for path in editions.FOLDER.glob("*.ipynb")} | SOLUTIONS


def sections(notebook) -> dict[str, tuple[list[str], list[str]]]:
    """By heading, what stands before the first one as set-up: (how the headings that the section names begin, its code
    cells).
    """
    found, heading = {"Set-up": ([], [])}, "Set-up"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^## (.*)$", cell.source, re.MULTILINE):
                found.setdefault(heading, ([], []))
            found[heading][0].extend(re.findall(r"After (?:the cells of )?\*([^*]+)\*", cell.source))
        else:
            found[heading][1].append(cell.source)
    return found


def needed(name: str, found: dict) -> list[str]:
    """The code of a section and, before it, of those it needs."""
    named = [
        code for start in found[name][0] for other in found if other.startswith(start) for code in needed(other, found)
    ]
    return list(dict.fromkeys(named + found[name][1]))


@pytest.mark.parametrize("lesson", sorted(LESSONS))
def test_a_section_runs_after_those_it_names(lesson, monkeypatch):
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    monkeypatch.chdir(LESSONS[lesson].parent)
    found = sections(nbformat.read(LESSONS[lesson], as_version=4))
    set_up = [code for name in found if name.startswith("Set-up") for code in found[name][1]]
    failed = {}
    for name in found:
        namespace = {}
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                for code in dict.fromkeys(set_up + needed(name, found)):
                    run_cell(code, namespace)
        except Exception as error:
            failed[name] = repr(error)
    assert failed == {}
