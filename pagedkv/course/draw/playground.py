"""A small arena, slot by slot, with its holes as bars: what `arena_playground` shows."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.arena import arena_pieces
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.memory_map import draw_memory_map
from pagedkv.sizing import ceil_div

ROW, LEFT, WIDTH = 32, 56, style.WIDTH - 76


def playground(arena, extents: Mapping[int, object], title: str, error=None) -> tuple[Canvas, str]:
    """`title` says what happened last; `error` is the OutOfMemory of an allocation that just failed.

    Returns the picture and its words.
    """
    refused = error.requested if error else None
    rows, holes = ceil_div(arena.capacity, ROW), arena.holes()
    canvas = Canvas(style.WIDTH, 232 + rows * 45)
    canvas.text(20, 26, title, size=style.TITLE, bold=True, fill=style.HIGHLIGHT if refused else style.INK)
    held = sum(extent.requested for extent in extents.values())
    lost = arena.capacity - arena.total_free - held
    facts = f"{held} slots asked for" + (f" + {lost} lost to rounding" if lost else "") + f" + {arena.total_free} free = {arena.capacity}"
    canvas.text(20, 56, str(error) if error else facts)
    pieces = arena_pieces(arena, extents, wasted=refused is not None)
    bottom = draw_memory_map(canvas, LEFT, 84, WIDTH, pieces, ROW, row_height=40, cells=True)

    y, x, scale = bottom + 58, LEFT, WIDTH / arena.capacity
    many = "1 hole" if len(holes) == 1 else f"{len(holes)} holes"
    canvas.text(20, bottom + 30, f"{many}, the largest of {arena.largest_hole} slots" if holes else "no holes")
    for hole in sorted(holes, key=lambda hole: -hole.size):
        fill, hatch = style.STATES["external"] if refused else (style.FREE, None)
        label = hole.size if hole.size * scale > 30 else None
        canvas.rect(x, y, hole.size * scale, 30, fill, hatch=hatch, label=label, tip=f"slots {hole.start} to {hole.start + hole.size - 1}")
        x += hole.size * scale
    if refused:
        size = min(refused, arena.capacity) * scale
        canvas.rect(LEFT, y + 36, size, 30, style.BACKGROUND, stroke=style.HIGHLIGHT, line=2.5, dash=True, label=f"{refused} wanted")
    sizes = ", ".join(str(hole.size) for hole in holes) or "none"
    named = ", ".join(f"r{number}: {extent.requested}" for number, extent in extents.items()) or "nothing"
    alt = f"{title}. {f'{error}. ' if error else ''}An arena of {arena.capacity} slots holds {named}. Holes: {sizes}."
    return canvas, alt
