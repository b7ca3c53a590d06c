"""The plan of a decode step: how its sequences are cut, by their real lengths, into items of work that end about
together.

Lengths are read on the GPU, so the host never waits, and a captured graph that holds the plan is replayed with other
lengths. Every program searches for the same cut, the smallest that gives no more items than are wanted, and writes its
own few rows of the table.
"""

import torch
import triton
import triton.language as tl

from pagedkv.attention.plan import about_equal
from pagedkv.attention.triton.launch import GRID_LIMIT, DecodeLaunch, Launcher, multiprocessors, power_of_2
from pagedkv.attention.triton.settings import settings, smallest
from pagedkv.sizing import ceil_div

SCAN, ROWS = 256, 32  # lengths that a program looks at at a time, items that it writes
NO_BOUND = 2**31 - 1


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
        num_seqs, ceil_div(longest, 64) * 64, even, multiprocessors(device),  # rounded: chosen anew every 64 tokens
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
