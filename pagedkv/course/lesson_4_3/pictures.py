"""Which sectors of memory a warp touches in one load: the picture under the address arithmetic of lesson 4.3."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

SECTOR = 32  # bytes: the least that a GPU fetches
SHOWN = 32  # sectors in a row


def sectors_of(addresses: Sequence[int], width: int) -> set[int]:
    """The numbers of the sectors that hold any of the `width` bytes at each address."""
    return {sector for address in addresses for sector in range(address // SECTOR, (address + width - 1) // SECTOR + 1)}


def touched_sectors(loads: Mapping[str, tuple[Sequence[int], int]]) -> tuple[Canvas, str]:
    """For each load, (the addresses of its threads, bytes per thread): the sectors it fetches, filled as far as wanted; and words."""
    said = []
    canvas = Canvas(style.WIDTH, 16 + 92 * len(loads))
    cell = (style.WIDTH - 40) / SHOWN
    for row, (name, (addresses, width)) in enumerate(loads.items()):
        y = 24 + 92 * row
        sectors = sorted(sectors_of(addresses, width))
        wanted = len({byte for address in addresses for byte in range(address, address + width)})
        fetched = SECTOR * len(sectors)
        canvas.text(20, y, name, bold=True)
        words = f"{wanted} bytes wanted, {len(sectors)} sectors = {fetched} bytes fetched: {100 * wanted / fetched:.0f} % of use"
        canvas.text(style.WIDTH - 20, y, words, anchor="end")
        said.append(f"{name}: {words}")
        for place, sector in enumerate(sectors[:SHOWN]):
            x = 20 + place * cell
            canvas.rect(x, y + 20, cell, 34, style.FREE)
            for low, high in _runs(addresses, width, sector):
                canvas.rect(x + cell * low / SECTOR, y + 20, cell * (high - low) / SECTOR, 34, style.TOKEN, stroke=None)
            if place and sector != sectors[place - 1] + 1:  # a gap in memory
                canvas.line(x, y + 14, x, y + 60, stroke=style.HIGHLIGHT, line=3)
    return canvas, f"The sectors of {SECTOR} bytes that one load of a warp touches, filled where wanted. {'; '.join(said)}."


def _runs(addresses: Sequence[int], width: int, sector: int) -> list[tuple[int, int]]:
    """The wanted bytes inside a sector as (start, end), neighbours joined."""
    start, runs = sector * SECTOR, []
    for address in sorted(addresses):
        low, high = max(address - start, 0), min(address + width - start, SECTOR)
        if low < high and runs and low <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(high, runs[-1][1]))
        elif low < high:
            runs.append((low, high))
    return runs
