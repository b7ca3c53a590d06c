"""The rules that every stored notebook keeps, as functions that list what is wrong with one."""

import re
from html import unescape
from itertools import pairwise

from pagedkv.course.editions import FOLD, IGNORE, NOTHING, PREDICT, WIDGET
from pagedkv.course.lessons import find_prediction

MIME_TYPES = {"text/plain", "text/html", "text/markdown", "text/latex", "image/png"}
PRIVATE = {
    "an object's address": r"\bat 0x[0-9a-f]{6,}",
    "a path of this machine": r"(?<![\w.])(/(home|root|tmp|usr|opt|work|Users|var)/|[A-Z]:\\)",
    "an unrounded fraction": r"\d\.\d{13,}",
    "a carriage return": r"\r",
    "a colour code": r"\x1b\[",
}
# `interact` captures output in a widget of its own, with which nbclient may wait for ever; `explore` draws into HTML.
FORBIDDEN_CODE = ("sys.path", "../", "!pip", "%pip", "os.chdir", "%cd", "interact(", "Output(", "input(")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(output) -> str:
    return output.get("text", "") + "".join(
        value for kind, value in sorted(output.get("data", {}).items()) if kind.startswith("text/")
    )


def problems(notebook) -> list[str]:
    """Everything that breaks a rule, one line each."""
    return [
        *_metadata(notebook),
        *_order(notebook),
        *_code(notebook),
        *_outputs(notebook),
        *_shown_code(notebook),
        *_pictures(notebook),
        *_widgets(notebook),
        *_predictions(notebook),
    ]


def _metadata(notebook):
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    if set(notebook.metadata) != {"kernelspec", "language_info"} or set(notebook.metadata.get("language_info", {})) != {
        "name"
    }:
        yield f"the metadata holds more than the kernel: {sorted(notebook.metadata)}"
    for cell in notebook.cells:
        if not set(cell.metadata) <= {"tags", "nbgrader", "deletable", "editable", "jupyter"}:
            yield f"cell metadata that is none of ours: {sorted(cell.metadata)}"
        locks = {key: cell.metadata[key] for key in ("deletable", "editable") if key in cell.metadata}
        is_answer, is_check = (cell.metadata.get("nbgrader", {}).get(kind) for kind in ("solution", "grade"))
        allowed = {"deletable": False} if is_answer else {"deletable": False, "editable": False} if is_check else {}
        if locks and locks != allowed:
            yield f"locks that are not those of an answer or a check: {locks}"


def _order(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield "it is not stored executed from top to bottom"
    title = notebook.cells[0].source
    if notebook.cells[0].cell_type != "markdown" or not title.startswith("# "):
        yield "the first cell is no title"
    elif counts and ("minutes" not in title or "CPU" not in title):
        yield "the title does not say the minutes and what it runs on"


def _code(notebook):
    for cell in code_cells(notebook):
        if len(cell.source.splitlines()) > 30:
            yield f"a code cell of {len(cell.source.splitlines())} lines: {cell.source.splitlines()[0]}"
        for line in cell.source.splitlines():
            if len(line) > 105:
                yield f"a code line of {len(line)} characters, more than a laptop shows: {line[:60]}"
        for word in FORBIDDEN_CODE:
            if word in cell.source:
                yield f"{word} in a code cell"


def _outputs(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"an error is stored: {output.ename}"
            if output.get("name") == "stderr":
                yield f"something went to stderr: {output.text[:60]}"
            long = [len(line) > 103 for line in output.get("text", "").splitlines()]  # columns of a folded output
            if any(map(all, pairwise(long))):
                yield f"a printed table that would wrap, made by: {cell.source.splitlines()[-1]}"
            if not set(output.get("data", {})) <= MIME_TYPES:
                yield f"an output of kind {sorted(set(output.data) - MIME_TYPES)}"
            for name, pattern in PRIVATE.items():
                if IGNORE not in cell.metadata.get("tags", []) or name == "a path of this machine":
                    found = re.search(pattern, text_of(output))
                    if found:
                        yield f"{name} in an output: {found[0]}"


def _shown_code(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            text = text_of(output).replace("</div>", "\n")
            for line in text.splitlines() if "font-family:monospace" in text else ():
                line = unescape(re.sub(r"<[^>]*>", "", line))
                if len(line) > 100:
                    yield f"shown code of {len(line)} columns, which would wrap: {line[:60]}"


def _pictures(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for alt in [
                *re.findall(r"!\[(.*?)\]\(", cell.source),
                *re.findall(r"<img(?![^>]*alt=\"[^\"]{20,}\").*?>", cell.source),
            ]:
                if len(alt) < 20 or alt.startswith("<img"):
                    yield f"a picture in the text without alt text: {alt!r}"
            continue
        for output in cell.outputs:
            if "image/png" in output.get("data", {}) and len(output.metadata.get("image/png", {}).get("alt", "")) < 40:
                yield f"a picture without alt text, made by: {cell.source.splitlines()[-1]}"


def _widgets(notebook):
    picture_before = False
    for cell in code_cells(notebook):
        if any(WIDGET in output.get("data", {}) for output in cell.outputs):
            yield "a widget is stored as a view of a model that is gone"
        if any("Run this cell to use" in text_of(output) for output in cell.outputs):
            if IGNORE not in cell.metadata.get("tags", []):
                yield "a widget's cell is compared"
            if not picture_before:
                yield f"a widget without a static picture above it: {cell.source.splitlines()[-1]}"
        else:
            picture_before = any("image/png" in output.get("data", {}) for output in cell.outputs)


def predictions_of(notebook) -> list[str]:
    """The names of the predictions that a notebook asks, in order."""
    return [name for cell in code_cells(notebook) for name in PREDICT.findall(cell.source)]


def _predictions(notebook):
    """A question above, a line that asks, and the output below folded; its source must not say the answer either."""
    above, asked = None, None
    for cell in notebook.cells:
        folds = {"tagged": FOLD in cell.metadata.get("tags", []), "folded": bool(cell.metadata.get("jupyter"))}
        if cell.cell_type == "code":
            name = (PREDICT.findall(cell.source) or [None])[0]
            if name and cell.source != f'predict("{name}")':
                yield f"a cell that does more than a predict: {cell.source[:60]}"
            elif name and (above is None or "**Predict:**" not in above.source):
                yield f"no question above {name}"
            if set(folds.values()) != {asked is not None and not name}:
                which = "folded without need" if asked is None else "not folded"
                yield f"an output that is {which}: {cell.source[:60]}"
            elif folds["folded"] and cell.outputs[0].get("data") != NOTHING:
                yield f"a folded output whose first line shows: {cell.source[:60]}"
            elif asked and not name and re.search(rf"== *{re.escape(str(asked.answer))}\b", cell.source):
                yield f"the answer stands in the source below {asked.name}"
            asked = find_prediction(name) if name else None
        elif predictions_of(notebook) and "Predict first" in cell.source:
            yield "a question of the old kind, which answers itself"
        above = cell if cell.cell_type == "markdown" else None
