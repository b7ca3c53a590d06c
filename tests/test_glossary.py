"""The glossary names, for each term, a lesson that uses it."""

import re
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def text(notebook: str) -> str:
    return "\n".join(cell.source for cell in nbformat.read(NOTEBOOKS / notebook, as_version=4).cells)


def letters(words: str) -> str:
    """Lower case without spaces, hyphens and emphasis, so that OutOfMemory is "out of memory"."""
    return re.sub(r"[\W_]", "", words).lower()


ROWS = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| [^|]+ \| \[[\d.]+\]\((\w+\.ipynb)\) \|$", text("glossary.ipynb"), re.MULTILINE
)


def test_each_term_is_used_by_the_lesson_that_explains_it():
    lessons = {lesson: letters(text(lesson)) for _, lesson in ROWS}
    terms = [(term, lesson) for names, lesson in ROWS for term in re.sub(r" \(.*\)", "", names).split(", ")]
    assert len(terms) > 80
    assert [(term, lesson) for term, lesson in terms if letters(term) not in lessons[lesson]] == []


def test_no_term_is_explained_twice():
    names = [names for names, _ in ROWS]
    assert sorted(set(names)) == sorted(names)
