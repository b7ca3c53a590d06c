"""Build the stored notebooks: `python -m pagedkv.course.editions [NAME ...]` executes them in place and derives the
learner's editions.

Where notebooks/solutions/NAME.ipynb exists it is the source, and notebooks/NAME.ipynb is derived from it: each region
between `### BEGIN SOLUTION` and `### END SOLUTION` becomes a stub `...`, hidden tests go. What is stored is the same on
every run: no timings, versions or widget state; counts from 1; ids from the content. The output of the first code cell
below a `predict` is stored folded, since it gives the answer away; running the cell unfolds it. Graded cells get
nbgrader's metadata by themselves, with ids from the exercise, so that copies handed out before a word was changed can
still be graded; in the learner's edition they are locked, as nbgrader locks them on release.
"""

import argparse
import hashlib
import os
import re
from collections import Counter
from copy import deepcopy
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

from pagedkv.arguments import command
from pagedkv.course.colab import guard
from pagedkv.course.lessons import find
from pagedkv.files import replace

FOLDER = Path(__file__).parents[2] / "notebooks"
SOLUTION = re.compile(r"^([ \t]*)### BEGIN SOLUTION\n.*?^[ \t]*### END SOLUTION\n?", re.MULTILINE | re.DOTALL)
HIDDEN_TESTS = re.compile(r"^[ \t]*### BEGIN HIDDEN TESTS\n.*?^[ \t]*### END HIDDEN TESTS\n?", re.MULTILINE | re.DOTALL)
GRADED = re.compile(r"""check\(\s*["']([^"']+)["'].*\)\.points\s*\Z""", re.DOTALL)
OWN_CHECK = """### BEGIN HIDDEN TESTS
from pagedkv.course.judge.check import check
### END HIDDEN TESTS
"""  # autograding puts the source's cell in the place of the learner's: what they have called `check` does not count
WIDGET = "application/vnd.jupyter.widget-view+json"
WIDGET_TEXT = "Run this cell to use the controls."
IGNORE = "nbval-ignore-output"
PREDICT = re.compile(r"""^predict\(["']([^"']+)["']\)$""", re.MULTILINE)
FOLD = "hide-output"  # the tag that books fold an output by
NOTHING = {}  # JupyterLab shows the first line of what it folds: with this in front none of the answer
METADATA = ("tags", "nbgrader", "deletable", "editable")


def build(name: str, folder: Path = FOLDER) -> None:
    """Execute the source of lesson `name`; where that lies in solutions/, derive and execute the learner's edition."""
    source, learner = folder / "solutions" / f"{name}.ipynb", folder / f"{name}.ipynb"
    if not source.exists():
        _store(execute(guard(nbformat.read(learner, as_version=4)), folder), learner)
        return
    solved = execute(graded(guard(nbformat.read(source, as_version=4))), source.parent)
    _require_every_point(solved)
    _store(solved, source)
    _store(execute(derive(solved), folder), learner)


def derive(source: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The learner's edition of a graded source, locked, without outputs."""
    notebook = deepcopy(source)
    for cell in notebook.cells:
        cell.source = _without_solution(cell.source)
        if kind := cell.metadata.get("nbgrader"):
            cell.metadata |= {"deletable": False} | ({"editable": False} if kind["grade"] else {})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _without_solution(text: str) -> str:
    text = text.replace("](../", "](")  # a link from solutions/ to its parent folder stays in that folder
    return HIDDEN_TESTS.sub("", SOLUTION.sub(_stub, text)).rstrip("\n")


def _stub(region: re.Match) -> str:
    """`...` at the region's indentation; nothing after a line such as `answer = ...`, which is a stub already."""
    line_before = region.string[: region.start()].rstrip().rpartition("\n")[2]
    return "" if re.search(r"[=:] \.\.\.", line_before) else f"{region[1]}...\n"


def graded(source: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The source with nbgrader's metadata: solution cells, and locked cells with the points of the exercise that they
    check, by the package's own `check`.
    """
    exercise, solutions = "ungraded", Counter()
    for cell in reversed(source.cells):  # a solution belongs to the check that follows it
        for key in ("nbgrader", "deletable", "editable"):
            cell.metadata.pop(key, None)
        check, solution = GRADED.search(cell.source), SOLUTION.search(cell.source)
        if cell.cell_type != "code" or not (check or solution):
            continue
        if check and solution:
            raise ValueError(f"a cell must hold a solution or a check, not both: {check[1]}")
        if check:
            cell.source = OWN_CHECK + cell.source.removeprefix(OWN_CHECK)
            exercise = name = check[1].replace(".", "-")
        else:
            solutions[exercise] += 1
            name = f"solution-{exercise}" + (f"-{solutions[exercise]}" if solutions[exercise] > 1 else "")
        points = {"points": find(check[1]).max_points} if check else {}
        kind = {"grade": bool(check), "locked": bool(check), "solution": bool(solution), "task": False}
        cell.metadata["nbgrader"] = {"grade_id": name, "schema_version": 3} | kind | points
    return source


def _require_every_point(solved: nbformat.NotebookNode) -> None:
    """Raise ValueError where the source's own solution misses a point: its text and its check have come apart."""
    for cell in solved.cells:
        points = cell.metadata.get("nbgrader", {}).get("points")
        if points and cell.outputs[-1].get("data", {}).get("text/plain") != str(points):
            verdict = "".join(output.get("text", "") for output in cell.outputs)
            raise ValueError(
                f"the solution of {GRADED.search(cell.source)[1]} does not get its {points} points:\n{verdict}"
            )


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """The notebook run from top to bottom in `folder`, normalised.

    An error in a cell raises, and then nothing is stored.
    """
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False, resources=resources)
    return normalise(client.execute())


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with nothing in it that depends on the machine, the moment or the program that wrote it."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    count, seen, predicted = 0, Counter(), False
    for cell in notebook.cells:
        digest = _digest(cell)
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in METADATA if cell.metadata.get(key) not in (None, [])}
        )
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = _plain_outputs(cell.outputs, count)
            if any(output.get("data", {}).get("text/plain") == WIDGET_TEXT for output in cell.outputs):
                cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), IGNORE})
            asks = bool(PREDICT.search(cell.source))
            if predicted and not asks:
                cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), FOLD})
            predicted = asks
            if FOLD in cell.metadata.get("tags", []):
                cell.metadata["jupyter"] = {"outputs_hidden": True}
                cell.outputs.insert(0, nbformat.v4.new_output("display_data", data=NOTHING))
    return notebook


def _digest(cell) -> str:
    """From the content without its solution, so that a cell has the same id in both editions."""
    return hashlib.sha1(f"{cell.cell_type}\n{_without_solution(cell.source)}".encode()).hexdigest()[:10]


def _plain_outputs(outputs, count: int) -> list:
    """Widgets as a sentence or as their HTML, the streams of a cell in one piece each."""
    plain = []
    for output in outputs:
        if "text/html" in output.get("data", {}):
            output.data.pop(WIDGET, None)  # a prediction: what stays reads well without a kernel
        elif WIDGET in output.get("data", {}):
            output = nbformat.v4.new_output("display_data", data={"text/plain": WIDGET_TEXT})
        if output.output_type == "execute_result":
            output.execution_count = count
        if output.output_type == "stream" and plain and plain[-1].get("name") == output.name:
            plain[-1].text += output.text
        else:
            plain.append(output)
    return plain


def _store(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write the notebook, unless the stored one differs in nothing but outputs that may differ, such as timings."""
    unchanged = path.exists() and _compared(nbformat.read(path, as_version=4)) == _compared(notebook)
    if not unchanged:
        replace(path, nbformat.writes(notebook) + "\n")
    tqdm.write(f"{path.name}: {'unchanged' if unchanged else 'stored'}")


def _compared(notebook) -> nbformat.NotebookNode:
    notebook = deepcopy(notebook)
    for cell in notebook.cells:
        if IGNORE in cell.metadata.get("tags", []):
            cell.outputs = []
    return notebook


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m pagedkv.course.editions", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a notebook's name or file; all if left out")
    known = {path.stem for path in [*FOLDER.glob("*.ipynb"), *FOLDER.glob("solutions/*.ipynb")]}
    names = [Path(name).stem for name in parser.parse_args(arguments).names]
    if not known or not known.issuperset(names):
        unknown = sorted(set(names) - known)
        parser.error(
            f"there is no {', '.join(unknown) or 'notebook'} in {FOLDER}: {', '.join(sorted(known)) or 'none'}"
        )
    os.environ["CI"] = "1"  # what the solutions solve is not the learner's progress
    for name in tqdm(names or sorted(known), desc="Notebooks", unit="lesson", disable=None):
        build(name)


if __name__ == "__main__":
    command(main)
