"""What one query reads of a paged sequence: which blocks, and which of their slots the mask removes."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

SEEN, OWN, UNREAD = style.REQUESTS[0], style.REQUESTS[1], style.FREE
LEFT, TOP, ROW = 186, 48, 34


def reading(position: int, num_tokens: int, block_table: Sequence[int], block_size: int) -> tuple[Canvas, str]:
    """A row for each logical block of a sequence of `num_tokens`, as the query at `position` meets it.

    Returns the picture and its words.
    """
    read = position // block_size + 1
    canvas = Canvas(style.WIDTH, TOP + ROW * len(block_table) + 38)
    words = f"The query at position {position} sees {position + 1} tokens: it reads {read} of {len(block_table)} blocks"
    canvas.text(14, 20, words, size=style.TITLE, bold=True)
    cell = (style.WIDTH - LEFT - 14) / block_size
    for logical, block in enumerate(block_table):
        y = TOP + ROW * logical
        is_read = logical < read
        ink = style.INK if is_read else style.MUTED
        canvas.text(14, y + 14, f"logical {logical} → block {block}", fill=ink, bold=is_read)
        if not is_read:
            first, end = logical * block_size, min(num_tokens, (logical + 1) * block_size)
            canvas.rect(LEFT, y, cell * block_size, 28, UNREAD, stroke=style.MUTED, dash=True)
            words = f"positions {first} to {end - 1}: not read"
            canvas.text(LEFT + cell * block_size / 2, y + 14, words, anchor="middle", fill=style.MUTED)
            continue
        for slot in range(block_size):
            p = logical * block_size + slot
            fill = OWN if p == position else SEEN if p < position else UNREAD
            hatch = "/" if p > position else None
            canvas.rect(LEFT + cell * slot, y, cell, 28, fill, hatch=hatch, tip=_tip(p, position, num_tokens))
            if p <= position and cell >= style.text_width(str(p)) + 2:
                canvas.text(LEFT + cell * (slot + 0.5), y + 14, p, anchor="middle")
    _legend(canvas, TOP + ROW * len(block_table) + 18)
    seen = position % block_size + 1
    alt = (
        f"The query at position {position} of {num_tokens} tokens reads {read} of {len(block_table)} blocks of {block_size}, through the "
        f"table {list(block_table)}. In the last of them it sees {seen} slots; the mask removes {block_size - seen}."
    )
    return canvas, alt


def _tip(p, position, num_tokens):
    if p >= num_tokens:
        return "holds no token: whatever lies here must not matter"
    return f"position {p}" if p <= position else f"position {p}: later than the query"


def _legend(canvas, y):
    x = LEFT
    for name, fill, hatch in (("seen", SEEN, None), ("the query's own token", OWN, None), ("masked: later, or no token", UNREAD, "/")):
        canvas.rect(x, y - 8, 16, 16, fill, hatch=hatch)
        canvas.text(x + 22, y, name)
        x += 46 + style.text_width(name)
