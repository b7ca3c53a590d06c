"""External fragmentation: an arena with its holes, and each hole as a bar next to the request that none of them can hold."""

from collections.abc import Callable, Mapping
from operator import itemgetter

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, draw_strip

LEFT, WIDTH, BAR = 20, style.WIDTH - 40, 26


def arena_pieces(arena, extents: Mapping[int, object], show: Callable[[int], str] = str, wasted: bool = True) -> list[Piece]:
    """The pieces of `arena` in address order; `extents` maps a request's number to what `allocate` returned.

    `show(size)` writes a size. Holes have the colour of external waste, or with `wasted` false, while any request still fits, of free
    memory. What the allocator rounded up is always waste.
    """
    waste = style.STATES["external"]
    colour = waste if wasted else (style.FREE, None)
    pieces = [(hole.start, Piece(hole.size, *colour, show(hole.size), f"hole: {show(hole.size)}")) for hole in arena.holes()]
    for number, extent in extents.items():
        tip = f"request {number}: {show(extent.requested)}"
        pieces.append((extent.start, Piece(extent.requested, style.request_colour(number), None, f"r{number}", tip)))
        rounding = extent.size - extent.requested
        if rounding:
            tip = f"rounding of request {number}: {show(rounding)}"
            pieces.append((extent.start + extent.requested, Piece(rounding, *waste, None, tip)))
    return [piece for _, piece in sorted(pieces, key=itemgetter(0))]


def draw_hole_bars(canvas: Canvas, y, sizes: list[int], wanted: int, show: Callable[[int], str] = str) -> float:
    """One bar per hole, a bar with their sum, and a line at the size that a request wants. Returns the height below the last."""
    left, total = LEFT + 150, sum(sizes)
    scale = (WIDTH - 250) / max(total, wanted)
    for size in sizes:
        canvas.rect(left, y, size * scale, BAR, style.EXTERNAL, hatch="x")
        canvas.text(left - 10, y + BAR / 2, show(size), anchor="end")
        canvas.text(left + max(size, wanted) * scale + 12, y + BAR / 2, "fits" if size >= wanted else "too small", fill=style.MUTED)
        y += BAR + 8
    y += 8
    draw_strip(canvas, left, y, total * scale, BAR, total, [Piece(size, style.EXTERNAL, "x") for size in sizes])
    canvas.text(left - 10, y + BAR / 2, "all together", anchor="end", bold=True)
    canvas.text(left + total * scale + 10, y + BAR / 2, show(total), bold=True)
    return y + BAR


def fragmented_arena(arena, extents: Mapping[int, object], wanted: int, show: Callable[[int], str] = str) -> Canvas:
    """The arena as a strip, its holes as bars in address order, and the line that the largest hole would have to reach."""
    sizes = [hole.size for hole in arena.holes()]
    canvas = Canvas(style.WIDTH, 200 + (len(sizes) + 1) * (BAR + 8))
    verdict = "one hole is large enough" if arena.largest_hole >= wanted else "no hole is large enough"
    canvas.text(LEFT, 24, f"{show(arena.total_free)} free, {show(wanted)} wanted: {verdict}", size=style.TITLE, bold=True)
    canvas.text(LEFT, 60, f"the arena: {len(extents)} requests, {len(sizes)} holes")
    draw_strip(canvas, LEFT, 76, WIDTH, 44, arena.capacity, arena_pieces(arena, extents, show))
    line = LEFT + 150 + wanted * (WIDTH - 250) / max(arena.total_free, wanted)
    bottom = draw_hole_bars(canvas, 172, sizes, wanted, show)
    canvas.line(line, 156, line, bottom + 10, stroke=style.HIGHLIGHT, line=3, dash=True)
    canvas.text(line, 144, f"the next request needs {show(wanted)} in one piece", anchor="middle", fill=style.HIGHLIGHT, bold=True)
    return canvas
