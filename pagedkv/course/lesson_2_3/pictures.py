"""The pictures of lesson 2.3: memory by address and by request, block sizes, watermarks, and figure 4, the mapping."""

from collections.abc import Callable, Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.timeline import draw_shares
from pagedkv.simulation.timeline import Timeline


def scattered(slots: Mapping[str, Sequence[int]], num_slots: int) -> tuple[Canvas, str]:
    """`slots` maps the names of two requests to their slots in reading order. The first stands above the memory, the
    second below; a line leads from each token to its slot. Returns the picture and its words."""
    height, memory_y, memory_height, apart = 32, 160, 52, 100
    cell, left = (style.WIDTH - 130) / num_slots, 110
    bottom = memory_y + memory_height
    canvas = Canvas(style.WIDTH, bottom + apart + 20)
    canvas.text(20, 24, "Handed out on demand: scattered by address, in order by request", size=style.TITLE, bold=True)
    canvas.text(left - 12, memory_y + 16, "memory", anchor="end", bold=True)
    canvas.text(left - 12, memory_y + 37, "slot", anchor="end")
    owner = {slot: (row, f"{name}{i}") for row, (name, held) in enumerate(slots.items()) for i, slot in enumerate(held)}
    for slot in range(num_slots):
        row, label = owner.get(slot, (None, ""))
        x = left + slot * cell
        canvas.rect(x, memory_y, cell, memory_height, style.FREE if row is None else style.request_colour(row))
        canvas.text(x + cell / 2, memory_y + 16, label, anchor="middle")
        canvas.text(x + cell / 2, memory_y + 37, slot, anchor="middle")
    for row, (name, held) in enumerate(slots.items()):
        fill, y = style.request_colour(row), bottom + apart - height if row else memory_y - apart
        canvas.text(left - 12, y + height / 2, f"request {name}", anchor="end", bold=True)
        for i, slot in enumerate(held):
            begin, end = (y, bottom) if row else (y + height, memory_y)
            canvas.line(left + (i + 0.5) * cell, begin, left + (slot + 0.5) * cell, end, stroke=fill, line=2)
            canvas.rect(left + i * cell, y, cell, height, fill, label=f"{name}{i}")
    words = ", ".join(f"{name} in slots {', '.join(map(str, held))}" for name, held in slots.items())
    alt = (
        f"A memory of {num_slots} slots by address, in which the tokens of two requests alternate; above and below, "
        "each request in"
    )
    return canvas, f"{alt} reading order, with lines from its tokens to their slots: {words}."


def token_share_by_block_size(shares: Mapping[str, Mapping[int, float]]) -> tuple[Canvas, str]:
    """`shares` maps a workload to {block size: share of token states, from 0 to 1}; one group of bars for each
    workload.

    Returns the picture and its words.
    """
    height, base, left = 150, 222, 66
    canvas = Canvas(style.WIDTH, 272)
    canvas.text(20, 24, "Slots that hold tokens, % of the pool, by block size", size=style.TITLE, bold=True)
    for percent in (0, 50, 100):
        y = base - height * percent / 100
        canvas.line(left, y, left + 5, y, stroke=style.MUTED)
        canvas.text(left - 8, y, f"{percent} %", anchor="end", fill=style.MUTED)
    canvas.line(left, base - height, left, base, stroke=style.MUTED)
    canvas.line(left, base, style.WIDTH - 20, base, stroke=style.MUTED)
    group = (style.WIDTH - 20 - left) / len(shares)
    for column, (workload, by_size) in enumerate(shares.items()):
        pitch, x = (group - 24) / len(by_size), left + 12 + column * group
        for i, (block_size, share) in enumerate(by_size.items()):
            top = base - height * share
            canvas.rect(x + i * pitch + 3, top, pitch - 6, height * share, style.TOKEN)
            canvas.text(x + (i + 0.5) * pitch, top - 11, f"{100 * share:.0f}", anchor="middle")
            canvas.text(x + (i + 0.5) * pitch, base + 14, f"{block_size}", anchor="middle")
        canvas.text(x, base + 38, f"block size, {workload}", fill=style.MUTED)
    words = "; ".join(
        f"{name}: {', '.join(f'{share:.0%} at {size}' for size, share in by_size.items())}"
        for name, by_size in shares.items()
    )
    return canvas, f"Bars of the share of slots that hold tokens, by block size. {words}."


def watermark_bars(runs: Mapping[float, Timeline], chosen: float) -> tuple[Canvas, str]:
    """Bars for every watermark in `runs`, that of `chosen` filled, and the shares over time of its run.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 510)
    used = {mark: 100 * run.shares()["token_states"] for mark, run in runs.items()}
    preempted = {mark: 100 * run.preemptions.sum() / len(run.finished) for mark, run in runs.items()}
    gone = style.counted(round(preempted[chosen]), "preemption")
    title = f"{100 * chosen:g} % kept free: {used[chosen]:.1f} % token states, {gone} per 100 requests"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    _bars(canvas, 20, "token states, % of the pool", used, 100, chosen)
    _bars(canvas, style.WIDTH / 2 + 10, "preemptions per 100 requests", preempted, max(*preempted.values(), 1), chosen)
    canvas.text(20, 290, f"the run at {100 * chosen:g} %", bold=True)
    draw_shares(canvas, 66, 330, style.WIDTH - 316, 140, runs[chosen])
    words = "; ".join(f"{100 * mark:g} %: {used[mark]:.1f} % and {preempted[mark]:.0f}" for mark in runs)
    alt = (
        "Token states and preemptions per 100 requests for each share of the pool that is kept free at admission. "
        f"{words}."
    )
    return canvas, f"{alt} Below, the run at {100 * chosen:g} % over time."


def _bars(canvas: Canvas, x, name, values: Mapping[float, float], top, chosen) -> None:
    canvas.text(x, 56, name, bold=True)
    pitch, base, height = (style.WIDTH / 2 - 30) / len(values), 228, 130
    for i, (mark, value) in enumerate(values.items()):
        left, size = x + i * pitch, height * value / top
        canvas.rect(
            left + 4,
            base - size,
            pitch - 8,
            size,
            style.TOKEN if mark == chosen else style.mix(style.TOKEN, share=0.75),
        )
        canvas.text(left + pitch / 2, base - size - 12, f"{value:.1f}", anchor="middle", bold=mark == chosen)
        canvas.text(left + pitch / 2, base + 14, f"{100 * mark:g} %", anchor="middle", bold=mark == chosen)
    canvas.line(x, base, x + pitch * len(values), base)
    canvas.text(x, base + 36, "kept free at admission", fill=style.MUTED)


def mapping() -> tuple[Canvas, str]:
    """Figure 4: two sequences, their block tables, and one pool."""
    tables = {"A": [6, 1, 4], "B": [2, 7]}
    words = {"A": "a long text can grow where there is room left".split(), "B": "any free block will do".split()}
    sequences = {f"request {name}, {len(words[name])} tokens": (words[name], table) for name, table in tables.items()}
    alt = (
        "Figure 4: two requests, cut into logical blocks of 4 tokens in reading order, and a pool of 9 physical "
        "blocks. The block table of request A leads its blocks 0, 1, 2 to the physical blocks "
        f"{', '.join(map(str, tables['A']))}; that of request B its blocks 0, 1 to "
        f"{', '.join(map(str, tables['B']))}. Only the last block of each request is partly empty."
    )
    return _logical_to_physical(sequences, block_size=4, num_blocks=9), alt


CELL, HEIGHT = 58, 30


def _logical_to_physical(
    sequences: Mapping[str, tuple[Sequence[str], Sequence[int]]], block_size: int, num_blocks: int
) -> Canvas:
    """`sequences` maps a name to (its tokens as words, its block table). Arrows follow each entry into the pool."""
    width = CELL * block_size
    logical_x, table_x, pool_x = 36, 36 + width + 100, style.WIDTH - 20 - width
    pool_y = 96
    canvas = Canvas(style.WIDTH, pool_y + num_blocks * (HEIGHT + 6) + 14)
    canvas.text(
        20, 24, "Each sequence is in order; its blocks lie wherever there was room", size=style.TITLE, bold=True
    )
    middles = {
        "logical blocks": logical_x + width / 2,
        "block table": table_x + 30,
        "physical blocks": pool_x + width / 2,
    }
    for words, x in middles.items():
        canvas.text(x, 56, words, anchor="middle", bold=True)

    owner = {}
    y = pool_y
    for index, (name, (words, table)) in enumerate(sequences.items()):
        fill = style.request_colour(index)
        canvas.text(logical_x, y - 14, name)
        for logical, physical in enumerate(table):
            tokens = words[logical * block_size : (logical + 1) * block_size]
            owner[physical] = (fill, tokens)
            _block(canvas, logical_x, y, logical, fill, tokens, block_size)
            stroke, middle = style.arrow_colour(fill), y + HEIGHT / 2
            canvas.line(logical_x + width + 4, middle, table_x - 4, middle, arrow=True, stroke=stroke)
            canvas.rect(table_x, y, 60, HEIGHT, style.BACKGROUND, label=physical, bold=True)
            target = pool_y + physical * (HEIGHT + 6) + HEIGHT / 2
            canvas.curve(table_x + 62, middle, pool_x - 26, target, bend="horizontal", stroke=stroke, line=2)
            y += HEIGHT + 6
        y += 36
    for physical in range(num_blocks):
        fill, tokens = owner.get(physical, (style.FREE, ()))
        _block(canvas, pool_x, pool_y + physical * (HEIGHT + 6), physical, fill, tokens, block_size)
    return canvas


def _block(canvas: Canvas, x, y, number: int, fill: str, tokens: Sequence[str], block_size: int):
    canvas.text(x - 8, y + HEIGHT / 2, number, anchor="end")
    for offset in range(block_size):
        word = tokens[offset] if offset < len(tokens) else None
        canvas.rect(
            x + offset * CELL, y, CELL, HEIGHT, fill if word is not None else style.FREE, label=word, stroke=style.MUTED
        )
    canvas.rect(x, y, CELL * block_size, HEIGHT, None, line=2)


FIGURES: dict[str, Callable[[], tuple]] = {"figure_4": mapping}
