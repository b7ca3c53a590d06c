"""One query passing over a sequence's blocks: the scores that it finds in each, and m, l and |O| after each merge."""

from collections.abc import Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

CELL, LAST = 48, 130


class Step(NamedTuple):
    """The running numbers after one block; `scores` are those of its valid slots, `o` the length of the unnormalised output."""

    block: int
    scores: Sequence[float]
    m: float
    l: float  # noqa: E741 (the paper's name)
    o: float


def block_by_block(title: str, steps: Sequence[Step], block_size: int) -> tuple[Canvas, str]:
    """One column for each block, and |O| / l at the end. Over each arrow: the factor by which l and O shrink when m rises.

    Returns the picture and its words.
    """
    column = (style.WIDTH - LAST) / len(steps)
    canvas = Canvas(style.WIDTH, 216)
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    for logical, step in enumerate(steps):
        x = 14 + column * logical
        highest = max(step.scores)
        canvas.text(x, 52, f"logical {logical} → block {step.block}", bold=True)
        for slot in range(block_size):
            valid = slot < len(step.scores)
            fill = style.FREE if not valid else style.REQUESTS[1] if step.scores[slot] == highest == step.m else style.REQUESTS[0]
            label = f"{step.scores[slot]:.1f}" if valid else "–"
            canvas.rect(x + slot * CELL, 68, CELL, 30, fill, label=label, stroke=style.MUTED)
        for row, (name, value) in enumerate((("m", step.m), ("l", step.l), ("|O|", step.o))):
            canvas.text(x + 4, 124 + 26 * row, f"{name:>3} = {value:.2f}", mono=True)
        if logical:
            factor = exp(steps[logical - 1].m - step.m)
            canvas.line(x - column + 130, 163, x - 12, 163, stroke=style.HIGHLIGHT, arrow=True)
            canvas.text(x - (column - 118) / 2, 146, f"× {factor:.2f}", anchor="middle", fill=style.HIGHLIGHT)
    x = style.WIDTH - LAST + 14
    canvas.line(x - column + 130, 163, x - 12, 163, stroke=style.HIGHLIGHT, arrow=True)
    canvas.text(x, 137, "output:", bold=True)
    length = steps[-1].o / steps[-1].l
    canvas.text(x, 163, f"|O| / l = {length:.2f}")
    columns = " ".join(f"After block {step.block} m is {step.m:.2f}, l {step.l:.2f} and the length of O {step.o:.2f}." for step in steps)
    factors = ", ".join(f"{exp(old.m - new.m):.2f}" for old, new in pairwise(steps))
    return canvas, f"{title}. {columns} Between them l and O are multiplied by {factors}; the output's length is {length:.2f}."
