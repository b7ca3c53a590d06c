"""`show` puts a picture into a notebook, `save` into files: always a PNG with words for those who cannot see it.

In a notebook the words also fold out under the picture: JupyterLab and nbconvert leave out the "alt" of an output's metadata, and on a
telephone they are easier to read than a picture of a laptop's width.
"""

import sys
from base64 import b64encode
from html import escape
from io import BytesIO
from pathlib import Path

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

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


def save(picture, stem, alt: str) -> None:
    """Write `stem`.svg and `stem`.png; the bytes depend on the picture alone, so that drawing it again changes nothing."""
    alt, stem = _words(alt), Path(stem)
    figure = _figure(picture)
    svg = picture.svg(alt) if isinstance(picture, Canvas) else _svg(figure, alt)
    stem.with_suffix(".svg").write_text(svg + "\n", encoding="utf-8", newline="\n")
    stem.with_suffix(".png").write_bytes(_png(figure))
    _close(figure)


def _words(alt) -> str:
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt must say in words what the picture shows, not {alt!r}")
    return " ".join(alt.split())


def _figure(picture):
    return picture.figure() if isinstance(picture, Canvas) else picture


def _png(figure) -> bytes:
    """The figure with its 256 most telling colours: a third of the bytes, and only the edges of letters differ, unseen."""
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
