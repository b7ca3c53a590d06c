"""How a plan cuts a batch, and how large its tiles are: by an estimate of the time where lengths are about equal, else
by what did well. Every number was measured on an H200.
"""

from functools import lru_cache
from math import ceil, log2
from typing import NamedTuple

from pagedkv.sizing import ceil_div


class Tile(NamedTuple):
    """What a program of the decode kernel reads in a step, and what that takes it."""

    tokens: int
    num_warps: int
    fit: int  # programs that a multiprocessor holds
    start: float  # µs of a program besides its steps
    step: float  # µs of a step, however fast memory is
    turn: float = 0.0  # µs of a step in which it keeps others from computing


# By bytes of a number and of a K row; the largest first. Few programs do best with large tiles, many with small ones.
TILES = {
    (2, 128): (Tile(64, 4, 6, 4.27, 0.61), Tile(32, 2, 8, 3.92, 0.55), Tile(16, 1, 20, 3.35, 0.57)),
    (2, 256): (Tile(64, 4, 3, 4.27, 0.76), Tile(32, 2, 6, 3.92, 0.68), Tile(16, 1, 10, 3.35, 0.59)),
    (1, 64): (Tile(64, 4, 7, 4.97, 0.62, 0.26), Tile(32, 2, 12, 4.9, 0.6, 0.13), Tile(16, 1, 16, 5.56, 0.35, 0.06)),
    (1, 128): (Tile(64, 4, 4, 4.97, 0.72, 0.37), Tile(32, 2, 8, 4.9, 0.63, 0.18), Tile(16, 1, 12, 5.56, 0.54, 0.08)),
    (4, 256): (Tile(16, 1, 10, 4.0, 1.4, 0.9),),
    (4, 512): (Tile(16, 1, 5, 4.0, 2.7, 1.7),),
}
WIDE = {1: Tile(128, 8, 1, 5.0, 1.1), 2: Tile(64, 4, 2, 4.27, 0.95), 4: Tile(16, 4, 3, 4.0, 2.7, 1.7)}  # for many rows
ALL, ONE = 34_000, 64_000  # bytes a µs that reach a multiprocessor: where all of them ask, and where it asks alone
PARTS = 1, 2, 3, 4, 6, 8, 10, 12, 16, 20  # of a sequence, or programs on a multiprocessor: what is compared


class Settings(NamedTuple):
    tile: int
    num_warps: int
    items: int  # wanted in all; in a grid each sequence gets its share
    table: bool  # False: the grid alone, equal splits for all sequences


def tiles(row_bytes: int, dtype_bytes: int, group: int) -> tuple[Tile, ...]:
    """Those that a plan chooses from."""
    choice = TILES.get((dtype_bytes, max(row_bytes, 64 * dtype_bytes)))
    if choice is None:  # long rows
        return (Tile(max(16, min(64, 16384 // row_bytes)), 4, 3, 4.3, 0.8),)
    return choice if group <= 16 else (WIDE[dtype_bytes],)


def smallest(dtype_bytes: int, tile: int) -> int:
    """Steps of a part: a smaller one does not pay for its merge."""
    return ceil_div(256 // dtype_bytes, tile)


def time_us(tile, parts, row_bytes, dtype_bytes, rows, units, visible, multiprocessors) -> float:
    """About what a decode takes whose `units` pairs of sequence and KV head, each of `rows` query heads and `visible`
    tokens, are cut into `parts`.

    Programs come in waves. A step takes its own time, or that in which its bytes arrive beside those of the others,
    and a little more where both are about as long.
    """
    steps = max(smallest(dtype_bytes, tile.tokens), ceil_div(visible, parts * tile.tokens))
    whole = max(1, ceil_div(visible, tile.tokens))
    parts = ceil_div(whole, steps)
    asked = 2 * row_bytes * tile.tokens
    waves, rest = divmod(units * parts / multiprocessors, tile.fit)

    def step(programs):
        here = ceil(programs)
        times = tile.step, tile.turn * here, asked * programs / ALL, asked * here / ONE
        return sum(time**4 for time in times) ** 0.25

    time = tile.start + waves * (whole / parts * step(tile.fit) + 1) + min(steps, whole) * step(rest) * (rest > 0)
    if parts > 1:  # they are merged
        time += 0.2 + 0.2 * log2(parts) + units * rows * parts * row_bytes / dtype_bytes * 4e-6
    return time


@lru_cache(1024)
def settings(row_bytes, dtype_bytes, group, programs, num_seqs, visible, even, multiprocessors) -> Settings:
    """For `num_seqs` sequences, each served by `programs` programs an item; a K row takes `row_bytes`, `group` query
    heads share it, and no query sees more than `visible` tokens. `even`: the host knows that lengths are about equal.

    Equal lengths get what `time_us` says is fastest. Of others the mean is not known.
    """
    choice = tiles(row_bytes, dtype_bytes, group)
    units = num_seqs * programs
    each = units / multiprocessors  # programs a multiprocessor, where no sequence is cut
    if each > 9 and row_bytes > 64 * dtype_bytes and visible > (256 if even else 512):  # a stream of whole waves
        choice = choice[:1]
    if even:
        cuts = [(t, max(1, n)) for t in choice for e in PARTS if e <= t.fit for n in (e, e * multiprocessors // units)]
        shape = row_bytes, dtype_bytes, min(group, 64), units, visible, multiprocessors
        tile, parts = min(dict.fromkeys(cuts), key=lambda cut: time_us(*cut, *shape))
        return Settings(tile.tokens, tile.num_warps, parts * num_seqs, False)
    large, middle, least = choice if len(choice) == 3 else choice * 3
    if visible <= (1024 if each > 9 else 512 if each > 3 else 256):  # nothing is cut
        tile = large if visible > 512 else middle
        if visible <= (128 if each > large.fit else 64) and not large.turn:
            tile = least
        return Settings(tile.tokens, tile.num_warps, num_seqs, False)
    if each <= 1.6 or (visible <= 1024 and each <= 3):
        tile = large if large.fit > 3 else middle
        wanted = max(4, each) if each > 0.6 else ceil_div(tile.fit, 2)
    elif each <= 6 and large is not least:
        tile, wanted = least, 12 if least.fit > 10 else 8
    elif each <= 9 and large is not middle and not large.turn:
        tile, wanted = middle, 24
    else:
        tile, wanted = large, max(12, 2 * each)
    return Settings(tile.tokens, tile.num_warps, max(num_seqs, int(wanted * multiprocessors) // programs), True)
