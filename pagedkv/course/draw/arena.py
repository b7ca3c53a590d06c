"""The portrait of an arena: its pieces in address order, its holes as bars, a small one slot by slot."""

from collections.abc import Callable, Mapping
from operator import itemgetter

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.memory_map import draw_memory_map
from pagedkv.course.draw.strip import Piece, draw_strip
from pagedkv.sizing import ceil_div

BAR = 26  # height of a bar, pixels
ROW = 32  # slots in a row of a small arena


def arena_pieces(
    arena, extents: Mapping[int, object], show: Callable[[int], str] = str, wanted: int = 0
) -> list[Piece]:
    """The pieces of `arena` in address order; `extents` maps a request's number to what `allocate` returned.

    `show(size)` writes a size. A hole is external waste where the next request wants more, `wanted` slots, else free.
    What the allocator rounded up is always waste.
    """
    waste = style.STATES["external"]
    pieces = [
        (hole.start, Piece(hole.size, *_hole(hole.size, wanted), show(hole.size), f"hole: {show(hole.size)}"))
        for hole in arena.holes()
    ]
    for number, extent in extents.items():
        tip = f"request {number}: {show(extent.requested)}"
        pieces.append((extent.start, Piece(extent.requested, style.request_colour(number), None, f"r{number}", tip)))
        rounding = extent.size - extent.requested
        if rounding:
            tip = f"rounding of request {number}: {show(rounding)}"
            pieces.append((extent.start + extent.requested, Piece(rounding, *waste, None, tip)))
    return [piece for _, piece in sorted(pieces, key=itemgetter(0))]


def _hole(size: int, wanted: int) -> tuple[str, str | None]:
    """Fill and hatch of a hole."""
    return style.STATES["free" if size >= wanted else "external"]


def draw_hole_bars(canvas: Canvas, y, sizes: list[int], wanted: int, show: Callable[[int], str] = str) -> float:
    """One bar per hole, a bar with their sum, and a line at the size that a request wants.

    Returns the height below the last.
    """
    left, total = 170, sum(sizes)
    scale = (style.WIDTH - 290) / max(total, wanted)
    for size in sizes:
        fill, hatch = _hole(size, wanted)
        canvas.rect(left, y, size * scale, BAR, fill, hatch=hatch)
        canvas.text(left - 10, y + BAR / 2, show(size), anchor="end")
        canvas.text(
            left + max(size, wanted) * scale + 12,
            y + BAR / 2,
            "fits" if size >= wanted else "too small",
            fill=style.MUTED,
        )
        y += BAR + 8
    y += 8
    draw_strip(canvas, left, y, total * scale, BAR, total, [Piece(size, *_hole(size, wanted)) for size in sizes])
    canvas.text(left - 10, y + BAR / 2, "all together", anchor="end", bold=True)
    canvas.text(left + total * scale + 10, y + BAR / 2, show(total), bold=True)
    return y + BAR


def fragmented_arena(arena, extents: Mapping[int, object], wanted: int, show: Callable[[int], str] = str) -> Canvas:
    """The arena as a strip, its holes as bars in address order, and the line that a hole would have to reach."""
    left, width = 20, style.WIDTH - 40
    sizes = [hole.size for hole in arena.holes()]
    canvas = Canvas(style.WIDTH, 200 + (len(sizes) + 1) * (BAR + 8))
    verdict = "one hole is large enough" if arena.largest_hole >= wanted else "no hole is large enough"
    canvas.text(
        left, 24, f"{show(arena.total_free)} free, {show(wanted)} wanted: {verdict}", size=style.TITLE, bold=True
    )
    canvas.text(left, 60, f"the arena: {len(extents)} requests, {len(sizes)} holes")
    draw_strip(canvas, left, 76, width, 44, arena.capacity, arena_pieces(arena, extents, show, wanted))
    line = left + 150 + wanted * (width - 250) / max(arena.total_free, wanted)
    bottom = draw_hole_bars(canvas, 172, sizes, wanted, show)
    canvas.line(line, 156, line, bottom + 10, stroke=style.HIGHLIGHT, line=3, dash=True)
    canvas.text(
        line,
        144,
        f"the next request needs {show(wanted)} in one piece",
        anchor="middle",
        fill=style.HIGHLIGHT,
        bold=True,
    )
    return canvas


def playground(arena, extents: Mapping[int, object], title: str, error=None, task: str = "") -> tuple[Canvas, str]:
    """`title` says what happened last; `error` is the OutOfMemory of an allocation that just failed; `task` is a line
    of text below the picture.

    Returns the picture and its words.
    """
    left, width = 56, style.WIDTH - 76
    refused = error.requested if error else None
    rows, holes = ceil_div(arena.capacity, ROW), arena.holes()
    canvas = Canvas(style.WIDTH, 232 + rows * 45 + 30 * bool(task))
    if task:
        canvas.text(20, canvas.height - 18, task, bold=True)
    canvas.text(20, 26, title, size=style.TITLE, bold=True, fill=style.HIGHLIGHT if refused else style.INK)
    held = sum(extent.requested for extent in extents.values())
    lost = arena.capacity - arena.total_free - held
    facts = (
        f"{style.counted(held, 'slot')} asked for"
        + (f" + {lost} lost to rounding" if lost else "")
        + f" + {arena.total_free} free = {arena.capacity}"
    )
    canvas.text(20, 56, str(error) if error else facts)
    pieces = arena_pieces(arena, extents, wanted=refused or 0)
    bottom = draw_memory_map(canvas, left, 84, width, pieces, ROW, row_height=40, cells=True)

    y, x, scale = bottom + 58, left, width / arena.capacity
    many, largest = style.counted(len(holes), "hole"), style.counted(arena.largest_hole, "slot")
    canvas.text(20, bottom + 30, f"{many}, the largest of {largest}" if holes else "no holes")
    for hole in sorted(holes, key=lambda hole: -hole.size):
        fill, hatch = _hole(hole.size, refused or 0)
        label = hole.size if hole.size * scale > 30 else None
        canvas.rect(
            x,
            y,
            hole.size * scale,
            30,
            fill,
            hatch=hatch,
            label=label,
            tip=f"slots {hole.start} to {hole.start + hole.size - 1}",
        )
        x += hole.size * scale
    if refused:
        size, words = min(refused, arena.capacity) * scale, f"{refused} wanted"
        canvas.rect(left, y + 36, size, 30, style.BACKGROUND, stroke=style.HIGHLIGHT, line=2.5, dash=True)
        fits = style.text_width(words) < size - 10
        x, anchor = (left + size / 2, "middle") if fits else (left + size + 8, "start")
        canvas.text(x, y + 51, words, anchor=anchor)
    sizes = ", ".join(str(hole.size) for hole in holes) or "none"
    named = ", ".join(f"r{number}: {extent.requested}" for number, extent in extents.items()) or "nothing"
    alt = f"{title}. {f'{error}. ' if error else ''}An arena of {arena.capacity} slots holds {named}. Holes: {sizes}."
    return canvas, f"{alt} {task}".strip()
