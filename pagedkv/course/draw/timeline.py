"""The four shares of the pool over a run, as stacked areas labelled where they lie."""

from collections.abc import Mapping

import numpy as np

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.simulation.timeline import Timeline

COLUMNS = 240  # more are not seen
LEFT, RIGHT = 66, 250  # pixels for the axis and for the labels


def shares_over_time(timelines: Mapping[str, Timeline], height: int = 170) -> tuple[Canvas, str]:
    """One panel of `height` pixels for each named run. Percentages are means over the steps at which a request waits.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, len(timelines) * (height + 84) + 4)
    for row, (name, timeline) in enumerate(timelines.items()):
        y = 22 + row * (height + 84)
        canvas.text(20, y, name, size=style.TITLE, bold=True)
        draw_shares(canvas, LEFT, y + 22, style.WIDTH - LEFT - RIGHT, height, timeline)
    words = "; ".join(
        f"{name}: {', '.join(f'{style.STATE_NAMES[state]} {share:.1%}' for state, share in timeline.shares().items())}"
        for name, timeline in timelines.items()
    )
    return canvas, f"The shares of the pool over the steps of {len(timelines)} runs, as stacked areas. Means: {words}."


def draw_shares(canvas: Canvas, x, y, width, height, timeline: Timeline, *, now: int | None = None, until: int | None = None, labels=True):
    """The stacked areas of one run, on an axis that ends at step `until`, a line at step `now`; `labels` need 240 pixels to the right."""
    end = timeline.num_steps
    until = until or end
    scale = width / until
    edges = np.linspace(0, end, min(COLUMNS, end) + 1)
    at = x + scale * np.concatenate([[0], (edges[:-1] + edges[1:]) / 2, [end]])
    below = np.zeros(len(at))
    for state, (fill, hatch) in style.STATES.items():
        above = below + _column_means(timeline, state, edges)
        outline = [*zip(at, y + height * (1 - below), strict=True), *zip(at[::-1], y + height * (1 - above[::-1]), strict=True)]
        canvas.polygon(outline, fill, hatch=hatch, stroke=None)
        below = above
    canvas.rect(x, y, width, height, None, stroke=style.MUTED)
    for percent in (0, 50, 100):
        canvas.text(x - 8, y + height * (1 - percent / 100), f"{percent} %", anchor="end", fill=style.MUTED)
    for tick in range(0, until + 1, _round_step(until, at_most=int(width / 90))):
        canvas.line(x + scale * tick, y + height, x + scale * tick, y + height + 5, stroke=style.MUTED)
        canvas.text(x + scale * tick, y + height + 17, f"{tick:,}" if tick else "step 0", anchor="middle", fill=style.MUTED)
    busy = np.flatnonzero(timeline.waiting)
    if labels and len(busy) and (empty := int(timeline.step[busy[-1]] + timeline.duration[busy[-1]])) < 0.98 * end:
        canvas.line(x + scale * empty, y - 4, x + scale * empty, y + height, dash=True, line=2)
        canvas.text(x + scale * empty, y - 12, "queue empty", anchor="end")
    if labels:
        _label_shares(canvas, x + width + 14, y, height, timeline.shares())
    if now is not None:
        canvas.line(x + scale * now, y - 6, x + scale * now, y + height + 6, stroke=style.HIGHLIGHT, line=3)


def _column_means(timeline: Timeline, state: str, edges) -> np.ndarray:
    """The mean share of `state` between neighbouring `edges`, the first and the last twice."""
    ends = np.append(timeline.step, timeline.num_steps)
    total = np.append(0.0, np.cumsum(getattr(timeline, state) * timeline.duration))
    means = np.diff(np.interp(edges, ends, total)) / np.diff(edges) / timeline.capacity
    return np.concatenate([means[:1], means, means[-1:]])


def _label_shares(canvas: Canvas, x, y, height, shares: Mapping[str, float]) -> None:
    """A swatch, the name and the percentage of each share, as near to its mean height as the lines of text allow."""
    states, line, low, places = list(style.STATES), 22, 0.0, []
    for state in states:
        middle = y + height * (1 - low - shares[state] / 2)
        places.append(min(middle, places[-1] - line) if places else middle)
        low += shares[state]
    for from_top, i in enumerate(reversed(range(len(states)))):
        at = max(places[i], y + 8 + line * from_top)
        fill, hatch = style.STATES[states[i]]
        canvas.rect(x, at - 8, 16, 16, fill, hatch=hatch)
        canvas.text(x + 24, at, f"{style.STATE_NAMES[states[i]]} {100 * shares[states[i]]:.1f} %")


def _round_step(end: int, at_most: int) -> int:
    """A round distance between ticks that gives at most `at_most` of them up to `end`."""
    size = 1
    while True:
        for step in (size, 2 * size, 5 * size):
            if end / step <= at_most:
                return step
        size *= 10
