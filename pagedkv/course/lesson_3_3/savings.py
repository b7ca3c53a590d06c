"""Measured savings beside the published ones, as pairs of bars."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

MEASURED, PUBLISHED = style.REQUESTS[0], style.MUTED


def savings(title: str, groups: Mapping[str, Mapping[int, tuple[float, float]]]) -> tuple[Canvas, str]:
    """`groups` maps a heading to {number of sequences: (measured %, published %)}, in per cent of the blocks without sharing.

    Returns the picture and its words.
    """
    left, scale = 140, (style.WIDTH - 140 - 100) / 80
    canvas = Canvas(style.WIDTH, 74 + sum(46 + 50 * len(group) for group in groups.values()))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    for x, fill, words in ((left, MEASURED, "measured here"), (left + 180, PUBLISHED, "published")):
        canvas.rect(x, 46, 16, 16, fill)
        canvas.text(x + 24, 54, words)
    y = 74
    for heading, group in groups.items():
        canvas.text(14, y + 20, heading, bold=True)
        y += 38
        canvas.line(left, y - 2, left, y + 50 * len(group) - 6, stroke=style.INK)
        for n, bars in group.items():
            canvas.text(left - 12, y + 20, f"{n} sequences", anchor="end")
            for row, (percent, fill) in enumerate(zip(bars, (MEASURED, PUBLISHED), strict=True)):
                top = y + 21 * row
                canvas.rect(left, top, percent * scale, 20, fill, stroke=None)
                canvas.text(left + percent * scale + 8, top + 10, f"{percent:.1f} %")
            y += 50
        y += 8
    words = "; ".join(
        f"{heading}: " + ", ".join(f"{n} sequences {measured:.1f} and {published} %" for n, (measured, published) in group.items())
        for heading, group in groups.items()
    )
    return canvas, f"{title}: pairs of bars, measured and published. {words}."
