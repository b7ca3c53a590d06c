"""The plan of a decode step: how its sequences are cut, by their real lengths, into items of work that end about
together.

Lengths are read on the GPU, so the host never waits, and a captured graph that holds the plan is replayed with other
lengths. Every program searches for the same cut, the smallest that gives no more items than are wanted, and writes its
own few rows of the table.
"""

from functools import lru_cache
from math import ceil, log2
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from pagedkv.attention.plan import about_equal
from pagedkv.attention.triton.launch import GRID_LIMIT, DecodeLaunch, Launcher, multiprocessors, power_of_2
from pagedkv.sizing import ceil_div

SCAN, ROWS = 256, 32  # lengths that a program looks at at a time, items that it writes
NO_BOUND = 2**31 - 1


class Tile(NamedTuple):
    """What a program of the decode kernel reads in a step, and what that takes it: measured on an H200."""

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

    Equal lengths get what `time_us` says is fastest. Of others the mean is not known: what did well on an H200.
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


@triton.jit
def _parts(seq_lens, rows, num_seqs, window, cut):
    """The visible tokens of sequences `rows`, and into how many parts of at most `cut` tokens each is cut: an empty one
    is a part too, and writes zeros; past the last sequence there is none.
    """
    inside = rows < num_seqs
    tokens = tl.minimum(tl.load(seq_lens + rows, inside, 0), window)
    return tokens, tl.where(inside, tl.maximum(tl.cdiv(tokens, cut), 1), 0)


@triton.jit(do_not_specialize=["num_seqs", "window", "smallest", "wanted", "num_items"])
def plan_kernel(
    seq_lens, items, first_items, num_seqs, window, smallest, wanted, num_items,
    TILE: tl.constexpr, SCAN: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Grid (ceil(num_items / ROWS),). items int32 [num_items, 4]: the sequence; which of its parts, -1 where it is the
    only one; the first token, and the one after the last. first_items int32 [num_seqs + 1].
    """
    total, longest = tl.full([], 0, tl.int64), 0
    for base in range(0, num_seqs, SCAN):
        tokens, _ = _parts(seq_lens, base + tl.arange(0, SCAN), num_seqs, window, TILE)
        total += tl.sum(tokens.to(tl.int64))
        longest = tl.maximum(longest, tl.max(tokens))
    # The cut, in tiles: the smallest that gives few enough items. A part for each sequence and one for every `cut`
    # tokens are never fewer than there are, and one for every `cut` tokens never more.
    high = tl.maximum(tl.cdiv(longest, TILE), 1)
    spare = wanted - num_seqs
    high = tl.where(spare > 0, tl.minimum(high, tl.cdiv(total, tl.maximum(spare, 1) * TILE).to(tl.int32)), high)
    high = tl.maximum(high, smallest)
    low = tl.where(spare > 0, tl.cdiv(total, wanted * TILE).to(tl.int32), high)
    low = tl.minimum(tl.maximum(low, smallest), high)
    while low < high:
        middle = (low + high) // 2
        count = 0
        for base in range(0, num_seqs, SCAN):
            _, parts = _parts(seq_lens, base + tl.arange(0, SCAN), num_seqs, window, middle * TILE)
            count += tl.sum(parts)
        high = tl.where(count <= wanted, middle, high)
        low = tl.where(count <= wanted, low, middle + 1)

    item = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    seq, before, done = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32), 0
    for base in range(0, num_seqs, SCAN):
        rows = base + tl.arange(0, SCAN)
        _, parts = _parts(seq_lens, rows, num_seqs, window, high * TILE)
        ends = done + tl.cumsum(parts)
        if tl.program_id(0) == 0:
            tl.store(first_items + rows + 1, ends, rows < num_seqs)
        passed = (ends[None, :] <= item[:, None]) & (rows < num_seqs)[None, :]
        seq += tl.sum(passed.to(tl.int32), 1)
        before += tl.sum(tl.where(passed, parts[None, :], 0), 1)
        done += tl.sum(parts)
    if tl.program_id(0) == 0:
        tl.store(first_items, 0)

    live = seq < num_seqs  # behind the last item there are rows without one: part 1 of no tokens
    seq = tl.where(live, seq, 0)
    tokens, parts = _parts(seq_lens, seq, num_seqs, window, high * TILE)
    part = item - before
    even = tl.cdiv(tl.cdiv(tokens, parts), TILE) * TILE  # parts of a sequence are equal, in whole tiles
    length = tl.load(seq_lens + seq)
    lo = length - tokens + part * even
    hi = tl.where(live, tl.minimum(lo + even, length), lo)
    table = items + 4 * item
    tl.store(table, seq, item < num_items)
    tl.store(table + 1, tl.where(live, tl.where(parts == 1, -1, part), 1), item < num_items)
    tl.store(table + 2, tl.where(live, lo, 0), item < num_items)
    tl.store(table + 3, tl.where(live, hi, 0), item < num_items)


launch_plan = Launcher(plan_kernel)


def plan(seq_lens, k_cache, num_q_heads, max_seq_len, window, lengths):
    """(settings of the decode kernel, table of items, first items), as in `AttentionPlan`; the settings alone where
    equal splits do. Takes checked arguments.
    """
    num_seqs, num_kv_heads, head_dim = len(seq_lens), *k_cache.shape[2:]
    group, dtype_bytes, device = num_q_heads // num_kv_heads, k_cache.element_size(), seq_lens.get_device()
    visible = min(NO_BOUND if max_seq_len is None else max_seq_len, window or NO_BOUND)
    longest, even = visible, False
    if lengths is not None:
        lengths = [min(length, visible) for length in lengths]
        longest, even = max(lengths), about_equal(lengths)
    chosen = settings(
        max(16, power_of_2(head_dim)) * dtype_bytes, dtype_bytes, group, num_kv_heads * ceil_div(group, 64),
        num_seqs, ceil_div(longest, 64) * 64, even, multiprocessors(device),
    )  # fmt: skip
    steps = smallest(dtype_bytes, chosen.tile)
    if chosen.table:
        return cut(seq_lens, visible, steps, chosen)
    splits = chosen.items // num_seqs
    longest = visible if splits == 1 else longest  # where one part does, it does for all that come
    split_tokens = chosen.tile * max(steps, ceil_div(longest, splits * chosen.tile))
    return (DecodeLaunch(chosen.tile, 3, split_tokens, max(1, ceil_div(visible, split_tokens)), chosen.num_warps),)


def cut(seq_lens, visible, smallest, chosen):
    """The same, by the kernel: parts of at least `smallest` tiles."""
    num_seqs = len(seq_lens)
    num_items = max(num_seqs, min(chosen.items, GRID_LIMIT))
    numbers = torch.empty(4 * num_items + num_seqs + 1, dtype=torch.int32, device=seq_lens.device)
    items, first_items = numbers[: 4 * num_items].view(num_items, 4), numbers[4 * num_items :]
    launch_plan(
        seq_lens.get_device(), (ceil_div(num_items, ROWS), 1, 1), (seq_lens, items, first_items),
        (num_seqs, visible, smallest, min(chosen.items, GRID_LIMIT), num_items), (),
        (chosen.tile, SCAN, ROWS), (), num_warps=4, num_stages=1,
    )  # fmt: skip
    return DecodeLaunch(chosen.tile, 3, 0, num_items, chosen.num_warps), items, first_items
