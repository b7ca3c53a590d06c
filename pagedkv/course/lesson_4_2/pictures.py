"""One step of online softmax: the numbers before, those of the block alone, and after, all brought to one base.

Bars have one scale for l and one for O, so that what shrinks is seen to shrink. Values are one number per token here.
"""

from collections.abc import Sequence
from math import exp, inf

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

OLD, NEW, LATER = style.REQUESTS[0], style.REQUESTS[1], style.FREE
COLUMN, BAR = 278, 170


def statistics(scores: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """(m, l, O) of these scores: nothing seen gives (-inf, 0, 0)."""
    m = max(scores, default=-inf)
    weights = [exp(s - m) for s in scores]
    return m, sum(weights), sum(w * v for w, v in zip(weights, values, strict=True))


def online_step(blocks: Sequence[Sequence[float]], values: Sequence[Sequence[float]], step: int) -> tuple[Canvas, str]:
    """The step that takes in block number `step`, from 0; `values` are positive. Returns the picture and its words."""
    seen = [statistics(sum(blocks[:n], []), sum(values[:n], [])) for n in range(len(blocks) + 1)]
    alone = [statistics(b, v) for b, v in zip(blocks, values, strict=True)]
    before, block, after = seen[step], alone[step], seen[step + 1]
    factors = exp(before[0] - after[0]), exp(block[0] - after[0])
    largest = [max(state[i] for state in (*seen, *alone)) for i in (1, 2)]
    canvas = Canvas(style.WIDTH, 252)
    title, output = _title(step, before[0], after[0], factors[0]), f"output so far: O / l = {after[2] / after[1]:.3f}"
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    _scores(canvas, blocks, step, after[0])
    names = (("before", "m", factors[0]), (f"block {step} alone", "m_j", factors[1]), ("after, base m'", "m'", None))
    for column, (state, (name, base, factor)) in enumerate(zip((before, block, after), names, strict=True)):
        x = 14 + COLUMN * column
        canvas.text(x, 112, name, bold=True)
        canvas.text(x, 136, f"{base} = {_number(state[0])}", mono=True)
        for row, label in enumerate("lO"):
            y, scale = 154 + 34 * row, BAR / largest[row]
            canvas.text(x, y + 12, label, mono=True)
            parts = [(state[row + 1], OLD if column == 0 else NEW)]
            if factor is None:
                parts = [(before[row + 1] * factors[0], OLD), (block[row + 1] * factors[1], NEW)]
            left = x + 18
            for size, fill in parts:
                canvas.rect(left, y, size * scale, 24, fill, stroke=style.INK if size else None)
                left += size * scale
            canvas.text(left + 6, y + 12, _number(state[row + 1]))
        if factor is not None:
            canvas.text(x, 236, f"× e^({base} − m') = {factor:.3f}", fill=style.HIGHLIGHT, bold=True)
    canvas.text(14 + COLUMN * 2, 236, output, bold=True)
    states = zip((before, block, after), names, strict=True)
    bars = ", ".join(f"{total:.2f} and {weighted:.2f} {name}" for (_, total, weighted), (name, *_) in states)
    return canvas, f"{title}. Bars of l and O: {bars}. {output}."


def _scores(canvas, blocks, step, m):
    cell = min(48, (style.WIDTH - 28 - 16 * (len(blocks) - 1)) / sum(map(len, blocks)))
    x = 14
    for index, scores in enumerate(blocks):
        fill = LATER if index > step else NEW if index == step else OLD
        for score in scores:
            top = index <= step and score == m
            canvas.rect(x, 44, cell, 30, fill, label=f"{score:.1f}", bold=top, stroke=style.MUTED)
            if top:
                canvas.rect(x + 1, 45, cell - 2, 28, None, stroke=style.HIGHLIGHT, line=3)
            x += cell
        canvas.text(x - cell * len(scores) / 2, 88, f"block {index}", anchor="middle", fill=style.INK if index <= step else style.MUTED)
        x += 16


def _title(step, m, m_new, factor):
    if m == -inf:
        return "The first block: the factor for the empty state is e^(−∞) = 0"
    if m_new > m:
        return f"Block {step}: the maximum rises from {m:.1f} to {m_new:.1f}, so the old l and O shrink to {factor:.1%}"
    return f"Block {step}: the maximum stays at {m:.1f}; the block's l and O are brought to it"


def _number(value):
    return "−∞" if value == -inf else f"{value:.2f}".replace("-", "−")
