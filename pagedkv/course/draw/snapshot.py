"""The pool of a simulated run at one step: who holds which slots, and what of it holds tokens."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.memory_map import GAP, draw_memory_map
from pagedkv.course.draw.strip import Piece, draw_legend
from pagedkv.course.draw.timeline import draw_shares
from pagedkv.simulation.timeline import Timeline
from pagedkv.sizing import ceil_div

ROWS = 16


def snapshot_pieces(timeline: Timeline, step: int, colours: str = "requests") -> list[Piece]:
    """All slots in address order. `colours` "requests": tokens in the colour of their request, and a tint of it for what is reserved;
    "states": token states and reserved in their own colours. Free slots are external waste while a request waits."""
    waiting = timeline.waiting[timeline.step.searchsorted(step, "right") - 1] > 0
    free = style.STATES["external"] if waiting else (style.FREE, None)
    pieces, slot = [], 0
    for held in timeline.snapshot(step):
        fill = style.request_colour(held.request_id) if colours == "requests" else style.TOKEN
        later = style.mix(fill) if colours == "requests" else style.RESERVED
        parts = ((held.start - slot, *free, None, "free"),
                 (held.tokens, fill, None, f"r{held.request_id}", "token states"),
                 (held.reserved, later, "/", None, "reserved"),
                 (held.internal, *style.STATES["internal"], None, "internal"),
                 (held.rounding, *style.STATES["external"], None, "rounding"))
        for size, colour, hatch, label, name in parts:
            if size:
                who = "" if name == "free" else f"request {held.request_id}, "
                pieces.append(Piece(size, colour, hatch, label, f"{who}{name}: {size:,} slots"))
        slot = held.start + held.tokens + held.reserved + held.internal + held.rounding
    rest = timeline.capacity - slot
    return [*pieces, Piece(rest, *free, None, f"free: {rest:,} slots")] if rest else pieces


def draw_snapshot(canvas: Canvas, x, y, width, timeline: Timeline, step: int, colours: str = "requests", row_height=18) -> float:
    """The memory map of `timeline` at `step` in ROWS rows. Returns the height below it."""
    row_slots = ceil_div(timeline.capacity, ROWS)
    row_slots += -row_slots % (timeline.block_size or 1)  # no block is broken over two rows
    return draw_memory_map(canvas, x, y, width, snapshot_pieces(timeline, step, colours), row_slots, row_height, numbers=False)


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
            words.append(f"{name}: {run.running[point]} run, {run.waiting[point]} wait, {tokens:.1f} % of the slots hold tokens.")
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
    alt = f"Memory maps of two runs in {runs[0][1].capacity:,} slots at step {step:,}, and their shares over time. {' '.join(words)}"
    return canvas, alt
