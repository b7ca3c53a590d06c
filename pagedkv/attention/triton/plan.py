"""The plan of a decode step: how its sequences are cut, by their real lengths, into items of work that end about
together.

Lengths are read on the GPU, so the host never waits, and a captured graph that holds the plan is replayed with other
lengths. Every program searches for the same cut, the smallest that gives no more items than are wanted, and writes its
own few rows of the table.
"""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from pagedkv.attention.triton.launch import GRID_LIMIT, DecodeLaunch, Launcher, multiprocessors, power_of_2
from pagedkv.sizing import ceil_div

SCAN, ROWS = 256, 32  # lengths that a program looks at at a time, items that it writes
NO_BOUND = 2**31 - 1


class Settings(NamedTuple):
    tile: int
    num_warps: int
    items: int  # wanted in all; in a grid each sequence gets its share
    table: bool  # False: the grid alone, equal splits for all sequences


def tiles(row_bytes: int, dtype_bytes: int) -> tuple[tuple[int, int], ...]:
    """(tokens per step of the decode kernel, warps) that a plan chooses from, the largest first; small ones were not
    tried for other than 16 bits.
    """
    if dtype_bytes == 2 and row_bytes <= 256:
        return (64, 4), (32, 2), (16, 1)
    return ((max(16, min(64, 16384 // row_bytes)), 4),)


@lru_cache(1024)
def settings(row_bytes, dtype_bytes, group, programs, num_seqs, visible, even, multiprocessors) -> Settings:
    """For `num_seqs` sequences, each served by `programs` programs an item; a K row takes `row_bytes`, `group` query
    heads share it, and no query sees more than `visible` tokens. `even`: the host knows that lengths are about equal.

    Measured on an H200. Few programs take large tiles, and many small ones, each of fewer warps: as many bytes of K
    and V are on their way, in more hands. A multiprocessor is kept busy by half of the programs that fit on it; more
    than fit are cut so that whole waves of them do, where sequences are long enough to pay for the merge.
    """
    large, *small = tiles(row_bytes, dtype_bytes)
    middle, least = small or (large, large)
    fit = 6 if row_bytes <= 128 else 3  # programs with large tiles on a multiprocessor; with smaller ones as many more
    half = ceil_div(fit, 2) if group <= 16 else 2
    uncut = num_seqs * programs / multiprocessors  # programs a multiprocessor, where no sequence is cut
    many = middle if uncut <= 9 else large
    places = max(1, fit * large[0] // many[0] * multiprocessors // programs)  # items that run at once

    def items(each):
        return max(num_seqs, each * multiprocessors // programs)

    if not small and uncut <= 3:
        return Settings(*large, items(half), not even and visible > 512)
    if even or visible <= (512 if uncut <= 9 else 1024):
        if uncut > fit and visible <= (256 if uncut <= 9 else 96):
            return Settings(*least, num_seqs, False)
        if uncut > fit:
            waves = [parts * num_seqs / places for parts in range(1, 9 if visible > 4096 else 2)]
            parts = next((i for i, wave in enumerate(waves, 1) if wave <= 1 or wave >= 0.9 * ceil(wave)), 1)
            return Settings(*many, parts * num_seqs, False)
        filled = max(1, int(half / uncut)) * uncut >= 0.8 * half
        if uncut <= 0.6 or visible <= 512 or (filled and visible <= 4096):
            return Settings(*large, items(half), False)
        return Settings(*least, items(2 * fit), False)
    if uncut <= 0.6:
        return Settings(*large, items(half), True)
    if uncut <= fit:
        return Settings(*least, items(2 * fit), True)
    return Settings(*many, places * max(2, ceil_div(2 * num_seqs, places)), True)


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
        longest = min(max(lengths), visible)
        even = 9 * longest * num_seqs <= 10 * sum(min(length, visible) for length in lengths)
    chosen = settings(
        max(16, power_of_2(head_dim)) * dtype_bytes, dtype_bytes, group, num_kv_heads * ceil_div(group, 64),
        num_seqs, longest, even, multiprocessors(device),
    )  # fmt: skip
    smallest = ceil_div(256 // dtype_bytes, chosen.tile)  # tiles: smaller parts do not pay for their merge
    if chosen.table:
        return cut(seq_lens, visible, smallest, chosen)
    splits = chosen.items // num_seqs
    split_tokens = chosen.tile * max(smallest, ceil_div(longest, splits * chosen.tile))
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
