"""The pictures of lesson 3.1: the way from a position to its slot, step by step, and all of it."""

from collections.abc import Callable

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.sizing import ceil_div

NUM_TOKENS = 50  # of the example
BLOCKS = (12, 7, 42, 3, 29, 50, 18)
LEFT, WIDTH, BOX = 140, style.WIDTH - 152, 30
PER_ROW, GROUP = 32, 8  # blocks of the pool side by side, and those without a gap
GAP, ROW = 12, 56  # between groups, for the arrows that pass a row; from row to row
CELL = (WIDTH - GAP * (PER_ROW / GROUP - 1)) / PER_ROW


def example_table(block_size: int = 16) -> BlockTable:
    """A table of 50 tokens in a pool of 64 blocks; with blocks of 16 it is [12, 7, 42, 3]."""
    pool = BlockPool(64, block_size)
    pool.allocate(64)
    pool.free(reversed(BLOCKS))  # the last one freed is the first to be reused
    table = BlockTable(pool)
    table.append(NUM_TOKENS)
    return table


def address() -> tuple[Canvas, str]:
    """50 tokens in the blocks 12, 7, 42 and 3, and the way of token 37."""
    table, position = example_table(), 37
    pool = table.pool
    logical, offset, block, slot = table.translate(position)
    alt = (
        f"{table.num_tokens} tokens are {len(table.blocks)} logical blocks of {pool.block_size}; the block "
        f"table leads them to the physical blocks {', '.join(map(str, table.blocks))} of a pool of "
        f"{pool.num_blocks}. Token {position} is offset {offset} of logical block {logical}, so in physical block "
        f"{block}, in slot {block} × {pool.block_size} + {offset} = {slot}."
    )
    return address_path(table, position), alt


def address_path(table: BlockTable, position: int, steps: int = 4) -> Canvas:
    """All entries of a table of up to nine blocks with their arrows into the pool, and the path of one position, up to
    step 1 to 4.

    Step 1 splits the position, 2 looks the block up, 3 finds it in the pool, 4 adds the offset.
    """
    address, size = table.translate(position), table.pool.block_size
    last_row = ceil_div(table.pool.num_blocks, PER_ROW) - 1
    canvas = Canvas(style.WIDTH, 474 + last_row * ROW)
    canvas.text(14, 22, f"Where is token {position} of {table.num_tokens}?", size=style.TITLE, bold=True)

    y_logical, y_table, y_pool = 68, 144, 242
    y_cells = y_pool + last_row * ROW + 76
    column = min(150, WIDTH / len(table.blocks))
    for y, words in ((y_logical, "logical blocks"), (y_table, "block table"), (y_pool, "pool")):
        canvas.text(14, y + BOX / 2, words, bold=True)
    for block in range(table.pool.num_blocks):
        x, y = _place(block, y_pool)
        fill = style.REQUESTS[0] if block in table.blocks else style.FREE
        canvas.rect(x, y, CELL, BOX, fill, label=block, stroke=style.GRID, line=1)
    for logical, block in enumerate(table.blocks):
        x, on_path = LEFT + logical * column, logical == address.logical_block
        first, last = logical * size, min(logical * size + size, table.num_tokens) - 1
        canvas.text(x + column / 2 - 6, y_logical - 10, logical, anchor="middle")
        canvas.rect(x, y_logical, column - 12, BOX, style.REQUESTS[0], label=f"{first}–{last}", **_edge(on_path))
        middle = x + column / 2 - 6
        canvas.route([(middle, y_logical + BOX + 2), (middle, y_table - 3)], **_stroke(on_path and steps > 1))
        canvas.rect(
            x + column / 2 - 30,
            y_table,
            48,
            BOX,
            style.BACKGROUND,
            label=block,
            bold=True,
            **_edge(on_path and steps > 1),
        )
        way = _through(3 + logical / 2, y_pool, 0, block) + [_above(block, y_pool)]
        canvas.route([(middle, y_table + BOX + 2), *way], **_stroke(on_path and steps > 2))
    if steps > 2:
        x, y = _place(address.physical_block, y_pool)
        canvas.rect(x, y, CELL, BOX, None, stroke=style.HIGHLIGHT, line=2)  # no wider: the numbers stand close
        filled = min(size, table.num_tokens - address.logical_block * size)
        _cells(canvas, y_cells, address, size, filled, marked=steps > 3)
        if steps > 3:
            slot = LEFT + WIDTH * (address.offset + 0.5) / size, y_cells - 3
            below = address.physical_block + PER_ROW  # rows to pass
            way = _through(9, y_pool, below // PER_ROW, last_row * PER_ROW + PER_ROW + below % PER_ROW)
            canvas.route([(x + CELL / 2, y + BOX + 2), *way, slot], **_stroke(True))

    said = [
        f"1  split       {position} // {size} = {address.logical_block},  {position} % {size} = {address.offset}",
        f"2  look up     table[{address.logical_block}] = {address.physical_block}",
        f"3  go there    block {address.physical_block} begins at slot {address.physical_block} × {size} = "
        f"{address.physical_block * size}",
        f"4  add         {address.physical_block * size} + {address.offset} = slot {address.slot}",
    ]
    for step, words in enumerate(said[:steps]):
        last = step == steps - 1
        canvas.text(
            LEFT, y_cells + 60 + 26 * step, words, mono=True, bold=last, fill=style.HIGHLIGHT if last else style.INK
        )
    return canvas


def _cells(canvas, y, address, size, filled, marked):
    """The slots of the physical block, with their numbers where they fit."""
    canvas.text(14, y + BOX / 2, f"block {address.physical_block}", bold=True)
    cell = WIDTH / size
    for offset in range(size):
        slot, picked = address.physical_block * size + offset, marked and offset == address.offset
        wide = cell > style.text_width(str(slot)) + 4
        if picked and not wide:
            canvas.text(LEFT + (offset + 0.5) * cell, y + BOX + 13, slot, anchor="middle")
        fill, label = style.REQUESTS[0] if offset < filled else style.FREE, slot if wide else None
        canvas.rect(
            LEFT + offset * cell,
            y,
            cell,
            BOX,
            fill,
            label=label,
            stroke=style.MUTED,
            tip=f"slot {slot}, offset {offset}",
        )
    if marked:
        canvas.rect(LEFT + address.offset * cell, y, cell, BOX, None, **_edge(True))


def _place(block, y_pool):
    """The top left corner of a block's box in the pool."""
    row, column = divmod(block, PER_ROW)
    return LEFT + column * CELL + column // GROUP * GAP, y_pool + row * ROW


def _above(block, y_pool):
    x, y = _place(block, y_pool)
    return x + CELL / 2, y - 2


def _through(distance, y_pool, first_row, block):
    """The way from above `first_row` to the row of `block`, past the rows between: at `distance` left of its group."""
    rows = block // PER_ROW
    if rows == first_row:
        return []
    x = _place(block % PER_ROW // GROUP * GROUP, y_pool)[0] - distance
    return [(x, y_pool + first_row * ROW - 4), (x, y_pool + (rows - 1) * ROW + BOX + 4)]


def _edge(on_path):
    return {"stroke": style.HIGHLIGHT, "line": 3} if on_path else {"stroke": style.MUTED}


def _stroke(on_path):
    colour = style.HIGHLIGHT if on_path else style.arrow_colour(style.REQUESTS[0])
    return {"stroke": colour, "line": 2.5 if on_path else 1.5}


FIGURES: dict[str, Callable[[], tuple]] = {"figure_5": address}
