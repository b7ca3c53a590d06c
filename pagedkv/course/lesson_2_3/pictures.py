"""Logical blocks in order, physical blocks anywhere, and the block table that leads from one to the other."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

CELL, HEIGHT = 58, 30


def logical_to_physical(sequences: Mapping[str, tuple[Sequence[str], Sequence[int]]], block_size: int, num_blocks: int) -> Canvas:
    """`sequences` maps a name to (its tokens as words, its block table). Arrows follow each table entry into the pool."""
    width = CELL * block_size
    logical_x, table_x, pool_x = 36, 36 + width + 100, style.WIDTH - 20 - width
    pool_y = 96
    canvas = Canvas(style.WIDTH, pool_y + num_blocks * (HEIGHT + 6) + 14)
    canvas.text(20, 24, "Each sequence is in order; its blocks lie wherever there was room", size=style.TITLE, bold=True)
    middles = {"logical blocks": logical_x + width / 2, "block table": table_x + 30, "physical blocks": pool_x + width / 2}
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
            canvas.line(logical_x + width + 4, y + HEIGHT / 2, table_x - 4, y + HEIGHT / 2, arrow=True, stroke=style.MUTED)
            canvas.rect(table_x, y, 60, HEIGHT, style.BACKGROUND, label=physical, bold=True)
            target = pool_y + physical * (HEIGHT + 6) + HEIGHT / 2
            canvas.curve(table_x + 62, y + HEIGHT / 2, pool_x - 26, target, bend="horizontal", stroke=style.HIGHLIGHT, line=2)
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
        canvas.rect(x + offset * CELL, y, CELL, HEIGHT, fill if word is not None else style.FREE, label=word, stroke=style.MUTED)
    canvas.rect(x, y, CELL * block_size, HEIGHT, None, line=2)
