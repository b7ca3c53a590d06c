"""Running any cell twice in a row changes nothing: every second result is the stored one."""

from copy import deepcopy

import nbformat
import pytest
from nbclient import NotebookClient
from notebook_rules import code_cells, text_of

from pagedkv.course import editions

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("nothing_kept")]
SOLUTIONS = {path.stem: path for path in (editions.FOLDER / "solutions").glob("*.ipynb")}
LESSONS = sorted({path.stem: path for path in editions.FOLDER.glob("*.ipynb")} | SOLUTIONS)


def result(cell) -> list[tuple]:
    """What a cell shows: its texts, and the words of its pictures."""
    return [(text_of(output), output.get("metadata", {}).get("image/png", {}).get("alt")) for output in cell.outputs]


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_cell_run_twice_gives_the_stored_result(lesson, monkeypatch):
    monkeypatch.setenv("CI", "1")
    path = SOLUTIONS.get(lesson, editions.FOLDER / f"{lesson}.ipynb")
    stored = nbformat.read(path, as_version=4)
    for package in ("torch", "triton"):
        if any(f"import {package}" in cell.source for cell in code_cells(stored)):
            pytest.importorskip(package)
    notebook = deepcopy(stored)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                client.execute_cell(cell, index)
                client.execute_cell(cell, index)
    pairs = zip(code_cells(editions.normalise(notebook)), code_cells(stored), strict=True)
    compared = [(mine, right) for mine, right in pairs if editions.IGNORE not in right.metadata.get("tags", [])]
    assert [
        (mine.source, result(mine), result(right)) for mine, right in compared if result(mine) != result(right)
    ] == []
