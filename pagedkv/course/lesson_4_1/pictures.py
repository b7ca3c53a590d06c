"""The pictures of lesson 4.1: what one query reads, which tiles of a prefill need a mask, which bytes a gathered copy
moves.
"""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches
from pagedkv.sizing import ceil_div

SEEN, OWN, UNREAD, MASKED = style.REQUESTS[0], style.REQUESTS[1], style.FREE, "–"
LINE = 16  # slots side by side, so that their numbers are apart


def reading(position: int, num_tokens: int, block_table: Sequence[int], block_size: int) -> tuple[Canvas, str]:
    """A row for each logical block of a sequence of `num_tokens`, as the query at `position` meets it; one of more than
    LINE slots is folded.

    Returns the picture and its words.
    """
    read, left, y, height = position // block_size + 1, 186, 48, 34
    line = min(block_size, LINE)
    lines = ceil_div(block_size, line)  # of a block that is read
    canvas = Canvas(style.WIDTH, y + height * (lines * read + len(block_table) - read) + 38)
    sees = style.counted(position + 1, "token")
    words = f"The query at position {position} sees {sees}: it reads {read} of {len(block_table)} blocks"
    canvas.text(14, 20, words, size=style.TITLE, bold=True)
    cell = (style.WIDTH - left - 14) / line
    for logical, block in enumerate(block_table):
        is_read = logical < read
        ink = style.INK if is_read else style.MUTED
        canvas.text(14, y + 14, f"logical {logical} → block {block}", fill=ink, bold=is_read)
        if not is_read:
            first, end = logical * block_size, min(num_tokens, (logical + 1) * block_size)
            canvas.rect(left, y, cell * line, 28, UNREAD, stroke=style.MUTED, dash=True)
            words = f"positions {first} to {end - 1}: not read"
            canvas.text(left + cell * line / 2, y + 14, words, anchor="middle", fill=style.MUTED)
            y += height
            continue
        for slot in range(block_size):
            p, x = logical * block_size + slot, left + cell * (slot % line)
            fill, label = OWN if p == position else SEEN if p < position else UNREAD, p if p <= position else MASKED
            top = y + height * (slot // line)
            canvas.rect(x, top, cell, 28, fill, label=label, tip=_tip(p, position, num_tokens))
        y += height * lines
    x = draw_swatches(canvas, left, y + 18, (("seen", SEEN, None), ("the query's own token", OWN, None)))
    draw_swatches(canvas, x, y + 18, [("masked: later, or no token", UNREAD, None)])
    canvas.text(x + 8, y + 17, MASKED, anchor="middle")
    seen = position % block_size + 1
    alt = (
        f"The query at position {position} of {num_tokens} tokens reads {read} of {len(block_table)} blocks of "
        f"{block_size}, through the table {list(block_table)}. In the last of them it sees "
        f"{style.counted(seen, 'slot')}; the mask removes {block_size - seen}."
    )
    return canvas, alt


def _tip(p, position, num_tokens):
    if p >= num_tokens:
        return "holds no token: whatever lies here must not matter"
    return f"position {p}" if p <= position else f"position {p}: later than the query"


KINDS = {
    "whole": ("every pair is seen", style.REQUESTS[0]),
    "mask": ("needs a mask", style.REQUESTS[1]),
    "skip": ("not read", style.FREE),
}
CELL = 16  # pixels a key at most


def kind_of(first_query: int, last_query: int, logical: int, block_size: int) -> str:
    """How queries at these positions, first to last, meet a logical block: "whole", "mask" or "skip"."""
    if last_query < logical * block_size:
        return "skip"
    return "whole" if first_query >= (logical + 1) * block_size - 1 else "mask"


def causal_blocks(num_queries: int, num_tokens: int, block_size: int, tile: int) -> tuple[Canvas, str]:
    """`num_queries` queries, the last of `num_tokens` tokens, `tile` at a time; a dot where a query sees a key.

    Returns the picture and its words.
    """
    left, above = 150, 74
    num_blocks = ceil_div(num_tokens, block_size)
    cell = min(CELL, (style.WIDTH - left - 14) / (num_blocks * block_size))
    canvas = Canvas(style.WIDTH, above + cell * num_queries + 40)
    first, met = num_tokens - num_queries, []
    title = f"{num_queries} queries over {num_tokens} keys: tiles of {tile} queries, blocks of {block_size} keys"
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    for logical in range(num_blocks):
        canvas.text(
            left + cell * block_size * (logical + 0.5), above - 16, f"block {logical}", anchor="middle", bold=True
        )
    for start in range(0, num_queries, tile):
        end = min(num_queries, start + tile)
        y = above + cell * start
        canvas.text(left - 8, y + cell * (end - start) / 2, f"queries {first + start}–{first + end - 1}", anchor="end")
        kinds = [kind_of(first + start, first + end - 1, logical, block_size) for logical in range(num_blocks)]
        met.append(f"queries {first + start} to {first + end - 1}: {', '.join(KINDS[kind][0] for kind in kinds)}")
        for logical, kind in enumerate(kinds):
            fill = KINDS[kind][1]
            canvas.rect(left + cell * block_size * logical, y, cell * block_size, cell * (end - start), fill, line=2)
    for row in range(num_queries):
        for p in range(first + row + 1):
            canvas.rect(
                left + cell * (p + 0.3), above + cell * (row + 0.3), cell * 0.4, cell * 0.4, style.INK, stroke=None
            )
    draw_swatches(canvas, left, above + cell * num_queries + 22, [(*kind, None) for kind in KINDS.values()])
    return canvas, f"{title}, with a dot where a query sees a key. Block by block, {'; '.join(met)}."


FILLS = (style.TOKEN, style.INTERNAL, style.RESERVED)


def bytes_moved(rows: Mapping[str, Mapping[str, float]]) -> tuple[Canvas, str]:
    """A bar for each way, one piece for each transfer: {"gathered": {"read the blocks": bytes, …}, …}.

    Returns the picture and its words.
    """
    left, top, height = 196, 48, 46
    most = max(sum(pieces.values()) for pieces in rows.values())
    canvas = Canvas(style.WIDTH, top + height * len(rows) + 6)
    canvas.text(14, 20, "Bytes moved by one decode step", size=style.TITLE, bold=True)
    scale = (style.WIDTH - left - 90) / most
    for row, (name, pieces) in enumerate(rows.items()):
        x, y = left, top + height * row
        canvas.text(14, y + 16, name, bold=True)
        for (what, size), fill in zip(pieces.items(), FILLS, strict=False):
            canvas.rect(
                x,
                y,
                size * scale,
                32,
                fill,
                label=what if style.text_width(what) < size * scale - 6 else None,
                tip=what,
            )
            x += size * scale
        canvas.text(x + 8, y + 16, f"{sum(pieces.values()) / 2**30:.2f} GiB")
    words = []
    for name, pieces in rows.items():
        parts = ", ".join(f"{what} {size / 2**30:.2f}" for what, size in pieces.items())
        words.append(f"{name} {sum(pieces.values()) / 2**30:.2f} GiB: {parts}")
    return canvas, f"Bars of the bytes moved by one decode step. {'; '.join(words)}."
