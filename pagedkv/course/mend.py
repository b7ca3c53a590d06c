"""`python -m pagedkv.course.mend HANDIN.ipynb ...` lets nbgrader grade hand-ins in which a learner has copied cells.

A copied cell carries the grading id of its original, and nbgrader's autograde stops at a notebook with an id twice. Of
all cells with one id the last keeps it, as it is the one that counts when the notebook runs from top to bottom; the
others stay where they are as plain cells.
"""

import sys
from pathlib import Path

import nbformat


def mend(notebook: nbformat.NotebookNode) -> list[str]:
    """Leave each grading id to the last cell that has it. Returns the ids that were there more than once."""
    seen, copied = set(), []
    for cell in reversed(notebook.cells):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in seen:
            del cell.metadata["nbgrader"]
            copied.append(grade_id)
        elif grade_id:
            seen.add(grade_id)
    return sorted(set(copied))


def main(paths: list[str]) -> None:
    for path in map(Path, paths):
        try:
            notebook = nbformat.read(path, as_version=4)
        except ValueError as error:
            print(f"{path}: no notebook ({type(error).__name__}), left as it is")
            continue
        if copied := mend(notebook):
            nbformat.write(notebook, path)
            print(f"{path}: the last of the copies keeps {', '.join(copied)}")


if __name__ == "__main__":
    main(sys.argv[1:])
