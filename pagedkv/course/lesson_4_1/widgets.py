"""The widget of lesson 4.1: what a query reads."""

import random

from pagedkv.course.draw import widget
from pagedkv.course.lesson_4_1 import pictures
from pagedkv.sizing import ceil_div

NUM_TOKENS = 50


def reading_svg(position: int = 15, block_size: int = 16) -> str:
    """What the query at `position` of 50 tokens reads, as an SVG."""
    block_table = (
        random.Random(block_size).sample(range(100), ceil_div(NUM_TOKENS, block_size))
        if block_size != 16
        else [12, 7, 42, 3]
    )
    canvas, alt = pictures.reading(position, NUM_TOKENS, block_table, block_size)
    return canvas.svg(alt)


def reading():
    """Move a query through a sequence and see which blocks it reads and what the mask removes."""
    return widget.explore(
        reading_svg,
        position=widget.slider("Position of the query", 15, 0, NUM_TOKENS - 1),
        block_size=widget.steps("Block size", [8, 16, 32], 16),
    )
