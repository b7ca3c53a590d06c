"""Show the package's own source in a notebook, so that what a lesson explains is what runs: a piece of a kernel, or what another changes.

A function is named "module:function" and read, not imported, so that a kernel is shown where Triton is missing too. Pieces are found by
the text of their first and last line. A piece that has become longer than a screen is an error.
"""

import ast
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path

SCREEN = 30  # lines


def lines_of(function: str) -> list[str]:
    """The source lines of "module:function", from its `def`."""
    module, _, name = function.partition(":")
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return text.split("\n")[node.lineno - 1 : node.end_lineno]
    raise ValueError(f"function must be module:function, and {module} has no {name!r}")


def piece(function: str, first: str, last: str) -> list[str]:
    """From the only line that contains `first` to the next that contains `last`, both included; ValueError where that is not so."""
    lines = lines_of(function)
    starts = [i for i, line in enumerate(lines) if first in line]
    ends = [i for i, line in enumerate(lines) if last in line and starts and i >= starts[0]]
    if len(starts) != 1 or not ends:
        found = f"not {len(starts)} and {len(ends)}"
        raise ValueError(f"{function} must have one line with {first!r} and one with {last!r} from there on, {found}")
    lines = lines[starts[0] : ends[0] + 1]
    if len(lines) > SCREEN:
        raise ValueError(f"a piece must have at most {SCREEN} lines, not {len(lines)}")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return [line[indent:] for line in lines]


def changes(old: str, new: str, context: int = 1) -> list[str]:
    """What `new` changes in `old`: lines with - and +, and `context` lines around them."""
    diff = unified_diff(lines_of(old), lines_of(new), n=context, lineterm="")
    return ["⋮" if line.startswith("@@") else line for line in diff if not line.startswith(("---", "+++"))]


def show_piece(function: str, first: str, last: str) -> None:
    """Display a piece as Python."""
    _display("python", piece(function, first, last))


def show_changes(old: str, new: str, context: int = 1) -> None:
    """Display the changes as a diff."""
    _display("diff", changes(old, new, context))


def _display(language: str, lines: list[str]) -> None:
    from IPython.display import Markdown, display

    display(Markdown(f"```{language}\n" + "\n".join(lines) + "\n```"))
