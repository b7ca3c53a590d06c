"""Measured savings beside the published ones, as pairs of bars."""

from collections.abc import Mapping

from pagedkv.draw import style
from pagedkv.draw.canvas import Canvas

MEASURED, PUBLISHED = style.REQUESTS[0], style.MUTED


def savings(title: str, groups: Mapping[str, Mapping[int, tuple[float, float | None]]]) -> Canvas:
    """`groups` maps a heading to {number of sequences: (measured %, published % or None)}; bars are in per cent of all blocks."""
    rows = sum(len(group) + 1 for group in groups.values())
    left, scale = 200, (style.WIDTH - 200 - 130) / 80
    canvas = Canvas(style.WIDTH, 70 + 52 * rows)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    for x, fill, words in ((left, MEASURED, "measured here"), (left + 180, PUBLISHED, "published")):
        canvas.rect(x, 46, 16, 16, fill)
        canvas.text(x + 24, 54, words)
    y = 84
    for heading, group in groups.items():
        canvas.text(14, y + 20, heading, bold=True)
        y += 42
        for n, (measured, published) in group.items():
            canvas.text(left - 14, y + 20, f"{n} sequences", anchor="end")
            for top, height, value, fill in ((y, 20, measured, MEASURED), (y + 21, 20, published, PUBLISHED)):
                if value is not None:
                    canvas.rect(left, top, value * scale, height, fill, stroke=None)
                    canvas.text(left + value * scale + 8, top + height / 2, f"{value:.1f} %")
            y += 52
        y += 10
    canvas.line(left, 76, left, y - 10, stroke=style.INK)
    return canvas
