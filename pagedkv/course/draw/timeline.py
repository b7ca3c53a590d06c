"""The portrait of a run: its shares over time, the pool at one step, two runs side by side."""

from collections.abc import Mapping, Sequence

import numpy as np

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.memory_map import GAP, draw_memory_map
from pagedkv.course.draw.strip import Piece, draw_legend
from pagedkv.simulation.timeline import Hole, Timeline
from pagedkv.sizing import ceil_div

COLUMNS = 240  # more are not seen
LEFT, RIGHT = 66, 250  # pixels for the axis and for the labels


def shares_over_time(timelines: Mapping[str, Timeline], height: int = 170) -> tuple[Canvas, str]:
    """One panel of `height` pixels for each named run, all on one time axis. Percentages are means over the steps at
    which a request waits.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, len(timelines) * (height + 94) + 4)
    longest = max(timeline.num_steps for timeline in timelines.values())
    for row, (name, timeline) in enumerate(timelines.items()):
        y = 22 + row * (height + 94)
        canvas.text(20, y, f"{name}: {timeline.num_steps:,} steps", size=style.TITLE, bold=True)
        draw_shares(canvas, LEFT, y + 32, style.WIDTH - LEFT - RIGHT, height, timeline, until=longest)
    words = "; ".join(
        f"{name}, {timeline.num_steps:,} steps: "
        + ", ".join(f"{style.STATE_NAMES[state]} {share:.1%}" for state, share in timeline.shares().items())
        for name, timeline in timelines.items()
    )
    alt = f"The shares of the pool over the steps of {len(timelines)} runs, as stacked areas on one time axis."
    return canvas, f"{alt} Means: {words}."


def draw_shares(
    canvas: Canvas,
    x,
    y,
    width,
    height,
    timeline: Timeline,
    *,
    now: int | None = None,
    until: int | None = None,
    labels=True,
):
    """The stacked areas of one run, on an axis that ends at step `until`, a line at step `now`; `labels` need 240
    pixels to the right.
    """
    end = timeline.num_steps
    until = until or end
    scale = width / until
    edges = np.linspace(0, end, min(COLUMNS, end) + 1)
    at = x + scale * np.concatenate([[0], (edges[:-1] + edges[1:]) / 2, [end]])
    below = np.zeros(len(at))
    for state, (fill, hatch) in style.STATES.items():
        above = below + _column_means(timeline, state, edges)
        outline = [
            *zip(at, y + height * (1 - below), strict=True),
            *zip(at[::-1], y + height * (1 - above[::-1]), strict=True),
        ]
        if (above > below).any():
            canvas.polygon(outline, fill, hatch=hatch, stroke=None)
        below = above
    canvas.rect(x, y, width, height, None, stroke=style.MUTED)
    for percent in (0, 50, 100):
        canvas.text(x - 8, y + height * (1 - percent / 100), f"{percent} %", anchor="end", fill=style.MUTED)
    for tick in range(0, until + 1, _round_step(until, at_most=int(width / 90))):
        canvas.line(x + scale * tick, y + height, x + scale * tick, y + height + 5, stroke=style.MUTED)
        canvas.text(
            x + scale * tick, y + height + 17, f"{tick:,}" if tick else "step 0", anchor="middle", fill=style.MUTED
        )
    busy = np.flatnonzero(timeline.waiting)
    if labels and len(busy) and (empty := int(timeline.step[busy[-1]] + timeline.duration[busy[-1]])) < 0.98 * end:
        canvas.line(x + scale * empty, y - 2, x + scale * empty, y + height, dash=True, line=2)
        anchor = "end" if scale * empty > style.text_width("queue empty") + 8 else "start"
        canvas.text(x + scale * empty, y - 12, "queue empty", anchor=anchor)
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


ROWS = 16


def snapshot_pieces(timeline: Timeline, step: int, colours: str = "requests") -> list[Piece]:
    """All slots in address order. `colours` "requests": tokens in the colour of their request, and a tint of it for
    what is reserved; "states": token states and reserved in their own colours.
    """
    pieces, slot = [], 0

    def add(size: int, fill: str, hatch: str | None, name: str, label: str | None = None) -> None:
        nonlocal slot
        slot += size
        if size:
            pieces.append(Piece(size, fill, hatch, label, f"{name}: {style.counted(size, 'slot')}"))

    for held in sorted([*timeline.snapshot(step), *timeline.holes(step)], key=lambda held: held.start):
        add(held.start - slot, *style.STATES["external"], "external")
        if isinstance(held, Hole):
            state = "free" if held.usable else "external"
            add(held.size, *style.STATES[state], state)
            continue
        who, fill = f"request {held.request_id}", style.request_colour(held.request_id)
        fill, later = (fill, style.mix(fill)) if colours == "requests" else (style.TOKEN, style.RESERVED)
        add(held.tokens, fill, None, f"{who}, token states", f"r{held.request_id}")
        add(held.reserved, later, "/", f"{who}, reserved")
        add(held.internal, *style.STATES["internal"], f"{who}, internal")
        add(held.rounding, *style.STATES["external"], f"{who}, rounding")
    add(timeline.capacity - slot, *style.STATES["external"], "external")
    return pieces


def draw_snapshot(
    canvas: Canvas, x, y, width, timeline: Timeline, step: int, colours: str = "requests", row_height=18
) -> float:
    """The memory map of `timeline` at `step` in ROWS rows. Returns the height below it."""
    row_slots = ceil_div(timeline.capacity, ROWS)
    row_slots += -row_slots % (timeline.block_size or 1)  # no block is broken over two rows
    return draw_memory_map(
        canvas, x, y, width, snapshot_pieces(timeline, step, colours), row_slots, row_height, numbers=False
    )


def side_by_side(runs: Sequence[tuple[str, Timeline]], step: int, colours: str = "requests") -> tuple[Canvas, str]:
    """Two runs, (name, timeline), of the same requests at the same step: memory map above, shares over time below.

    Returns the picture and its words.
    """
    gap, width = 40, (style.WIDTH - 80) / 2
    longest = max(run.num_steps for _, run in runs)
    shares_y = 92 + ROWS * (18 + GAP) + 20
    canvas, words = Canvas(style.WIDTH, shares_y + 196), []
    for column, (name, run) in enumerate(runs):
        x = 20 + column * (width + gap)
        end = run.num_steps
        point = run.step.searchsorted(min(step, end - 1), "right") - 1
        canvas.text(x, 24, name, size=style.TITLE, bold=True)
        if step < end:
            tokens = 100 * run.token_states[point] / run.capacity
            words.append(
                f"{name}: {run.running[point]} run, {run.waiting[point]} wait, {tokens:.1f} % of the slots hold tokens."
            )
            canvas.text(x, 50, f"step {step:,}: {run.running[point]} running, {run.waiting[point]} waiting")
            canvas.text(x, 72, f"{tokens:.1f} % of the slots hold tokens", bold=True)
            draw_snapshot(canvas, x, 92, width, run, step, colours)
        else:
            canvas.text(x, 50, f"step {step:,}: all requests are done")
            canvas.text(x, 72, f"the last one left at step {end:,}", bold=True)
            words.append(f"{name}: all requests are done.")
        draw_shares(canvas, x + 50, shares_y, width - 50, 130, run, now=min(step, end), until=longest, labels=False)
        done, room = f"done at step {end:,}", (width - 50) * (1 - end / longest)
        if style.text_width(done) < room - 16:
            canvas.text(x + width - room + 8, shares_y + 65, done)
    by_request = colours == "requests"
    names = style.STATE_NAMES | {"token_states": "tokens, by request"} if by_request else style.STATE_NAMES
    draw_legend(canvas, 20, shares_y + 180, names, by_request)
    alt = (
        f"Memory maps of two runs in {runs[0][1].capacity:,} slots at step {step:,}, and their shares over time. "
        f"{' '.join(words)}"
    )
    return canvas, alt
