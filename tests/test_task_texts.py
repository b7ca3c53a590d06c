"""Each task says what becomes of the arguments that a function gets: the exercise, read as a learner reads it."""

import re

import nbformat
import pytest

from pagedkv.course import editions

# Exercises whose functions are handed something that they could change, and must not or must.
HANDED_OVER = {
    "2.1-config", "2.2-holes", "2.3-read", "2.3-preempt", "3.1-translate", "3.2-append", "3.2-slots", "3.2-write",
    "3.1-pool", "3.3-cow", "3.3-names", "3.3-match",
    "4.1-decode", "4.2-merge", "4.4-merge", "4.4-predict", "4.6-items", "5.2-data-flow", "5.2-owner", "5.2-damage",
    "5.2-suspects", "5.2-merge", "6.1-flatten", "6.1-attend",
    "6.2-split", "6.2-steps", "6.2-schedule",
    "6.3-victims",
    "6.4-drop",
    "6.5-decodes", "6.5-faults",
}  # fmt: skip


def tasks() -> dict[str, str]:
    """The Markdown since the last check, by exercise."""
    found = {}
    for path in sorted(editions.FOLDER.glob("*.ipynb")):
        text = ""
        for cell in nbformat.read(path, as_version=4).cells:
            graded = cell.cell_type == "code" and editions.GRADED.search(cell.source)
            if graded:
                found[graded[1]], text = text, ""
            elif cell.cell_type == "markdown":
                text += cell.source
    return found


@pytest.mark.parametrize("name", sorted(HANDED_OVER))
def test_the_task_says_what_becomes_of_the_arguments(name):
    assert re.search(r"as (it is|they are|they were)|in place|changes its inputs", tasks()[name])
