"""`show` puts a picture into a notebook, `save` into files: always a PNG, with words for those who cannot see it.
`show_piece` and its like show the package's own source, so that what a lesson explains is what runs; `slow` shows how
far a long cell is.

In a notebook the words also fold out under the picture: JupyterLab and nbconvert leave out the "alt" of an output's
metadata, and on a telephone they are easier to read than a picture of a laptop's width. A function to show is named
"module:function" and read, not imported, so that a kernel is shown where Triton is missing too. A piece is found by the
text of its first and last line;
one longer than a screen is an error.
"""

import ast
import os
import sys
from base64 import b64encode
from collections.abc import Collection, Iterable
from difflib import ndiff
from html import escape
from importlib.util import find_spec
from inspect import getsource
from io import BytesIO
from pathlib import Path

from tqdm import tqdm

from pagedkv.arguments import shown
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.files import replace

DOTS = 192  # per inch: two to a CSS pixel, crisp on a laptop's screen


def show(picture, alt: str) -> None:
    """Display a Canvas or a matplotlib Figure as one PNG at its own size in CSS pixels, its words below, and close it.

    An empty `alt` is a ValueError.
    """
    from IPython.display import display

    alt = _words(alt)
    figure = _figure(picture)
    width = round(figure.get_figwidth() * 96)
    data = {"image/png": b64encode(_png(figure)).decode(), "text/plain": "[picture]"}
    display(data, metadata={"image/png": {"alt": alt, "width": width}}, raw=True)
    words = f"<details><summary>The picture in words</summary>{escape(alt)}</details>"
    display({"text/html": words, "text/plain": alt}, raw=True)
    _close(figure)


def slow(items: Collection, what: str) -> Iterable:
    """`items` one after the other, with a bar that comes after three seconds and goes when the last is done. In CI and
    while the stored editions are made there is none.
    """
    return tqdm(items, what, delay=3, leave=False, disable=bool(os.environ.get("CI")))


def save(picture, stem, alt: str) -> None:
    """Write `stem`.svg and `stem`.png; the bytes depend on the picture alone: drawing it again changes nothing."""
    alt, stem = _words(alt), Path(stem)
    figure = _figure(picture)
    svg = picture.svg(alt) if isinstance(picture, Canvas) else _svg(figure, alt)
    replace(stem.with_suffix(".svg"), svg + "\n")
    figure.set_layout_engine("none")  # laid out once: a second time may end a hair's breadth elsewhere
    replace(stem.with_suffix(".png"), _png(figure))
    _close(figure)


def _words(alt) -> str:
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt must say in words what the picture shows, not {alt!r}")
    return " ".join(alt.split())


def _figure(picture):
    if not hasattr(picture, "figure" if isinstance(picture, Canvas) else "get_figwidth"):
        raise TypeError(f"picture must be a Canvas or a matplotlib Figure, not {shown(picture)}")
    return picture.figure() if isinstance(picture, Canvas) else picture


def _png(figure) -> bytes:
    """The figure in its 256 most telling colours: a third of the bytes; only the edges of letters differ, unseen."""
    from PIL import Image

    drawn, file = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS)
    image = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(file, "png", optimize=True, dpi=(DOTS, DOTS))
    return file.getvalue()


def _svg(figure, alt: str) -> str:
    from matplotlib import rc_context

    file = BytesIO()
    with rc_context(style.matplotlib_settings()):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    head, tag, rest = file.getvalue().decode().partition("<svg ")
    attributes, _, body = rest.partition(">")
    return f'{head}{tag}role="img" aria-label="{escape(alt)}" {attributes}><title>{escape(alt)}</title>{body}'.rstrip()


def _close(figure) -> None:
    if "matplotlib.pyplot" in sys.modules:  # else no figure is kept open
        sys.modules["matplotlib.pyplot"].close(figure)


SCREEN = 30  # lines
FONT = "font-family:monospace"
MARKS = {
    "-": style.mix(style.INTERNAL, share=0.75),
    "+": style.mix(style.REQUESTS[3], share=0.6),
}  # backgrounds; the sign says it too


def lines_of(function: str) -> list[str]:
    """The source lines of "module:function", or of a class there, from below its docstring."""
    module, _, name = function.partition(":")
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            first = node.body[1 if ast.get_docstring(node) else 0]
            return text.split("\n")[first.lineno - 1 : node.end_lineno]
    raise ValueError(f"function must be module:function, and {module} has no {name!r}")


def piece(function: str, first: str, last: str) -> list[str]:
    """From the only line that contains `first` to the next that contains `last`, both included; ValueError where that
    is not so.
    """
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
    """What `new` changes in `old`: lines after "- " and "+ ", similar ones next to each other; "⋮" stands for lines
    that stay.
    """
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

    rows = "".join(
        f'<div style="background:{MARKS.get(line[0], style.BACKGROUND)}">{escape(line)}</div>'
        for line in changes(old, new)
    )
    look = f"background:{style.BACKGROUND};color:{style.INK};padding:8px;overflow-x:auto"
    look = f"{look};white-space:pre;line-height:1.35;{FONT}"
    display(HTML(f'<pre style="{look}"><div style="display:inline-block;min-width:100%">{rows}</div></pre>'))
