"""A stored notebook as a page of the book: what a web page lacks or a reader without a kernel cannot use is put right.

Pictures become files with their words as alt text, widgets become explorers whose pictures are drawn beforehand, or a
sentence where that cannot be; nbgrader's marks go. Text and code stay as they are.
"""

import hashlib
import re
from base64 import b64decode
from html import escape
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from pagedkv.course.book.explorers import Explorer
from pagedkv.course.editions import HIDDEN_TESTS, WIDGET_TEXT

MARKS = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION\n?", re.MULTILINE)
CALL = re.compile(r"^widgets\.(\w+)\(\)$", re.MULTILINE)
ELSEWHERE = '<p class="elsewhere">The controls need a kernel: open this lesson in JupyterLab and run this cell.</p>'


class Shared:
    """What the pages share, in the book's folder `_static`: `files` maps a name there to its content."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self._explorers: dict[str, Explorer | None] = {}

    def picture(self, png: bytes) -> str:
        """The name of a picture's file: one for all pages that show it."""
        name = f"pictures/{hashlib.sha1(png).hexdigest()[:16]}.png"
        self.files[name] = png
        return name

    def explorer(self, name: str) -> Explorer | None:
        """The explorer of a widget, "lesson_4_2:online", drawn once; None where that cannot be done beforehand."""
        if name not in self._explorers:
            explorer = Explorer(name)
            self._explorers[name] = explorer if explorer.movable else None
            if explorer.movable:
                self.files[explorer.file] = explorer.script().encode()
        return self._explorers[name]


def page(path: Path, shared: Shared) -> NotebookNode:
    """The notebook at `path` as the book shows it; its pictures and explorers are added to `shared`."""
    notebook = nbformat.read(path, as_version=4)
    solutions = path.parent.name == "solutions"
    static = "../_static" if solutions else "_static"
    if solutions:
        notebook.cells[0].source = notebook.cells[0].source.replace("# ", "# Solutions: ", 1)
    wing = "lesson_" + "_".join(path.stem.split("_")[:2])
    for cell in notebook.cells:
        cell.source = MARKS.sub("", HIDDEN_TESTS.sub("", cell.source)).rstrip("\n")
        if cell.cell_type != "code":
            continue
        # An empty output stands before a folded one, for JupyterLab.
        cell.outputs = [_pictured(output, static, shared) for output in cell.outputs if output.get("data") != {}]
        for output in cell.outputs:
            if output.get("data", {}).get("text/plain") == WIDGET_TEXT:
                call = CALL.search(cell.source)
                explorer = call and shared.explorer(f"{wing}:{call[1]}")
                output.data = {"text/html": explorer.html(static) if explorer else ELSEWHERE}
    return notebook


def _pictured(output: NotebookNode, static: str, shared: Shared) -> NotebookNode:
    """A picture as a file, shown at its own width with its words; another output as it is."""
    data = output.get("data", {})
    if "image/png" not in data:
        return output
    about, name = output.metadata["image/png"], shared.picture(b64decode(data["image/png"]))
    shown = f'<img src="{static}/{name}" width="{about["width"]}" alt="{escape(about["alt"])}" loading="lazy">'
    return nbformat.v4.new_output("display_data", data={"text/html": f'<div class="picture">{shown}</div>'})


def title(notebook: NotebookNode) -> str:
    """The title of a lesson, the same for its solutions."""
    return notebook.cells[0].source.split("\n")[0].removeprefix("# ").removeprefix("Solutions: ")


def slug(heading: str) -> str:
    """The anchor of a heading as JupyterLab has it: a link to `lesson.ipynb#A-heading` leads there in both."""
    return heading.replace(" ", "-")
