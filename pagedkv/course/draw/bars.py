"""Numbers as bars to one scale, each with its number: a row for each case, a bar for each thing counted in it."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches

COLOURS = (style.REQUESTS[0], style.REQUESTS[1], style.REQUESTS[3])


def bars(title: str, rows: Mapping[str, Mapping[str, float]], unit: str, facts: Sequence[str] = ()):
    """`rows` maps a label to {name: number}, the same names in each; `facts` are lines of text below.

    Returns the picture and its words.
    """
    names = list(next(iter(rows.values())))
    left = 30 + max(style.text_width(label) for label in rows)
    most = max(number for row in rows.values() for number in row.values())
    scale = (style.WIDTH - left - 110) / max(most, 1)
    height = 24 * len(names) + 14
    top = 78 if len(names) > 1 else 48
    canvas = Canvas(style.WIDTH, top + height * len(rows) + 26 * len(facts) + 6)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    if len(names) > 1:
        draw_swatches(canvas, left, 54, [(name, COLOURS[i], None) for i, name in enumerate(names)])
    for r, (label, row) in enumerate(rows.items()):
        y = top + height * r
        canvas.text(left - 12, y + 12 * len(names) - 2, label, anchor="end")
        for i, name in enumerate(names):
            canvas.rect(left, y + 24 * i, row[name] * scale, 20, COLOURS[i], stroke=None, tip=f"{label}, {name}")
            canvas.text(left + row[name] * scale + 8, y + 24 * i + 10, f"{row[name]:,} {unit}".strip())
    bottom = top + height * len(rows)
    for i, fact in enumerate(facts):
        canvas.text(left, bottom + 8 + 26 * i, fact, bold=i == 0)
    said = []
    for label, row in rows.items():
        said.append(f"{label}: " + ", ".join(f"{name} {row[name]:,} {unit * (unit != name)}".strip() for name in names))
    words = "; ".join(said)
    return canvas, f"{title}, as bars. {words}.{''.join(f' {fact}.' for fact in facts)}"
