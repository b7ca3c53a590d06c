"""Lesson 5.1 names every difference from the chapter, and each has its evidence."""

import re
from pathlib import Path

import nbformat

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "5_1_summary.ipynb"


def test_every_difference_is_listed_once_and_has_its_evidence():
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    tables = [cell.source for cell in cells if cell.source.startswith("## Where this course differs")]
    listed = [int(number) for table in tables for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
    assert sorted(listed) == list(range(1, 16))
    mentions = [mention for cell in cells for mention in re.findall(r"^(?:# |For )[Pp]oints? ([\d, and]+)", cell.source, re.MULTILINE)]
    shown = {int(number) for mention in mentions for number in re.findall(r"\d+", mention)}
    assert shown == set(listed)
