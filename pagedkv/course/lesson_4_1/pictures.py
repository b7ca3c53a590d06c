"""The pictures of lesson 4.1: what one query reads, which tiles of a prefill need a mask, which bytes a gathered copy
moves.
"""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches
from pagedkv.sizing import ceil_div

SEEN, OWN, UNREAD = style.REQUESTS[0], style.REQUESTS[1], style.FREE


def reading(position: int, num_tokens: int, block_table: Sequence[int], block_size: int) -> tuple[Canvas, str]:
    """A row for each logical block of a sequence of `num_tokens`, as the query at `position` meets it.

    Returns the picture and its words.
    """
    read, left, top, height = position // block_size + 1, 186, 48, 34
    canvas = Canvas(style.WIDTH, top + height * len(block_table) + 38)
    words = f"The query at position {position} sees {position + 1} tokens: it reads {read} of {len(block_table)} blocks"
    canvas.text(14, 20, words, size=style.TITLE, bold=True)
    cell = (style.WIDTH - left - 14) / block_size
    for logical, block in enumerate(block_table):
        y = top + height * logical
        is_read = logical < read
        ink = style.INK if is_read else style.MUTED
        canvas.text(14, y + 14, f"logical {logical} → block {block}", fill=ink, bold=is_read)
        if not is_read:
            first, end = logical * block_size, min(num_tokens, (logical + 1) * block_size)
            canvas.rect(left, y, cell * block_size, 28, UNREAD, stroke=style.MUTED, dash=True)
            words = f"positions {first} to {end - 1}: not read"
            canvas.text(left + cell * block_size / 2, y + 14, words, anchor="middle", fill=style.MUTED)
            continue
        for slot in range(block_size):
            p = logical * block_size + slot
            fill = OWN if p == position else SEEN if p < position else UNREAD
            hatch = "/" if p > position else None
            canvas.rect(left + cell * slot, y, cell, 28, fill, hatch=hatch, tip=_tip(p, position, num_tokens))
            if p <= position and cell >= style.text_width(str(p)) + 2:
                canvas.text(left + cell * (slot + 0.5), y + 14, p, anchor="middle")
    legend = (("seen", SEEN, None), ("the query's own token", OWN, None), ("masked: later, or no token", UNREAD, "/"))
    draw_swatches(canvas, left, top + height * len(block_table) + 18, legend)
    seen = position % block_size + 1
    alt = (
        f"The query at position {position} of {num_tokens} tokens reads {read} of {len(block_table)} blocks of "
        f"{block_size}, through the table {list(block_table)}. In the last of them it sees {seen} slots; the mask "
        f"removes {block_size - seen}."
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
CELL = 16


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
    canvas = Canvas(style.WIDTH, above + CELL * num_queries + 40)
    first, met = num_tokens - num_queries, []
    title = f"{num_queries} queries over {num_tokens} keys: tiles of {tile} queries, blocks of {block_size} keys"
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    for logical in range(num_blocks):
        canvas.text(
            left + CELL * block_size * (logical + 0.5), above - 16, f"block {logical}", anchor="middle", bold=True
        )
    for start in range(0, num_queries, tile):
        end = min(num_queries, start + tile)
        y = above + CELL * start
        canvas.text(left - 8, y + CELL * (end - start) / 2, f"at {first + start} to {first + end - 1}", anchor="end")
        kinds = [kind_of(first + start, first + end - 1, logical, block_size) for logical in range(num_blocks)]
        met.append(f"queries {first + start} to {first + end - 1}: {', '.join(KINDS[kind][0] for kind in kinds)}")
        for logical, kind in enumerate(kinds):
            fill = KINDS[kind][1]
            canvas.rect(left + CELL * block_size * logical, y, CELL * block_size, CELL * (end - start), fill, line=2)
    for row in range(num_queries):
        for p in range(first + row + 1):
            canvas.rect(
                left + CELL * (p + 0.3), above + CELL * (row + 0.3), CELL * 0.4, CELL * 0.4, style.INK, stroke=None
            )
    draw_swatches(canvas, left, above + CELL * num_queries + 22, [(*kind, None) for kind in KINDS.values()])
    return canvas, f"{title}, with a dot where a query sees a key. Block by block, {'; '.join(met)}."


FILLS = (style.TOKEN, style.INTERNAL, style.RESERVED)


def bytes_moved(rows: Mapping[str, Mapping[str, float]]) -> tuple[Canvas, str]:
    """A bar for each way, one piece for each transfer: {"gathered": {"read the pool": bytes, …}, …}.

    Returns the picture and its words.
    """
    left, top, height = 150, 48, 46
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
