"""The address stepper: one position on its way to a slot, a step at a time."""

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import widget
from pagedkv.course.lesson_3_1.pictures import address_path

NUM_TOKENS = 50
BLOCKS = (12, 7, 42, 3, 29, 50, 18)


def example_table(block_size: int = 16) -> BlockTable:
    """A table of 50 tokens in a pool of 64 blocks; with blocks of 16 it is [12, 7, 42, 3]."""
    pool = BlockPool(64, block_size)
    pool.allocate(64)
    pool.free(reversed(BLOCKS))  # the last one freed is the first to be reused
    table = BlockTable(pool)
    table.append(NUM_TOKENS)
    return table


def picture(position: int = 37, step: int = 4, block_size: int = 16) -> str:
    """The way of one position up to `step`, as an SVG."""
    table = example_table(block_size)
    logical, offset, block, slot = table.translate(position)
    words = [
        f"{position} is offset {offset} of logical block {logical}", f"table entry {logical} is {block}",
        f"block {block} begins at slot {block * block_size}", f"the slot is {slot}",
    ]
    return address_path(table, position, step).svg(f"Token {position} of {NUM_TOKENS}, blocks of {block_size}: {', '.join(words[:step])}.")


def explorer():
    """The widget."""
    return widget.explore(
        picture,
        position=widget.slider("Token", 37, 0, NUM_TOKENS - 1),
        step=widget.slider("Step", 4, 1, 4),
        block_size=widget.steps("Block size", [8, 16, 32], 16),
    )
