"""The pictures of lesson 4.2: one step of online softmax, trees of merges, rounding errors by length."""
# ruff: noqa: E741 (l is the papers' name)

from collections.abc import Mapping, Sequence
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
        canvas.text(
            x - cell * len(scores) / 2,
            88,
            f"block {index}",
            anchor="middle",
            fill=style.INK if index <= step else style.MUTED,
        )
        x += 16


def _title(step, m, m_new, factor):
    if m == -inf:
        return "The first block: the factor for the empty state is e^(−∞) = 0"
    if m_new > m:
        return f"Block {step}: m rises from {m:.1f} to {m_new:.1f}; the old l and O are multiplied by {factor:.3f}"
    return f"Block {step}: the maximum stays at {m:.1f}; the block's l and O are brought to it"


def _number(value):
    return "−∞" if value == -inf else f"{value:.2f}".replace("-", "−")


BOX, ROW = 92, 72


def merge_trees(trees, states) -> tuple[Canvas, str]:
    """`trees`: (title, tree) pairs, a tree being a block's number or a pair of trees; `states`: tree -> (m, l, output).

    Returns the picture and its words.
    """
    depth = max(_depth(tree) for _, tree in trees)
    canvas = Canvas(style.WIDTH, 46 + ROW * (depth + 1))
    width = style.WIDTH / len(trees)
    for column, (title, tree) in enumerate(trees):
        canvas.text(14 + width * column, 20, title, size=style.TITLE, bold=True)
        leaves = _leaves(tree)
        step = (width - 28) / len(leaves)
        places = {leaf: 14 + width * column + step * (i + 0.5) for i, leaf in enumerate(leaves)}
        _draw(canvas, tree, places, states, depth, root=True)
    words = []
    for title, tree in trees:
        m, l, output = states[tree]
        words.append(
            f"{title}: blocks {', '.join(map(str, _leaves(tree)))}, at the root m = {m:.2f}, l = {l:.2f}, O / l = "
            f"{output:.4f}"
        )
    return canvas, f"Trees of merges over blocks, each node with its m and l. {'; '.join(words)}."


def _draw(canvas, tree, places, states, depth, root=False):
    """Draw a tree and return the middle of its root, (x, y of its top)."""
    m, l, output = states[tree]
    y = 44 + ROW * (depth - _depth(tree))
    if isinstance(tree, tuple):
        ends = [_draw(canvas, child, places, states, depth) for child in tree]
        x = sum(x for x, _ in ends) / 2
        for end_x, end_y in ends:
            canvas.line(end_x, end_y, x, y + 48, stroke=style.MUTED)
    else:
        x = places[tree]
        canvas.text(x, y + 60, f"block {tree}", anchor="middle")
    fill = style.REQUESTS[0] if not isinstance(tree, tuple) else style.REQUESTS[1] if root else style.FREE
    canvas.rect(x - BOX / 2, y, BOX, 48, fill)
    canvas.text(x, y + 14, f"m = {m:.2f}", anchor="middle")
    canvas.text(x, y + 34, f"l = {l:.2f}", anchor="middle")
    if root:
        canvas.text(x + BOX / 2 + 8, y + 24, f"O / l = {output:.4f}", bold=True)
    return x, y


def _depth(tree) -> int:
    return 1 + max(map(_depth, tree)) if isinstance(tree, tuple) else 0


def _leaves(tree) -> list:
    return [leaf for child in tree for leaf in _leaves(child)] if isinstance(tree, tuple) else [tree]


LINES = ((style.TOKEN, "o"), (style.HIGHLIGHT, "s"), (style.INTERNAL, "D"), (style.MUTED, "^"), ("#117733", "v"))


def rounding_errors(lengths: Sequence[int], errors: Mapping[str, Sequence[float]]):
    """A matplotlib Figure: relative error of each name at each length, both axes logarithmic, names at the ends of the
    lines.

    Returns the picture and its words.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(style.matplotlib_settings()):
        figure = Figure(figsize=(style.WIDTH / 96, 4), layout="constrained")
        axes = figure.subplots()
        for (name, line), (colour, marker) in zip(errors.items(), LINES, strict=False):
            axes.plot(lengths, line, color=colour, marker=marker)
            axes.annotate(name, (lengths[-1], line[-1]), (10, -4), textcoords="offset points", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="relative error", title="Errors against float64")
        axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
        axes.minorticks_off()
        axes.set_xlim(lengths[0] / 1.3, lengths[-1] * 30)
    words = "; ".join(f"{name} from {line[0]:.0e} to {line[-1]:.0e}" for name, line in errors.items())
    return (
        figure,
        f"Relative errors against float64 from {lengths[0]:,} to {lengths[-1]:,} tokens, on logarithmic axes. {words}.",
    )
