"""The pictures of lesson 6.1: a layer with its hole, a step laid flat with the pool beneath it, and how far logits move
beside how far they would have to.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.engine.request import Step

BOX, ROW = 34, 40


def layer_flow(hidden: int, num_q_heads: int, num_kv_heads: int, head_dim: int) -> tuple[Canvas, str]:
    """The way of n tokens through one layer of a decoder, the hole in colour. Returns the picture and its words."""
    canvas = Canvas(style.WIDTH, 356)
    canvas.text(
        20, 24, "One layer: everything works on each token by itself, but for the hole", size=style.TITLE, bold=True
    )
    middle, plus, end = 132, 738, 292
    heads = {"q": num_q_heads, "k": num_kv_heads, "v": num_kv_heads}
    _box(canvas, 20, middle, 92, f"x [n, {hidden}]")
    _box(canvas, 140, middle, 60, "norm")
    canvas.line(112, middle, 138, middle, arrow=True)
    for row, (name, count) in enumerate(heads.items()):
        y = middle + (row - 1) * ROW
        _box(canvas, 232, y, 108, f"{name} [n, {count}, {head_dim}]")
        canvas.line(200, middle, 230, y, arrow=True)
        if name != "v":
            _box(canvas, 364, y, 62, "rotate")
            canvas.line(340, y, 362, y, arrow=True)
        canvas.line(340 if name == "v" else 426, y, 454, y, arrow=True)
    canvas.rect(456, middle - 60, 168, 120, style.HIGHLIGHT, line=2)
    for i, (line, bold) in enumerate((("attend", True), ("(layer, q, k, v)", False), ("here tokens meet", False))):
        canvas.text(540, middle - 26 + 26 * i, line, anchor="middle", bold=bold, mono=i < 2, fill=style.BACKGROUND)
    _box(canvas, 652, middle, 40, "o")
    canvas.line(624, middle, 650, middle, arrow=True)
    canvas.line(692, middle, plus - 14, middle, arrow=True)
    _plus(canvas, plus, middle)
    for x0, y0, x1, y1 in ((66, middle - BOX / 2, 66, 56), (66, 56, plus, 56)):
        canvas.line(x0, y0, x1, y1)
    canvas.line(plus, 56, plus, middle - 14, arrow=True)

    canvas.line(plus, middle + 14, plus, end)
    canvas.line(plus, end, 694, end, arrow=True)
    below = {"norm": (632, 60), "gate, up": (514, 92), "silu, ×": (402, 86), "down": (308, 68)}
    for name, (x, width) in below.items():
        _box(canvas, x, end, width, name)
    for a, b in ((632, 608), (514, 490), (402, 378), (308, 274)):
        canvas.line(a, end, b, end, arrow=True)
    _plus(canvas, 260, end)
    canvas.line(246, end, 180, end, arrow=True)
    _box(canvas, 68, end, 110, f"x [n, {hidden}]")
    canvas.line(plus, end, plus, end + 44)
    canvas.line(plus, end + 44, 260, end + 44)
    canvas.line(260, end + 44, 260, end + 14, arrow=True)
    canvas.text(68, end - 34, "to the next layer", fill=style.MUTED)
    canvas.text(514, end - 34, "feed-forward", fill=style.MUTED)
    alt = (
        f"The way of n tokens through one layer. x [n, {hidden}] is normed and projected to q "
        f"[n, {num_q_heads}, {head_dim}], k and v [n, {num_kv_heads}, {head_dim}]; q and k are rotated by position. "
        "A coloured box, attend(layer, q, k, v), is the hole: the only place where tokens meet. Its output goes "
        "through o and is added to x; then norm, gate and up, down, and another addition lead to the next layer."
    )
    return canvas, alt


def _box(canvas: Canvas, x, middle, width, label) -> None:
    canvas.rect(x, middle - BOX / 2, width, BOX, style.BACKGROUND, label=label)


def _plus(canvas: Canvas, x, y) -> None:
    canvas.rect(x - 14, y - 14, 28, 28, style.BACKGROUND, label="+", bold=True)


class Share(NamedTuple):
    """What a request has in a step: `n` tokens after `stored` ones, in `blocks`; `pending` were still to be run."""

    name: str
    stored: int
    n: int
    pending: int
    blocks: list[int]


def shares_of(step: Step, names: Sequence[str] = "ABCDEFGH") -> list[Share]:
    """The shares of a scheduled step, whose tokens count as stored already, named in order."""
    return [
        Share(name, request.num_stored - n, n, n + request.num_pending, request.table.blocks)
        for name, (request, n) in zip(names, step.work, strict=False)
    ]


def flat_batch(shares: Sequence[Share], block_size: int, num_blocks: int, ready: bool = True) -> tuple[Canvas, str]:
    """A step's tokens in one row with positions, slots and query_start_loc, and the cache of one layer beneath: what
    was stored before in a tint. With `ready` the rows that give a next token are outlined. Returns the picture and its
    words.
    """
    total = sum(share.n for share in shares)
    left, cell = 152, min(46, (style.WIDTH - 172) / max(total, 1))
    strip_y, pool_y = 108, 318
    slot = min(26, (style.WIDTH - 40 - 8 * num_blocks) / (num_blocks * block_size))
    block_width = slot * block_size + 8
    canvas = Canvas(style.WIDTH, pool_y + 104)
    last = [share.name for share in shares if share.n == share.pending]
    title = f"{total} tokens in one row, request after request"
    if ready:
        title = f"{total} tokens in one row; {' and '.join(last) or 'nobody'} will get a next token"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    for words, y in (("request", 66), ("position", strip_y + 15), ("slot", strip_y + 46), ("query_start_loc", 186)):
        canvas.text(20, y, words, fill=style.MUTED)
    row, ends, at = 0, [0], {}
    for index, share in enumerate(shares):
        fill = style.request_colour(index)
        x = left + row * cell
        middle = x + share.n * cell / 2
        canvas.text(middle, 66, share.name, anchor="middle", bold=True)
        if share.n > 1:
            for x0, y0, x1, y1 in ((x + 3, 90, x + 3, 84), (x + 3, 84, x + share.n * cell - 3, 84)):
                canvas.line(x0, y0, x1, y1)
            canvas.line(x + share.n * cell - 3, 84, x + share.n * cell - 3, 90)
        for position in range(share.stored + share.n):
            block, offset = share.blocks[position // block_size], position % block_size
            new = position >= share.stored
            at[block * block_size + offset] = (position, fill if new else style.mix(fill, share=0.7))
            if new:
                number = block * block_size + offset
                canvas.rect(left + row * cell, strip_y, cell, 30, fill, label=position)
                canvas.text(left + (row + 0.5) * cell, strip_y + 46, number, anchor="middle")
                x0 = left + (row + 0.5) * cell
                x1 = 20 + block * block_width + (offset + 0.5) * slot
                canvas.curve(x0, 202, x1, pool_y - 2, stroke=style.arrow_colour(fill))
                row += 1
        if ready and share.name in last:
            canvas.rect(left + (row - 1) * cell, strip_y, cell, 30, None, stroke=style.HIGHLIGHT, line=4)
        ends.append(row)
    for end in ends:
        x = left + end * cell
        canvas.line(x, strip_y + 58, x, 176)
        canvas.text(x, 186, end, anchor="middle", bold=True)
    for block in range(num_blocks):
        x = 20 + block * block_width
        for offset in range(block_size):
            position, fill = at.get(block * block_size + offset, ("", style.FREE))
            label = None if position == "" else position
            canvas.rect(x + offset * slot, pool_y, slot, 30, fill, stroke=style.MUTED, label=label)
        canvas.rect(x, pool_y, slot * block_size, 30, None, line=2)
        canvas.text(x + slot * block_size / 2, pool_y + 46, block, anchor="middle")
    say = "one layer's cache, block by block; pale: stored before. All layers look like this."
    canvas.text(20, pool_y + 78, say, fill=style.MUTED)
    words = "; ".join(
        f"{share.name} has {share.stored} stored, runs {share.n} of {share.pending}, blocks {share.blocks}"
        for share in shares
    )
    alt = (
        f"{total} tokens of a step in one row, request after request, with position and slot; query_start_loc is "
        f"{ends}. {words}. An arrow leads from each token to its slot in the cache of one layer."
    )
    if ready:
        alt += f" Next tokens: {' and '.join(last) or 'none'}."
    return canvas, alt


def bound(value: float, up: bool) -> float:
    """The power of ten above `value`, or below it: what is the same on every machine."""
    powers = [10.0**i for i in range(-12, 5)]
    return min(p for p in powers if p > value) if up else max(p for p in powers if p <= value)


def margins(differences, margins):
    """Two histograms on one log axis: by how much the logits of a token differ between two ways to compute them, and
    how far its first choice is ahead of the second. Returns a matplotlib figure and its words.
    """
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    small, large = np.asarray(differences, float), np.asarray(margins, float)
    bins = np.logspace(-8, 2, 61)
    with mpl.rc_context(style.matplotlib_settings()):
        figure = Figure((style.WIDTH / 96, 3.0), layout="constrained")
        axes = figure.subplots()
        tallest = 0
        for values, colour, words in (
            (small, style.HIGHLIGHT, "how far rounding moves the logits"),
            (large, style.TOKEN, "how far the first is ahead of the second"),
        ):
            values = values.clip(bins[0], bins[-1])
            heights, *_ = axes.hist(values, bins=bins, color=colour)
            tallest = max(tallest, heights.max())
            axes.text(np.median(values), heights.max() * 1.06, words, color=colour, ha="center")
        if equal := int((small == 0).sum()):
            axes.text(bins[0] * 1.2, equal + 0.06 * tallest, "not at all", color=style.HIGHLIGHT)
        axes.set(xscale="log", xlim=(bins[0], bins[-1]), ylim=(0, 1.2 * tallest), ylabel="tokens", xlabel="logits")
        axes.set_title(f"Rounding, and what decides, in {len(small)} tokens")
    low, high = bound(small.max(), up=True), bound(large.min(), up=False)
    return figure, (
        f"Two histograms on one logarithmic axis, over {len(small)} tokens. By how much logits move when they are "
        f"computed another way: less than {low:g} everywhere. How far the likeliest token is ahead of the next: at "
        f"least {high:g}. Between the two lies a gap."
    )
