"""Bytes that a decode step moves if K and V are read where they lie, and if they are first gathered into one stretch."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

LEFT, TOP, ROW = 150, 48, 46
FILLS = (style.TOKEN, style.INTERNAL, style.RESERVED)


def bytes_moved(rows: Mapping[str, Mapping[str, float]]) -> tuple[Canvas, str]:
    """A bar for each way, one piece for each transfer: {"gathered": {"read the pool": bytes, …}, …}. Returns the picture and its words."""
    most = max(sum(pieces.values()) for pieces in rows.values())
    canvas = Canvas(style.WIDTH, TOP + ROW * len(rows) + 6)
    canvas.text(14, 20, "Bytes moved by one decode step", size=style.TITLE, bold=True)
    scale = (style.WIDTH - LEFT - 90) / most
    for row, (name, pieces) in enumerate(rows.items()):
        x, y = LEFT, TOP + ROW * row
        canvas.text(14, y + 16, name, bold=True)
        for (what, size), fill in zip(pieces.items(), FILLS, strict=False):
            canvas.rect(x, y, size * scale, 32, fill, label=what if style.text_width(what) < size * scale - 6 else None, tip=what)
            x += size * scale
        canvas.text(x + 8, y + 16, f"{sum(pieces.values()) / 2**30:.2f} GiB")
    words = []
    for name, pieces in rows.items():
        parts = ", ".join(f"{what} {size / 2**30:.2f}" for what, size in pieces.items())
        words.append(f"{name} {sum(pieces.values()) / 2**30:.2f} GiB: {parts}")
    return canvas, f"Bars of the bytes moved by one decode step. {'; '.join(words)}."
