"""`python -m pagedkv.course.mend HANDIN.ipynb ...` lets nbgrader grade hand-ins in which a learner has copied cells.

A copied cell carries the grading id of its original, and nbgrader's autograde stops at a notebook with an id twice. Of
all cells with one id the last code cell keeps it, as it is the one that counts when the notebook runs from top to
bottom; without one the last cell. The others stay where they are as plain cells. A file that is no notebook is named
and left as it is; the exit status is then 1.
"""

import argparse
from pathlib import Path

import nbformat

from pagedkv.arguments import command
from pagedkv.files import replace


def mend(notebook: nbformat.NotebookNode) -> list[str]:
    """Leave each grading id to the last code cell that has it. Returns the ids that were there more than once."""
    keepers, copied = {}, set()
    for cell in sorted(reversed(notebook.cells), key=lambda cell: cell.cell_type != "code"):
        graded = cell.metadata.get("nbgrader")
        grade_id = graded.get("grade_id") if isinstance(graded, dict) else None
        if grade_id and keepers.setdefault(grade_id, cell) is not cell:
            del cell.metadata["nbgrader"]
            copied.add(grade_id)
    return sorted(copied)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m pagedkv.course.mend", description="Mend hand-ins with copied cells.")
    parser.add_argument("paths", nargs="+", metavar="HANDIN.ipynb", type=Path)
    failed = 0
    for path in parser.parse_args(arguments).paths:
        try:
            notebook = nbformat.read(path, as_version=4)
            if copied := mend(notebook):
                replace(path, nbformat.writes(notebook) + "\n")
                print(f"{path}: the last of the copies keeps {', '.join(copied)}")
        except Exception as error:  # whatever a file holds, those behind it are mended
            failed = 1
            reason = error.strerror if isinstance(error, OSError) else f"no notebook ({type(error).__name__})"
            print(f"{path}: {reason}, left as it is")
    return failed


if __name__ == "__main__":
    command(main)
