"""Prompt tokens found in a prefix cache and prompt tokens computed, as one bar for each row."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

CACHED, COMPUTED = style.REQUESTS[0], style.REQUESTS[2]


def reuse(title: str, rows: Sequence[tuple[str, int, int]]) -> tuple[Canvas, str]:
    """`rows` are (label, tokens from the cache, tokens computed); bars are drawn to one scale. Returns the picture and its words."""
    left, width = 150, style.WIDTH - 150 - 130
    canvas = Canvas(style.WIDTH, 82 + 40 * len(rows))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    for x, fill, words in ((left, CACHED, "from the cache"), (left + 180, COMPUTED, "computed")):
        canvas.rect(x, 46, 16, 16, fill)
        canvas.text(x + 24, 54, words)
    scale = width / max(cached + computed for _, cached, computed in rows)
    for row, (label, cached, computed) in enumerate(rows):
        x, y = left, 78 + 40 * row
        canvas.text(left - 12, y + 15, label, anchor="end")
        for tokens, fill in ((cached, CACHED), (computed, COMPUTED)):
            if tokens:
                words = f"{tokens:,}"
                label = words if tokens * scale > style.text_width(words) + 8 else None
                canvas.rect(x, y, tokens * scale, 30, fill, label=label, stroke=style.MUTED, tip=f"{words} tokens")
            x += tokens * scale
        canvas.text(x + 8, y + 15, f"{cached / (cached + computed):.0%} cached")
    words = "; ".join(f"{label}: {cached:,} from the cache, {computed:,} computed" for label, cached, computed in rows)
    return canvas, f"{title}. {words}."
