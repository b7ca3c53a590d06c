"""Show the package's own source in a notebook, so that what a lesson explains is what runs: a piece of a kernel, or what another changes.

A function is named "module:function" and read, not imported, so that a kernel is shown where Triton is missing too. Pieces are found by
the text of their first and last line. A piece that has become longer than a screen is an error.
"""

import ast
from difflib import ndiff
from html import escape
from importlib.util import find_spec
from inspect import getsource
from pathlib import Path

from pagedkv.course.draw import style

SCREEN = 30  # lines
FONT = "font-family:monospace"
MARKS = {"-": style.mix(style.INTERNAL, share=0.75), "+": style.mix(style.REQUESTS[3], share=0.6)}  # backgrounds; the sign says it too


def lines_of(function: str) -> list[str]:
    """The source lines of "module:function", from below its docstring."""
    module, _, name = function.partition(":")
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = node.body[1 if ast.get_docstring(node) else 0]
            return text.split("\n")[first.lineno - 1 : node.end_lineno]
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


def changes(old: str, new: str) -> list[str]:
    """What `new` changes in `old`: lines after "- " and "+ ", similar ones next to each other; "⋮" stands for lines that stay."""
    changed: list[str] = []
    for line in ndiff(lines_of(old), lines_of(new)):
        if line.startswith(("- ", "+ ")):
            changed.append(line[:2] + line[6:])  # four columns are the function's own indentation
        elif line.startswith("  ") and changed[-1:] != ["⋮"]:
            changed.append("⋮")
    return changed


def show_piece(function: str, first: str, last: str) -> None:
    """Display a piece as Python."""
    _display_python("\n".join(piece(function, first, last)))


def show_function(function) -> None:
    """Display a whole Python function, its docstring included."""
    _display_python(getsource(function).rstrip())


def _display_python(code: str) -> None:
    """The font is said once more, since a static page leaves it out for code in an output."""
    from IPython.display import Markdown, display

    display(Markdown(f'<div style="{FONT}">\n\n```python\n{code}\n```\n\n</div>'))


def show_changes(old: str, new: str) -> None:
    """Display the changes, tinted and signed."""
    from IPython.display import HTML, display

    rows = "".join(f'<div style="background:{MARKS.get(line[0], style.BACKGROUND)}">{escape(line)}</div>' for line in changes(old, new))
    look = f"background:{style.BACKGROUND};color:{style.INK};padding:8px;overflow-x:auto;white-space:pre;line-height:1.35;{FONT}"
    display(HTML(f'<pre style="{look}"><div style="display:inline-block;min-width:100%">{rows}</div></pre>'))
