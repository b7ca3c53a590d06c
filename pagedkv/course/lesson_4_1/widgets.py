"""The reading explorer: move a query through a sequence and see which blocks it reads and what the mask removes."""

import random

from pagedkv.course.draw import widget
from pagedkv.course.lesson_4_1.pictures import reading
from pagedkv.sizing import ceil_div

NUM_TOKENS = 50


def picture(position: int = 15, block_size: int = 16) -> str:
    """What the query at `position` of 50 tokens reads, as an SVG."""
    block_table = random.Random(block_size).sample(range(100), ceil_div(NUM_TOKENS, block_size)) if block_size != 16 else [12, 7, 42, 3]
    canvas, alt = reading(position, NUM_TOKENS, block_table, block_size)
    return canvas.svg(alt)


def explorer():
    """The widget."""
    return widget.explore(
        picture,
        position=widget.slider("Position of the query", 15, 0, NUM_TOKENS - 1),
        block_size=widget.steps("Block size", [8, 16, 32], 16),
    )
