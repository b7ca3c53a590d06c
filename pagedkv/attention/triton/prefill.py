"""Prefill attention on a paged cache: many query tokens per sequence, with decodes mixed in where they occur.

The query heads of a KV group stand beside each other in one tile of rows (row = position, head), so a tile of K and V
is read once for all of them and both products are large. A tile of rows walks over the keys that its last row sees:
first the tiles that every row sees whole, without a mask, then those on the diagonal. Where tiles of rows are few, each
takes its keys in pieces, by several programs, and `prefill_merge` joins what they found.
"""

import torch
import triton
import triton.language as tl

from pagedkv.attention.triton.launch import (
    GRID_LIMIT,
    LOG2_E,
    LOWEST,
    Launcher,
    as_compute,
    as_output,
    compute_dtype,
    factors,
    multiprocessors,
    no_parts,
    power_of_2,
    prefill_launch,
    prefill_splits,
    settled,
    tanh,
    with_sink,
)
from pagedkv.attention.triton.prefill_merge import merge
from pagedkv.attention.triton.rows import find_heads, find_tile
from pagedkv.sizing import ceil_div


@triton.jit
def _attend(
    m, norm, acc, q, first, lo, hi, positions, k_ptr, v_ptr, table, window, scale, softcap,
    k_block, k_slot, k_dim, v_block, v_slot, v_dim,
    DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, SAME_STRIDES: tl.constexpr,
    COMPUTE: tl.constexpr, SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Online softmax of the rows of `q`, at `positions`, over the keys first <= position < hi, of which only those from
    lo on are read. `first` is a multiple of TILE, and without a mask hi is one and lo is not above `first`.
    """
    dims, cols = tl.arange(0, LANES), tl.arange(0, TILE)
    ones = tl.full([TILE, 8], 1.0, COMPUTE)
    # What is the same in each tile is added up before the loop.
    offsets = (cols % BLOCK).to(tl.int64)[:, None]
    k_in = offsets * k_slot + dims[None, :] * k_dim
    v_in = k_in if SAME_STRIDES else offsets * v_slot + dims[None, :] * v_dim
    MANY: tl.constexpr = BLOCK < TILE  # a tile takes several blocks: an id for each of its rows, else one
    table += cols // BLOCK if MANY else 0
    needed = (first + cols >= lo) & (first + cols < hi) if MANY else first < hi
    block_ids = tl.load(table + first // BLOCK, needed, 0)
    for at in range(first, hi, TILE):
        keys = at + cols
        inside = (keys >= lo) & (keys < hi)
        blocks = block_ids.to(tl.int64)[:, None] if MANY else block_ids.to(tl.int64)
        begin = tl.cast(at % BLOCK, tl.int64) if BLOCK > TILE else 0  # of the tile in its block
        k_row = blocks * k_block + begin * k_slot
        v_row = k_row if SAME_STRIDES else blocks * v_block + begin * v_slot
        k_at, v_at = k_ptr + k_row + k_in, v_ptr + v_row + v_in
        here = (dims < DIM)[None, :] & inside[:, None] if MASKED else (dims < DIM)[None, :]
        k = tl.load(k_at, here, 0.0) if MASKED or DIM < LANES else tl.load(k_at)
        s = tl.dot(q, tl.trans(as_compute(k, COMPUTE)), input_precision="ieee")
        if SOFTCAP:
            s = softcap * tanh(s * scale)
        if MASKED:  # 0 <= position - key < window; a negative number without a sign is a large one
            s = tl.where((positions[:, None] - keys[None, :]).to(tl.uint32) < window, s, float("-inf"))
        unit = 1.0 if SOFTCAP else scale  # the softmax runs in powers of two; its scale is folded into the exponent
        m_new = tl.maximum(m, tl.max(s, 1) * unit)
        p = tl.exp2(s * unit - m_new[:, None]).to(COMPUTE)
        shrink = tl.exp2(m - m_new)
        m = m_new
        norm = tl.dot(p, ones, norm * shrink[:, None], input_precision="ieee")  # sums of p, by the tensor cores too
        v = tl.load(v_at, here, 0.0) if MASKED or DIM < LANES else tl.load(v_at)
        acc = tl.dot(p, as_compute(v, COMPUTE), acc * shrink[:, None], input_precision="ieee")
        if LANES > 64:
            acc = settled(acc)
        following = at + TILE  # its loads need not wait for their blocks
        if MANY and MASKED:
            block_ids = tl.load(table + following // BLOCK, following + cols < hi, 0)
        else:
            block_ids = tl.load(table + tl.minimum(following, hi - (TILE if MANY else 1)) // BLOCK)
    return m, norm, acc


@triton.jit(do_not_specialize=["num_seqs", "window", "scale", "v_scale", "softcap", "table_stride"])
def prefill_kernel(
    q_ptr, k_ptr, v_ptr, block_tables, seq_lens, query_start_loc, sinks, out_ptr, lse_ptr, part_ptr, part_lse_ptr,
    num_seqs, window, scale, v_scale, softcap, table_stride,
    q_token, q_head, q_dim, k_block, k_slot, k_head, k_dim, v_block, v_slot, v_head, v_dim,
    out_token, out_head, out_dim,
    GROUP: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr,
    BLOCK: tl.constexpr, TILE: tl.constexpr, SCAN: tl.constexpr, SAME_STRIDES: tl.constexpr, COMPUTE: tl.constexpr,
    SOFTCAP: tl.constexpr,
):  # fmt: skip
    """Grid (KV heads x slices of their query heads, an upper bound of the row tiles, splits): the last rows, which see
    most, start first.
    """
    POSITIONS: tl.constexpr = ROWS // HEADS
    SLICES: tl.constexpr = (GROUP + HEADS - 1) // HEADS
    kv_head = tl.program_id(0) // SLICES
    num_heads = tl.num_programs(0) // SLICES * GROUP
    seq, first = find_tile(query_start_loc, num_seqs, tl.num_programs(1) - 1 - tl.program_id(1), POSITIONS, SCAN)
    if seq < num_seqs:
        dims = tl.arange(0, LANES)
        head, token, positions, mine, length = find_heads(query_start_loc, seq_lens, seq, first, GROUP, HEADS, ROWS)
        live = mine[:, None] & (dims < DIM)[None, :]
        q_at = q_ptr + token[:, None] * q_token + head[:, None] * q_head + dims[None, :] * q_dim
        q = tl.load(q_at, live, 0.0).to(COMPUTE)

        oldest = tl.min(positions)  # of the tile's rows, the first; its last row sees the keys below hi
        hi = tl.minimum(oldest + POSITIONS, length)
        lo = tl.maximum(oldest - window + 1, 0)
        start = lo // TILE * TILE
        # Every row sees the keys start <= position < whole.
        whole = tl.where(hi > window, start, tl.maximum(oldest + 1, 0) // TILE * TILE)
        piece = tl.cdiv(hi - start, TILE * tl.num_programs(2)) * TILE  # of the keys, for this split
        start += tl.program_id(2) * piece
        hi = tl.minimum(hi, start + piece)
        m = tl.full([ROWS], LOWEST, tl.float32)
        norm = tl.zeros([ROWS, 8], tl.float32)
        acc = tl.zeros([ROWS, LANES], tl.float32)
        k_ptr += kv_head.to(tl.int64) * k_head
        v_ptr += kv_head.to(tl.int64) * v_head
        table = block_tables + seq.to(tl.int64) * table_stride
        m, norm, acc = _attend(
            m, norm, acc, q, start, lo, tl.minimum(whole, hi), positions, k_ptr, v_ptr, table, window, scale, softcap,
            k_block, k_slot, k_dim, v_block, v_slot, v_dim,
            DIM, LANES, BLOCK, TILE, SAME_STRIDES, COMPUTE, SOFTCAP, MASKED=False,
        )  # fmt: skip
        m, norm, acc = _attend(
            m, norm, acc, q, tl.maximum(whole, start), lo, hi, positions, k_ptr, v_ptr, table, window, scale, softcap,
            k_block, k_slot, k_dim, v_block, v_slot, v_dim,
            DIM, LANES, BLOCK, TILE, SAME_STRIDES, COMPUTE, SOFTCAP, MASKED=True,
        )  # fmt: skip
        # Found again: kept through the loops, all this would take their registers.
        head, token, positions, mine, length = find_heads(query_start_loc, seq_lens, seq, first, GROUP, HEADS, ROWS)
        live = mine[:, None] & (dims < DIM)[None, :]
        norm = tl.sum(norm, 1) / 8
        split, alone = tl.program_id(2), tl.num_programs(2) == 1
        if sinks is not None:  # the first split counts it
            sink = tl.load(sinks + head, mine, float("-inf")) * LOG2_E
            m, shrink, weight = with_sink(m, tl.where(split == 0, sink, float("-inf")))
            acc, norm = acc * shrink[:, None], norm * shrink + weight
        # Else a row stands before the sequence, or none of this split's scores is above -inf.
        seen = (norm != 0) | (alone & mine & (positions >= 0))
        m, norm = tl.where(seen, m, float("-inf")), tl.where(seen, norm, 1.0)
        result, log2_sum = acc / norm[:, None] * v_scale, m + tl.log2(norm)
        if alone:
            out_at = out_ptr + token[:, None] * out_token + head[:, None] * out_head + dims[None, :] * out_dim
            tl.store(out_at, as_output(result, out_ptr), live)
            if lse_ptr is not None:
                tl.store(lse_ptr + token * num_heads + head, log2_sum / LOG2_E, mine)
        else:
            log2_sum = tl.where((split == 0) & (positions < 0), tl.maximum(log2_sum, LOWEST), log2_sum)
            part = (token * tl.num_programs(2) + split) * num_heads + head
            tl.store(part_ptr + part[:, None] * DIM + dims[None, :], result, live)
            tl.store(part_lse_ptr + part, log2_sum, mine)


launch_prefill = Launcher(prefill_kernel)


def prefill(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, options, out, lse):
    """Attend from the last tokens of each sequence, q [num_tokens, num_q_heads, head_dim]; fills `out` and, if given,
    `lse`.

    Takes checked arguments.
    """
    num_tokens, num_heads, head_dim = q.shape
    max_seq_len, scale, window, softcap, k_scale, v_scale, sinks = options
    _, block_size, num_kv_heads, _ = k_cache.shape
    num_seqs, group = seq_lens.shape[0], num_heads // num_kv_heads
    lanes = power_of_2(head_dim)
    longest, device = max(max_seq_len, 1), q.get_device()
    window = min(window or longest, longest)
    places = 2 * multiprocessors(device)
    launch = prefill_launch(lanes, q.element_size(), num_kv_heads, group, num_tokens, num_seqs, window, places)
    rows, tile, warps, stages, max_registers = launch
    heads, tiles = launch.tiles(group, num_tokens, num_seqs)
    slices = num_kv_heads * ceil_div(group, heads)
    splits = prefill_splits(tiles * slices, window, places)
    if tiles > GRID_LIMIT:
        raise ValueError(
            f"q must have fewer tokens for backend 'triton': at most {GRID_LIMIT} tiles of {rows // heads}, not {tiles}"
        )
    scale *= k_scale or 1.0
    if scale < 0:
        q, scale = -q, -scale
    scale = max(scale, 1e-30)  # above 0: then scaling keeps the order of the scores, and the mask's -inf
    part = part_lse = no_parts(device)
    if splits > 1:
        part = q.new_empty(num_tokens, splits, num_heads, head_dim, dtype=torch.float32)
        part_lse = q.new_empty(num_tokens, splits, num_heads, dtype=torch.float32)
    numbers = num_seqs, window, *factors(scale, softcap, None, v_scale), block_tables.stride(0)
    same, compute = k_cache.stride() == v_cache.stride(), compute_dtype(q.dtype, k_cache.dtype)
    launch_prefill(
        device,
        (slices, tiles, splits),
        (q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, sinks, out, lse, part, part_lse),
        numbers,
        (*q.stride(), *k_cache.stride(), *v_cache.stride(), *out.stride()),
        (group, heads, rows, head_dim, lanes, block_size, tile, 256, same, compute, softcap is not None),
        (q.dtype, k_cache.dtype, sinks is None, lse is None),
        num_warps=warps,
        num_stages=stages,
        maxnreg=max_registers,
    )
    if splits > 1:
        merge(part, part_lse, out, lse)
