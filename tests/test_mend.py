"""A hand-in with copied cells: each grading id is left to the last cell that has it, and nothing else changes."""

from copy import deepcopy

import nbformat

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
    main([str(tmp_path / f"{name}.ipynb") for name in ("ada", "eve", "ben")])
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("ada.ipynb: the last of the copies keeps answer")
    assert said[1].endswith("eve.ipynb: no notebook (NotJSONError), left as it is") and len(said) == 2
    assert ids(nbformat.read(tmp_path / "ada.ipynb", as_version=4)) == [None, "answer", "check"]
    assert (tmp_path / "ben.ipynb").read_bytes() == stored
