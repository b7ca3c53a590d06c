"""The pictures of lesson 6.3: a pool that is too small, the lives of its requests, and the bills by block size."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches

LEFT, RIGHT = 80, 30


def pool_over_time(title: str, engine, simulated: Sequence[int]) -> tuple[Canvas, str]:
    """Blocks in use at each step of an engine, and over it the line that the simulator says.

    Returns the picture and its words.
    """
    usage, capacity = engine.usage, engine.scheduler.pool.num_blocks
    height, top = 190, 96
    canvas = Canvas(style.WIDTH, top + height + 40)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    swatches = [("blocks in use, the engine", style.REQUESTS[0], None), ("a preemption", style.HIGHLIGHT, None)]
    x = draw_swatches(canvas, LEFT, 52, swatches)
    canvas.line(x, 52, x + 26, 52, line=2)
    canvas.text(x + 34, 52, "the simulator")
    across, up = (style.WIDTH - LEFT - RIGHT) / len(usage), height / capacity
    floor_y = top + height

    def steps(numbers):
        return [
            point
            for step, number in enumerate(numbers)
            for point in (
                (LEFT + step * across, floor_y - number * up),
                (LEFT + (step + 1) * across, floor_y - number * up),
            )
        ]

    outline = [(LEFT, floor_y), *steps([row.blocks_used for row in usage]), (LEFT + len(usage) * across, floor_y)]
    canvas.polygon(outline, style.REQUESTS[0], stroke=None)
    corners = steps(simulated)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:], strict=False):
        if (x0, y0) != (x1, y1):
            canvas.line(x0, y0, x1, y1, line=2)
    for step, row in enumerate(usage):
        if row.preempted:
            x = LEFT + step * across
            canvas.polygon([(x - 6, top - 18), (x + 6, top - 18), (x, top - 6)], style.HIGHLIGHT, stroke=None)
    canvas.rect(LEFT, top, style.WIDTH - LEFT - RIGHT, height, None, stroke=style.MUTED)
    for number in (0, capacity):
        canvas.text(LEFT - 8, floor_y - number * up, number, anchor="end", fill=style.MUTED)
    _step_axis(canvas, floor_y, len(usage), across)
    same = "on" if list(simulated) == [row.blocks_used for row in usage] else "not on"
    preempted = [step for step, row in enumerate(usage) if row.preempted]
    alt = (
        f"{title}. Blocks in use over {len(usage)} steps, up to {max(row.blocks_used for row in usage)} of {capacity}. "
        f"Preemptions at steps {', '.join(map(str, preempted))}. The simulator's line lies {same} the engine's edge."
    )
    return canvas, alt


def _step_axis(canvas, y, steps, across) -> None:
    tick = next(size for size in (5, 10, 20, 50, 100, 200, 500, 1000) if steps / size <= 10)
    for step in range(0, steps, tick):
        canvas.line(LEFT + step * across, y, LEFT + step * across, y + 5, stroke=style.MUTED)
        label = f"{step}" if step else "step 0"
        canvas.text(LEFT + step * across, y + 18, label, anchor="middle", fill=style.MUTED)


def stays(engine) -> dict[int, list[tuple[int, int, int, bool]]]:
    """Request -> its stays: (first step, step after the last, tokens known at first, whether it had to go)."""
    found: dict[int, list] = {}
    for event in engine.events:
        if event.what == "arrived":
            found[event.request_id] = []
        elif event.what == "admitted":
            found[event.request_id].append((event.step, len(engine.usage), event.tokens, False))
        elif found[event.request_id]:
            start, _, tokens, _ = found[event.request_id].pop()
            found[event.request_id].append((start, event.step, tokens, event.what == "preempted"))
    return found


def lives(title: str, engine, facts: Sequence[str] = ()) -> tuple[Canvas, str]:
    """A row for each request: bars where it runs, with the tokens that its first step runs; an edge where it had to go.

    Returns the picture and its words.
    """
    rows, steps = stays(engine), len(engine.usage)
    across, top = (style.WIDTH - LEFT - RIGHT) / steps, 78
    canvas = Canvas(style.WIDTH, top + 32 * len(rows) + 40 + 26 * len(facts))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    runs = "runs; in it, or behind its ←, tokens of its first step"
    swatches = [(runs, style.REQUESTS[0], None), ("waits", style.FREE, None)]
    draw_swatches(canvas, LEFT, 52, [*swatches, ("has to go", style.HIGHLIGHT, None)])
    for row, (request_id, bars) in enumerate(rows.items()):
        y = top + 32 * row
        canvas.text(LEFT - 8, y + 12, f"r{request_id}", anchor="end")
        end = max((stop for _, stop, _, _ in bars), default=steps)
        canvas.rect(LEFT, y, end * across, 24, style.FREE, stroke=style.GRID)
        follows = [*(bar[0] for bar in bars[1:]), steps + RIGHT / across]  # where the next stay begins
        for (start, stop, tokens, had_to_go), then in zip(bars, follows, strict=True):
            width, beside = (stop - start) * across, f"← {tokens}"
            label = tokens if style.text_width(str(tokens)) < width - 8 - 4 * had_to_go else None
            canvas.rect(LEFT + start * across, y, width, 24, style.request_colour(request_id), stroke=None, label=label)
            if had_to_go:
                canvas.rect(LEFT + stop * across - 4, y, 4, 24, style.HIGHLIGHT, stroke=None)
            if label is None and style.text_width(beside) < (then - stop) * across - 10:
                canvas.text(LEFT + stop * across + 5, y + 12, beside)
    bottom = top + 32 * len(rows)
    _step_axis(canvas, bottom, steps, across)
    for i, words in enumerate(facts):
        canvas.text(LEFT, bottom + 46 + 26 * i, words, bold=i == 0)
    listed = "; ".join(
        f"r{request_id} " + ", ".join(f"{start} to {stop}{' (had to go)' * gone}" for start, stop, _, gone in bars)
        for request_id, bars in rows.items()
    )
    return (
        canvas,
        f"{title}: when each of {len(rows)} requests runs, in steps. {listed}.{''.join(f' {w}.' for w in facts)}",
    )


LINES = {"one copy a block": style.HIGHLIGHT, "gathered": style.TOKEN, "recompute": style.INK}


def by_block_size(title: str, panels: Mapping[str, Mapping[str, Mapping[int, float]]]) -> tuple[Canvas, str]:
    """`panels` maps a heading to {one of LINES: {block size: ms}}, side by side on one log scale.

    Returns the picture and its words.
    """
    numbers = [ms for lines in panels.values() for line in lines.values() for ms in line.values()]
    low, high = floor(log10(min(numbers))), ceil(log10(max(numbers)))
    top, height, label = 92, 240, 128
    canvas = Canvas(style.WIDTH, top + height + 56)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    step = (style.WIDTH - LEFT) / len(panels)

    def at(ms):
        return top + height * (1 - (log10(ms) - low) / (high - low))

    for column, (heading, lines) in enumerate(panels.items()):
        x, width = LEFT + column * step, step - label - 14
        canvas.text(x, top - 30, heading, bold=True)
        for power in range(low, high + 1):
            canvas.line(x, at(10**power), x + width, at(10**power), stroke=style.GRID, line=1)
            if not column:
                canvas.text(x - 8, at(10**power), f"{10**power:g} ms", anchor="end", fill=style.MUTED)
        ends = []
        for name, line in lines.items():
            points = [(x + 14 + i * (width - 28) / (len(line) - 1), at(ms)) for i, ms in enumerate(line.values())]
            for a, b in zip(points, points[1:], strict=False):
                canvas.line(*a, *b, stroke=LINES[name], line=2.5)
            for px, py in points:
                canvas.rect(px - 4, py - 4, 8, 8, LINES[name], stroke=None)
            ends.append((points[-1][1], name))
        last = None
        for y, name in sorted(ends):
            y = y if last is None else max(y, last + 20)
            canvas.text(x + width + 6, y, name, fill=LINES[name])
            last = y
        for i, size in enumerate(next(iter(lines.values()))):
            px = x + 14 + i * (width - 28) / (len(next(iter(lines.values()))) - 1)
            canvas.text(px, top + height + 18, size, anchor="middle", fill=style.MUTED)
        canvas.text(x + width / 2, top + height + 40, "tokens in a block", anchor="middle", fill=style.MUTED)
    words = "; ".join(
        f"{heading}: "
        + "; ".join(f"{name} " + " / ".join(f"{ms:.3g}" for ms in line.values()) for name, line in lines.items())
        for heading, lines in panels.items()
    )
    sizes = ", ".join(map(str, next(iter(next(iter(panels.values())).values()))))
    return canvas, f"{title}: milliseconds on a log scale at block sizes {sizes}. {words}."
