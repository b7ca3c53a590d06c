"""The widget of lesson 6.4: a sequence that grows behind a window."""

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style, widget
from pagedkv.course.lesson_6_4 import pictures


def grown(num_tokens: int, window: int, block_size: int) -> tuple[BlockTable, list[int]]:
    """The table of a sequence after so many tokens, and the blocks that it held after each."""
    pool = BlockPool(num_tokens // block_size + 2, block_size)
    table, held = BlockTable(pool), []
    for length in range(1, num_tokens + 1):
        table.append(1)
        table.drop_before(max(0, length - window))
        held.append(pool.num_blocks - pool.num_free)
    return table, held


def window_svg(num_tokens: int = 100, window: int = 48, block_size: int = 16) -> str:
    """The table after so many tokens, and the most blocks that it ever held, as an SVG."""
    table, held = grown(num_tokens, window, block_size)
    now = style.counted(held[-1], "block")
    facts = [f"{now} held, at most {max(held)} so far; without dropping {len(table.blocks)}"]
    title = f"{style.counted(num_tokens, 'token')} in blocks of {block_size}, window of {window}"
    canvas, alt = pictures.behind(title, table.blocks, num_tokens, window, block_size, facts)
    return canvas.svg(alt)


def window():
    """Length, window and block size, and what of the table is still held."""
    return widget.explore(
        window_svg,
        num_tokens=widget.slider("Tokens", 100, 1, 200),
        window=widget.slider("Window", 48, 1, 200),
        block_size=widget.steps("Block size", (4, 8, 16, 32), 16),
    )
