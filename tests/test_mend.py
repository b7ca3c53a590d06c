"""A hand-in with copied cells: each grading id is left to the last cell that has it, and nothing else changes."""

from copy import deepcopy

import nbformat
import pytest

from pagedkv.course.mend import main, mend


def hand_in(*grade_ids):
    cells = [
        nbformat.v4.new_code_cell(f"x = {i}", metadata={"nbgrader": {"grade_id": name}} if name else {})
        for i, name in enumerate(grade_ids)
    ]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), *cells])


def ids(notebook):
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells[1:]]


def test_the_last_of_several_copies_keeps_the_id_and_the_others_stay_as_plain_cells():
    notebook = hand_in("answer", "answer", "check", None, "answer", "check")
    sources = [cell.source for cell in notebook.cells]
    assert mend(notebook) == ["answer", "check"]
    assert ids(notebook) == [None, None, None, None, "answer", "check"]
    assert [cell.source for cell in notebook.cells] == sources
    assert all("nbgrader" not in cell.metadata for cell in notebook.cells[:5])
    assert mend(notebook) == []


def test_a_hand_in_without_copies_stays_as_it_is():
    notebook = hand_in("answer", "check", None)
    before = deepcopy(notebook)
    assert mend(notebook) == [] and notebook == before


def test_the_command_mends_what_needs_it_and_says_so(tmp_path, capsys):
    for name, notebook in {"ada": hand_in("answer", "answer", "check"), "ben": hand_in("answer", "check")}.items():
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    (tmp_path / "eve.ipynb").write_text("<html>", encoding="utf-8")
    stored = (tmp_path / "ben.ipynb").read_bytes()
    assert main([str(tmp_path / f"{name}.ipynb") for name in ("ada", "eve", "ben")]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("ada.ipynb: the last of the copies keeps answer")
    assert said[1].endswith("eve.ipynb: no notebook (NotJSONError), left as it is") and len(said) == 2
    assert ids(nbformat.read(tmp_path / "ada.ipynb", as_version=4)) == [None, "answer", "check"]
    assert (tmp_path / "ben.ipynb").read_bytes() == stored


def test_a_copy_that_is_no_code_leaves_the_id_to_the_code():
    notebook = hand_in("answer", "answer", "check")
    for _ in range(2):
        notebook.cells.append(nbformat.v4.new_markdown_cell("x", metadata={"nbgrader": {"grade_id": "answer"}}))
    notebook.cells.append(nbformat.v4.new_raw_cell("x", metadata={"nbgrader": {"grade_id": "check"}}))
    assert mend(notebook) == ["answer", "check"]
    assert ids(notebook) == [None, "answer", "check", None, None, None]
    written = {"nbgrader": {"grade_id": "written"}}
    texts = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(x, metadata=written) for x in "abc"])
    assert mend(texts) == ["written"] and ids(texts) == [None, "written"]


ODD = {
    "missing": (None, "No such file or directory"),
    "folder": ("folder", "Is a directory"),
    "list": ("[]", "no notebook (AttributeError)"),
    "empty": ("", "no notebook (NotJSONError)"),
    "bytes": (b"\xff\xfe\x00", "no notebook (UnicodeDecodeError)"),
    "no cells": ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "no notebook (ValidationError)"),
    "no format": ("{}", "no notebook"),
    "cells of another kind": (
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1, null]}',
        "no notebook",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_a_file_that_is_no_notebook_is_named_and_those_behind_it_are_mended(name, tmp_path, capsys):
    content, words = ODD[name]
    odd, good = tmp_path / "odd.ipynb", tmp_path / "good.ipynb"
    if content == "folder":
        odd.mkdir()
    elif content is not None:
        odd.write_bytes(content.encode() if isinstance(content, str) else content)
    nbformat.write(hand_in("answer", "answer"), good)
    assert main([str(odd), str(good)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert f"odd.ipynb: {words}" in said[0] and said[0].endswith("left as it is")
    assert said[1:] == [f"{good}: the last of the copies keeps answer"]
    assert main([str(good)]) == 0 and capsys.readouterr().out == ""


@pytest.mark.parametrize("graded", [None, "x", [], 7, {}, {"grade_id": None}])
def test_cells_that_are_not_graded_stay(graded, tmp_path, capsys):
    notebook = hand_in("answer", "answer")
    for _ in range(2):
        notebook.cells.append(nbformat.v4.new_code_cell("x", metadata={"nbgrader": graded}))
    nbformat.write(notebook, tmp_path / "a.ipynb")
    assert main([str(tmp_path / "a.ipynb")]) == 0 and "keeps answer" in capsys.readouterr().out
    cells = nbformat.read(tmp_path / "a.ipynb", as_version=4).cells
    assert [cell.metadata.nbgrader for cell in cells[2:]] == [{"grade_id": "answer"}, graded, graded]


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), ([], 2)])
def test_the_usage(arguments, status, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    said = capsys.readouterr()
    assert left.value.code == status
    assert "usage: python -m pagedkv.course.mend [-h] HANDIN.ipynb [HANDIN.ipynb ...]" in said.out + said.err
