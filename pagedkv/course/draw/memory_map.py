"""Memory as rows of slots, like the lines of a page: every piece at its address, in the colour of the request that
holds it.
"""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece
from pagedkv.sizing import ceil_div

GAP = 5


def draw_memory_map(
    canvas: Canvas, x, y, width, pieces: Sequence[Piece], row_slots: int, row_height, cells=False, numbers=True
) -> float:
    """Draw `pieces`, in address order from slot 0, in rows of `row_slots` slots. Returns the height below the last row.

    A label is written once, in the widest part of its piece, where it fits. With `numbers` the first slot of each row
    stands left of `x`, with `cells` every slot has a tick.
    """
    scale, slot, bottom = width / row_slots, 0, y
    for piece in pieces:
        parts = []
        end = slot + piece.size
        while slot < end:
            row, column = divmod(slot, row_slots)
            length = min(end - slot, row_slots - column)
            parts.append((x + column * scale, y + row * (row_height + GAP), length * scale))
            slot += length
        widest = max(parts, key=lambda part: part[2], default=None)
        for part in parts:
            left, top, size = part
            fits = part is widest and piece.label is not None and style.text_width(piece.label) <= size - 2
            line = 1 if size >= 3 else 0.3  # else the outlines hide what they outline
            label = piece.label if fits else None
            canvas.rect(
                left, top, size, row_height, piece.fill, hatch=piece.hatch, label=label, tip=piece.tip, line=line
            )
            bottom = top + row_height
    if cells:
        _tick_cells(canvas, x, y, scale, slot, row_slots, row_height)
    for row in range(ceil_div(slot, row_slots) if numbers else 0):
        canvas.text(
            x - 8, y + row * (row_height + GAP) + row_height / 2, f"{row * row_slots:,}", anchor="end", fill=style.MUTED
        )
    return bottom


def _tick_cells(canvas, x, y, scale, slots, row_slots, row_height):
    for slot in range(slots):
        row, column = divmod(slot, row_slots)
        if column:
            top = y + row * (row_height + GAP)
            canvas.line(x + column * scale, top, x + column * scale, top + 5, stroke=style.INK, line=0.8)
