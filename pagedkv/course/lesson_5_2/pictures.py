"""The whole way of a sequence into memory, drawn from what a learner's functions return, right or wrong: tokens →
logical blocks → block table → slots of the pool. What they return decides where every token is drawn, so a slip shows
as a token in the wrong place.
"""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

CELL, HEIGHT, MARGIN, LEFT = 28, 28, 14, 146
ARROW = style.arrow_colour(style.REQUESTS[0])
NOTHING = "nothing returned yet"
ROWS = {"tokens": 44, "logical blocks": 94, "block table": 156, "pool": 236}


def data_flow(tokens, blocks, table, slots, block_size: int, num_blocks: int) -> tuple[Canvas, str]:
    """The picture and its words.

    `blocks`, `table` and `slots` are whatever was returned; what cannot be drawn is said instead.
    """
    canvas = Canvas(style.WIDTH, 312)
    canvas.text(MARGIN, 20, "From tokens to slots, as your functions say", size=style.TITLE, bold=True)
    for name, y in ROWS.items():
        canvas.text(MARGIN, y + HEIGHT / 2, name, bold=True)
    for position, token in enumerate(tokens):
        canvas.rect(LEFT + CELL * position, ROWS["tokens"], CELL, HEIGHT, style.REQUESTS[0], label=token)

    middles, x = [], LEFT
    drawn = _lists(canvas, "logical blocks", blocks)
    for number, block in enumerate(drawn):
        if x + CELL * len(block) > style.WIDTH - MARGIN - (80 if drawn[number + 1 :] else 0):
            canvas.text(x, ROWS["logical blocks"] + HEIGHT / 2, f"… {len(drawn) - number} more", fill=style.MUTED)
            break
        for token in block:
            canvas.rect(x, ROWS["logical blocks"], CELL, HEIGHT, style.REQUESTS[0], label=token)
            x += CELL
        middles.append(x - CELL * len(block) / 2)
        x += CELL / 2

    for logical, block in enumerate(_numbers(canvas, "block table", table)):
        x = middles[logical] if logical < len(middles) else LEFT + CELL * (2 * logical + 1)
        canvas.rect(x - CELL / 2, ROWS["block table"], CELL, HEIGHT, style.BACKGROUND, label=block, bold=True)
        top = ROWS["logical blocks"] + HEIGHT + 2
        canvas.line(x, top, x, ROWS["block table"] - 2, arrow=True, stroke=ARROW)
        if 0 <= block < num_blocks:
            target = LEFT + CELL * block_size * (block + 0.5)
            canvas.curve(x, ROWS["block table"] + HEIGHT + 2, target, ROWS["pool"] - 2, stroke=ARROW, line=2)

    held = dict(zip(_numbers(canvas, "pool", slots), tokens, strict=False))
    for slot in range(num_blocks * block_size):
        fill = style.REQUESTS[0] if slot in held else style.FREE
        canvas.rect(LEFT + CELL * slot, ROWS["pool"], CELL, HEIGHT, fill, label=held.get(slot), stroke=style.MUTED)
    canvas.text(MARGIN, ROWS["pool"] + HEIGHT + 32, "slots", fill=style.MUTED)
    for block in range(num_blocks):
        x = LEFT + CELL * block_size * block
        canvas.rect(x, ROWS["pool"], CELL * block_size, HEIGHT, None, line=2)
        middle, first = x + CELL * block_size / 2, block * block_size
        canvas.text(middle, ROWS["pool"] + HEIGHT + 14, f"block {block}", anchor="middle")
        canvas.text(
            middle, ROWS["pool"] + HEIGHT + 32, f"{first}–{first + block_size - 1}", anchor="middle", fill=style.MUTED
        )
    returned = (("logical blocks", blocks), ("block table", table), ("slots", slots))
    said = "; ".join(f"{name}: {NOTHING if value is None else value}" for name, value in returned)
    alt = (
        f"The way of {len(tokens)} tokens into a pool of {num_blocks} blocks of {block_size}, as the learner's "
        f"functions say. {said}."
    )
    return canvas, alt


def _lists(canvas: Canvas, row: str, value) -> list:
    if isinstance(value, (list, tuple)) and all(isinstance(block, (list, tuple)) for block in value):
        return list(value)
    return _said(canvas, row, "a list of lists is needed here", value)


def _numbers(canvas: Canvas, row: str, value) -> list[int]:
    if isinstance(value, (list, tuple)) and all(type(number) is int for number in value):
        return list(value)
    return _said(canvas, row, "a list of whole numbers is needed here", value)


def _said(canvas: Canvas, row: str, words: str, value) -> list:
    canvas.text(LEFT, ROWS[row] + HEIGHT / 2, NOTHING if value is None else words, fill=style.MUTED)
    return []
