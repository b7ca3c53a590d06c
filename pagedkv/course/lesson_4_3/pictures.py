"""The pictures of lesson 4.3: programs over numbers, the row that a table leads to, a tile with its mask."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches
from pagedkv.sizing import ceil_div

HIDDEN = "–"
LEFT = 150


def programs(numbers: int, lanes: int) -> tuple[Canvas, str]:
    """`numbers` numbers in memory, and below them, at the places that it works on, each program of `lanes` lanes.

    Returns the picture and its words.
    """
    count = ceil_div(numbers, lanes)
    cell = min(52, (style.WIDTH - LEFT - 20) / (count * lanes))
    canvas = Canvas(style.WIDTH, 130 + 38 * count)
    title = f"{style.counted(numbers, 'number')}, {style.counted(count, 'program')} of {lanes} lanes"
    canvas.text(20, 20, title, size=style.TITLE, bold=True)
    canvas.text(20, 58, "in memory", bold=True)
    for element in range(numbers):
        canvas.rect(LEFT + cell * element, 44, cell, 28, style.request_colour(element // lanes), label=element)
    for program in range(count):
        y = 90 + 38 * program
        canvas.text(20, y + 14, f"program {program}", bold=True)
        for element in range(program * lanes, (program + 1) * lanes):
            _lane(canvas, LEFT + cell * element, y, cell, element if element < numbers else None, program)
    hidden = count * lanes - numbers
    _legend(canvas, 106 + 38 * count)
    alt = (
        f"{title}, each over the numbers that it works on. Program p begins at {lanes} · p. In the last program "
        f"{hidden} lanes lie past the end: the mask hides them."
    )
    return canvas, alt


def row_of_a_token(table: Sequence[int], token: int, block_size: int, width: int) -> tuple[Canvas, str]:
    """From a token to the first number of its row: the program, the table's entry, the row of the cache, its address.

    Returns the picture and its words.
    """
    j, slot = divmod(token, block_size)
    row = table[j] * block_size + slot
    canvas = Canvas(style.WIDTH, 286)
    canvas.text(20, 20, f"Token {token} in blocks of {block_size}", size=style.TITLE, bold=True)
    canvas.text(20, 72, "table", bold=True)
    for entry, block in enumerate(table):
        x, mine = LEFT + 90 * entry, entry == j
        canvas.text(x + 45, 44, f"entry {entry}", anchor="middle", fill=style.INK if mine else style.MUTED)
        canvas.rect(x, 56, 90, 30, style.request_colour(j) if mine else style.FREE, label=block, bold=mine)
    canvas.text(LEFT + 90 * len(table) + 20, 72, f"program {j} loads entry {j}: block {table[j]}")
    canvas.text(20, 158, "cache", bold=True)
    cell = (style.WIDTH - LEFT - 20) / block_size
    first = table[j] * block_size
    for s in range(block_size):
        fill = style.request_colour(j) if s == slot else style.FREE
        canvas.rect(LEFT + cell * s, 142, cell, 30, fill, label=first + s, bold=s == slot)
    canvas.curve(LEFT + 90 * j + 45, 88, LEFT + 8, 138, stroke=style.HIGHLIGHT)
    canvas.text(LEFT + 90 * j + 45, 116, f"rows {first} to {first + block_size - 1} are block {table[j]}")
    canvas.text(20, 222, "address", bold=True)
    canvas.line(LEFT + cell * (slot + 0.5), 174, LEFT + cell * (slot + 0.5), 204, stroke=style.HIGHLIGHT, arrow=True)
    canvas.text(LEFT, 222, f"row {table[j]} · {block_size} + {slot} = {row}, counted over the whole cache")
    canvas.text(
        LEFT, 250, f"its numbers begin {row} · {width} = {row * width:,} numbers after the first number of the cache"
    )
    alt = (
        f"Token {token} is number {slot} in logical block {j}. Entry {j} of the table is block {table[j]}, in the "
        f"cache the rows {first} to {first + block_size - 1}. The token's is row {row}, and its {width} numbers begin "
        f"at element {row * width:,}."
    )
    return canvas, alt


def tile(block: int, first_token: int, length: int, block_size: int, width: int, lanes: int) -> tuple[Canvas, str]:
    """The tile of offsets, `block_size` rows of `lanes`, that a program makes for physical block `block`, of tokens
    from `first_token` on; the mask leaves those under `length` and the first `width` lanes.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 132 + 34 * block_size)
    seen = max(0, min(block_size, length - first_token))
    title = f"Block {block} as a tile of {block_size} × {lanes} offsets, {seen * width} of them not hidden"
    canvas.text(20, 20, title, size=style.TITLE, bold=True)
    left = 300
    cell = (style.WIDTH - left - 20) / lanes
    canvas.text(20, 54, "slot[:, None]", fill=style.MUTED)
    canvas.text(left - 12, 54, "lane[None, :]", anchor="end", fill=style.MUTED)
    for lane in range(lanes):
        canvas.text(left + cell * (lane + 0.5), 54, lane, anchor="middle", bold=lane < width)
    for slot in range(block_size):
        y, token = 72 + 34 * slot, first_token + slot
        there = token < length
        words = f"slot {slot}: token {token}" if there else f"slot {slot}: no token"
        canvas.text(20, y + 15, words, bold=there, fill=style.INK if there else style.MUTED)
        canvas.text(left - 12, y + 15, f"row {block * block_size + slot}", anchor="end")
        for lane in range(lanes):
            offset = (block * block_size + slot) * width + lane
            _lane(canvas, left + cell * lane, y, cell, offset if there and lane < width else None, 0)
    _legend(canvas, 108 + 34 * block_size, "an offset: (block · BLOCK + slot) · WIDTH + lane")
    alt = (
        f"{title}. Rows are slots, of tokens from {first_token} on, of which there are {length}; columns are lanes, "
        f"of which {width} have a number. The first row begins at offset {block * block_size * width}."
    )
    return canvas, alt


def _lane(canvas: Canvas, x, y, cell, label, program: int) -> None:
    """A lane with what it works on, or one that the mask hides."""
    if label is None:
        canvas.rect(x, y, cell, 28, style.BACKGROUND, stroke=style.MUTED, dash=True, label=HIDDEN)
    else:
        canvas.rect(x, y, cell, 28, style.request_colour(program), label=label)


def _legend(canvas: Canvas, y, words: str = "a lane, with the number of its element") -> None:
    x = draw_swatches(canvas, LEFT, y, [(words, style.request_colour(0), None)])
    canvas.rect(x, y - 8, 16, 16, style.BACKGROUND, stroke=style.MUTED, dash=True)
    canvas.text(x + 22, y, "hidden by the mask")
