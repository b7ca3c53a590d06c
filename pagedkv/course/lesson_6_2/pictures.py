"""The pictures of lesson 6.2: rows by steps, the loop, shares by step, what a budget costs, and blocks over steps."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lesson_6_2.batching import Stay, Waits

MOST_STEPS = 20  # that `shares_by_step` draws


def rows_by_steps(ways: Mapping[str, Sequence[Stay]], rows: int) -> tuple[Canvas, str]:
    """For each named way to batch, `rows` rows over the steps: a request's stay in its colour, grey where a row waits.

    Returns the picture and its words.
    """
    last = max(stay.first + stay.steps for stays in ways.values() for stay in stays)
    left, height, scale = 20, 26, (style.WIDTH - 40) / last
    tall = 34 + rows * height + 30
    canvas, words = Canvas(style.WIDTH, 44 + tall * len(ways)), []
    canvas.text(20, 24, "Rows of the batch, step by step", size=style.TITLE, bold=True)
    for index, (name, stays) in enumerate(ways.items()):
        y = 58 + index * tall
        end = max(stay.first + stay.steps for stay in stays)
        useful = sum(stay.steps for stay in stays) / (rows * end)
        said = f"{end} steps, {useful:.0%} of the places in use"
        canvas.text(left, y, f"{name}: {said}", bold=True)
        canvas.rect(left, y + 16, end * scale, rows * height, style.GRID, stroke=None)
        for number, stay in enumerate(stays):
            width, fill = stay.steps * scale, style.request_colour(number)
            label = number if width > style.text_width(str(number)) + 3 else None
            canvas.rect(left + stay.first * scale, y + 16 + stay.row * height, width, height, fill, label=label)
        canvas.rect(left, y + 16, end * scale, rows * height, None)
        canvas.text(left + end * scale, y + 16 + rows * height + 14, f"step {end}", anchor="end", fill=style.MUTED)
        words.append(f"{name}, {said}")
    said = "; ".join(words)
    return (
        canvas,
        f"{rows} rows of a batch over steps, each request a bar of its length, grey where a row waits. {said}.",
    )


def loop() -> tuple[Canvas, str]:
    """The four stations of a step. Returns the picture and its words."""
    canvas = Canvas(style.WIDTH, 240)
    canvas.text(20, 24, "One step of an engine", size=style.TITLE, bold=True)
    y, height, boxes = 56, 70, [(20, 76)]
    stations = {
        "schedule": ("who runs, how many", "tokens; blocks and slots"),
        "run": ("the model on", "one flat batch"),
        "take": ("a token for each", "that is ready"),
        "finish": ("length or stop:", "blocks go back"),
    }
    canvas.rect(20, y, 76, height, style.FREE)
    canvas.text(58, y + 16, "queue", anchor="middle", bold=True)
    canvas.text(58, y + 38, "add", anchor="middle")
    for name, lines in stations.items():
        before = sum(boxes[-1])
        left, width = before + 28, 206 if name == "schedule" else 136
        boxes.append((left, width))
        fill = style.mix(style.HIGHLIGHT, share=0.75) if name == "schedule" else style.BACKGROUND
        canvas.rect(left, y, width, height, fill)
        canvas.text(left + width / 2, y + 16, name, anchor="middle", bold=True)
        for j, line in enumerate(lines):
            canvas.text(left + width / 2, y + 38 + 18 * j, line, anchor="middle")
        canvas.line(before + 2, y + height / 2, left - 2, y + height / 2, arrow=True)
    (begin, wide), (last, narrow) = boxes[1], boxes[-1]
    start, end, below = begin + wide / 2, last + narrow / 2, y + height + 30
    canvas.line(end, y + height, end, below)
    canvas.line(end, below, start, below)
    canvas.line(start, below, start, y + height + 2, arrow=True)
    canvas.text((end + start) / 2, below + 16, "who is left is in the next step too", anchor="middle")
    pool = "the pool: blocks are taken by schedule, and given back by finish"
    canvas.rect(begin, below + 36, last + narrow - begin, 32, style.TOKEN, label=pool)
    alt = (
        "One step of an engine as four boxes in a circle: schedule decides who runs with how many tokens and takes "
        "blocks and slots; run is the model on one flat batch; take gives a token to each request that is ready; "
        "finish lets go of those at their length or stop token. New requests come from a queue into schedule. Blocks "
        "are taken by schedule and given back by finish."
    )
    return canvas, alt


def shares_by_step(
    steps: Sequence[Sequence[tuple[int, int]]], num_requests: int, say: str, budget: int | None = None
) -> tuple[Canvas, str]:
    """For each request and step the tokens that it runs, written in a cell whose height tells them; sums beneath.

    Returns the picture and its words.
    """
    left, top, row = 112, 66, 34
    cell = min(56, (style.WIDTH - left - 20) / max(len(steps), 1))
    canvas = Canvas(style.WIDTH, top + num_requests * row + 66)
    canvas.text(20, 24, f"Tokens that each request runs in each step, {say}", size=style.TITLE, bold=True)
    for request in range(num_requests):
        y = top + request * row
        canvas.text(20, y + row / 2, f"request {request}")
        canvas.line(left, y + row, left + cell * len(steps), y + row, stroke=style.GRID, line=1)
    for step, shares in enumerate(steps):
        x = left + step * cell
        canvas.text(x + cell / 2, top - 14, step, anchor="middle", fill=style.MUTED)
        for request, n in shares:
            fill = style.request_colour(request)
            fill = fill if n > 1 else style.mix(fill, share=0.55)
            canvas.rect(x + 1, top + request * row + 3, cell - 2, row - 6, fill, label=n, bold=n > 1)
        total = sum(n for _, n in shares)
        canvas.text(x + cell / 2, top + num_requests * row + 20, total, anchor="middle", bold=total == budget)
    canvas.text(20, top - 14, "step", fill=style.MUTED)
    canvas.text(20, top + num_requests * row + 20, "in all")
    said = "strong: more than one token, a prompt or a piece of it; pale: one token"
    canvas.text(20, top + num_requests * row + 48, said, fill=style.MUTED)
    words = "; ".join(
        f"step {i}: " + ", ".join(f"request {request} runs {n}" for request, n in shares)
        for i, shares in enumerate(steps)
    )
    return canvas, f"Tokens by request and step, {say}. {words}."


def cost_of_budgets(waits: Mapping[int, Waits], without: Waits):
    """Over the budget: the long prompt's first token and the longest pause of the others; the mean end of all.

    Returns a matplotlib figure and its words.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    budgets = [*waits]
    most = max(budgets) * 2  # where "none" stands
    panels = (
        ("Who waits", {"first_token": (21, 14000, "first token of\nthe long prompt", style.TOKEN, "o"),
                       "longest_pause": (9, 230, "longest pause\nof the others", style.INTERNAL, "s")}),
        ("The mean of all: until their last token", {"mean_end": (0, 0, "", style.HIGHLIGHT, "^")}),
    )  # fmt: skip
    ticks = {8: "8", 24: "24", 96: "96", 512: "512", most: "none"}
    with mpl.rc_context(style.matplotlib_settings()):
        figure = Figure((style.WIDTH / 96, 3.5), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, 2), panels, strict=True):
            for name, (x, y, words, colour, marker) in lines.items():
                values = [getattr(waits[budget], name) for budget in budgets]
                axes.plot(budgets, values, color=colour, marker=marker, linewidth=2)
                axes.plot(most, getattr(without, name), color=colour, marker=marker)
                if words:
                    axes.text(x, y, words, color=colour, va="center")
            axes.set(xscale="log", xlabel="token budget of a step", title=title)
            axes.set_xticks([*ticks], [*ticks.values()])
            axes.minorticks_off()
            if "mean_end" not in lines:
                axes.set(yscale="log", ylim=(50, 30000), ylabel="tokens' worth of work")
                axes.minorticks_off()
            else:
                axes.set(ylim=(2000, 3500))
    best = min(budgets, key=lambda budget: waits[budget].mean_end)
    values = "; ".join(
        f"{budget}: {w.first_token:,}, {w.longest_pause:,}, {w.mean_end:,.0f}"
        for budget, w in [*waits.items(), ("none", without)]
    )
    return figure, (
        "First token of the long prompt, longest pause of the others and mean end of all, in tokens' worth of work, by "
        f"budget. {values}. The first falls, the second rises, the third is least at {best}."
    )


def blocks_over_steps(blocks: Sequence[int], num_blocks: int, aborted: int, name: str) -> tuple[Canvas, str]:
    """Blocks in use at each step as bars under the line of the pool; the step before which a request was aborted is
    marked. Returns the picture and its words.
    """
    left, base, height = 60, 208, 130
    canvas = Canvas(style.WIDTH, 262)
    canvas.text(20, 24, "Blocks in use, step by step", size=style.TITLE, bold=True)
    pitch = (style.WIDTH - left - 20) / len(blocks)
    for i, used in enumerate(blocks):
        size = height * used / num_blocks
        canvas.rect(left + i * pitch, base - size, pitch, size, style.TOKEN, stroke=style.BACKGROUND, line=0.5)
    canvas.line(left, base, style.WIDTH - 20, base)
    for value in (0, num_blocks):
        canvas.text(left - 8, base - height * value / num_blocks, value, anchor="end", fill=style.MUTED)
    canvas.line(left, base - height, style.WIDTH - 20, base - height, stroke=style.MUTED, dash=True)
    x = left + aborted * pitch
    canvas.line(x, base - height - 14, x, base + 10, stroke=style.HIGHLIGHT, line=2.5)
    canvas.text(x, base - height - 24, name, anchor="middle", fill=style.HIGHLIGHT, bold=True)
    for i in range(0, len(blocks), 5):
        canvas.text(left + (i + 0.5) * pitch, base + 18, i, anchor="middle", fill=style.MUTED)
    canvas.text(left, base + 42, "step", fill=style.MUTED)
    before, after = blocks[aborted - 1], blocks[aborted]
    alt = (
        f"Bars of the blocks in use over {len(blocks)} steps, in a pool of {num_blocks}: "
        f"{', '.join(map(str, blocks))}. Before step {aborted}, {name}: from {before} to {after} blocks."
    )
    return canvas, alt
