"""The pictures of lesson 5.1: a request and its forks on their way into slots, one query passing over its blocks."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

CELL, HEIGHT, STEP = 50, 26, 32
LOGICAL_X, TABLE_X, POOL_X, TOP = 34, 284, 470, 88
OTHERS = style.mix(style.GRID, share=0.4)


def journey(
    title: str, pool: BlockPool, sequences: Mapping[str, tuple[Sequence[str], BlockTable]], new: Collection[int] = ()
) -> tuple[Canvas, str]:
    """The words of each sequence in logical blocks, the block table beside them, and the pool with every word in its
    slot.

    `sequences` maps a name to (its words, its table); words of up to five letters fit. `new` are the slots to outline.
    A block with two owners says so; blocks of requests that are not shown are grey. Returns the picture and its
    words.
    """
    size = pool.block_size
    rows = sum(len(table.blocks) + 1 for _, table in sequences.values())
    canvas = Canvas(style.WIDTH, TOP + STEP * max(pool.num_blocks, rows) + 8)
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    for x, heading in ((LOGICAL_X, "logical blocks"), (TABLE_X - 14, "block table"), (POOL_X, "physical blocks")):
        canvas.text(x, 52, heading, bold=True)

    words_in, colour_of = {}, {}
    y = TOP
    for index, (name, (words, table)) in enumerate(sequences.items()):
        canvas.text(LOGICAL_X, y - 13, name)
        for logical, block in enumerate(table.blocks):
            first = logical * size
            cells = dict(
                zip(
                    range(block * size, block * size + size),
                    words[first : min(first + size, table.num_tokens)],
                    strict=False,
                )
            )
            colour_of.setdefault(block, style.request_colour(index))
            words_in.setdefault(block, {}).update(cells)
            _block(canvas, LOGICAL_X, y, logical, style.request_colour(index), block * size, size, cells, new)
            stroke, middle = style.arrow_colour(style.request_colour(index)), y + HEIGHT / 2
            canvas.line(LOGICAL_X + size * CELL + 4, middle, TABLE_X - 4, middle, stroke=stroke, arrow=True)
            canvas.rect(TABLE_X, y, 46, HEIGHT, style.BACKGROUND, label=block, bold=True)
            target, dash = TOP + block * STEP + HEIGHT / 2, index % 2 == 1  # told apart where they cross
            canvas.curve(TABLE_X + 48, middle, POOL_X - 28, target, bend="horizontal", stroke=stroke, dash=dash, line=2)
            y += STEP
        y += STEP
    for block in range(pool.num_blocks):
        y, owners = TOP + block * STEP, pool.ref_count(block)
        note = f"{block * size}–{block * size + size - 1}"
        if block in words_in:
            _block(canvas, POOL_X, y, block, colour_of[block], block * size, size, words_in[block], new)
            note += f"  {owners} owners" if owners > 1 else ""
        else:
            canvas.text(POOL_X - 7, y + HEIGHT / 2, block, anchor="end")
            label, fill = ("another request", OTHERS) if owners else ("free", style.FREE)
            canvas.rect(POOL_X, y, size * CELL, HEIGHT, fill, label=label, stroke=style.MUTED)
        canvas.text(POOL_X + size * CELL + 8, y + HEIGHT / 2, note, fill=style.MUTED)
    canvas.text(POOL_X + size * CELL + 8, 52, "slots", bold=True)
    outlined = ", ".join(map(str, sorted(new)))
    return (
        canvas,
        f"{title}. {_in_words(pool, sequences, words_in)}{f' Outlined slots: {outlined}.' if outlined else ''}",
    )


def _in_words(pool, sequences, shown) -> str:
    tables = [
        f"{name}: {table.num_tokens} words, in blocks {', '.join(map(str, table.blocks))}."
        for name, (_, table) in sequences.items()
    ]
    shared = [str(block) for block in sorted(shown) if pool.ref_count(block) > 1]
    tables += [f"With two owners: {', '.join(shared)}."] if shared else []
    others = pool.num_blocks - pool.num_free - len(shown)
    return " ".join([*tables, f"Other requests hold {others} of the {pool.num_blocks} blocks; free: {pool.num_free}."])


def _block(canvas: Canvas, x, y, number, fill, first_slot, size, cells, new) -> None:
    """One block of `size` slots from `first_slot` on; `cells` maps slots to words."""
    canvas.text(x - 7, y + HEIGHT / 2, number, anchor="end")
    for offset in range(size):
        word = cells.get(first_slot + offset)
        canvas.rect(
            x + offset * CELL, y, CELL, HEIGHT, style.FREE if word is None else fill, label=word, stroke=style.MUTED
        )
    canvas.rect(x, y, size * CELL, HEIGHT, None, line=2)
    for offset in range(size):
        if first_slot + offset in new:
            canvas.rect(x + offset * CELL, y, CELL, HEIGHT, None, stroke=style.HIGHLIGHT, line=3)


class Step(NamedTuple):
    """The running numbers after one block; `scores` are those of its valid slots, `o` the length of the unnormalised
    output.
    """

    block: int
    scores: Sequence[float]
    m: float
    l: float  # noqa: E741 (the paper's name)
    o: float


def block_by_block(title: str, steps: Sequence[Step], block_size: int) -> tuple[Canvas, str]:
    """One column for each block, and |O| / l at the end. Over each arrow: the factor by which l and O shrink when m
    rises.

    Returns the picture and its words.
    """
    cell, last = 48, 130
    column = (style.WIDTH - last) / len(steps)
    canvas = Canvas(style.WIDTH, 216)
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    for logical, step in enumerate(steps):
        x = 14 + column * logical
        highest = max(step.scores)
        canvas.text(x, 52, f"logical {logical} → block {step.block}", bold=True)
        for slot in range(block_size):
            valid = slot < len(step.scores)
            fill = (
                style.FREE
                if not valid
                else style.REQUESTS[1]
                if step.scores[slot] == highest == step.m
                else style.REQUESTS[0]
            )
            label = f"{step.scores[slot]:.1f}" if valid else "–"
            canvas.rect(x + slot * cell, 68, cell, 30, fill, label=label, stroke=style.MUTED)
        for row, (name, value) in enumerate((("m", step.m), ("l", step.l), ("|O|", step.o))):
            canvas.text(x + 4, 124 + 26 * row, f"{name:>3} = {value:.2f}", mono=True)
        if logical:
            factor = exp(steps[logical - 1].m - step.m)
            canvas.line(x - column + 130, 163, x - 12, 163, stroke=style.HIGHLIGHT, arrow=True)
            canvas.text(x - (column - 118) / 2, 146, f"× {factor:.2f}", anchor="middle", fill=style.HIGHLIGHT)
    x = style.WIDTH - last + 14
    canvas.line(x - column + 130, 163, x - 12, 163, stroke=style.HIGHLIGHT, arrow=True)
    canvas.text(x, 137, "output:", bold=True)
    length = steps[-1].o / steps[-1].l
    canvas.text(x, 163, f"|O| / l = {length:.2f}")
    columns = " ".join(
        f"After block {step.block} m is {step.m:.2f}, l {step.l:.2f} and the length of O {step.o:.2f}."
        for step in steps
    )
    factors = ", ".join(f"{exp(old.m - new.m):.2f}" for old, new in pairwise(steps))
    return (
        canvas,
        f"{title}. {columns} Between them l and O are multiplied by {factors}; the output's length is {length:.2f}.",
    )
