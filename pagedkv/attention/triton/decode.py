"""Decode attention on a paged cache: one query token per sequence, the tokens of a sequence shared out over several
programs (split-KV).

A program takes one KV head of one sequence and one split of its tokens, and walks over them a tile at a time with
online softmax. All query heads of the KV head ride along as the rows of a small matrix, so each byte of K and V is read
once. A sequence longer than one split leaves partial results, which a second, small kernel merges by the same formula.
Lengths are read on the GPU only: the host never waits, and a CUDA graph can be replayed with other lengths.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagedkv.attention.form import form_of
from pagedkv.attention.triton import INTERPRETED
from pagedkv.attention.triton.fp8 import two_e4m3
from pagedkv.attention.triton.launch import (
    GRID_LIMIT,
    LOG2_E,
    LOWEST,
    Launcher,
    as_compute,
    as_output,
    compute_dtype,
    decode_launch,
    dependent_launch,
    factors,
    multiprocessors,
    no_parts,
    power_of_2,
    tanh,
    with_sink,
)
from pagedkv.sizing import ceil_div
from pagedkv.tensors import in_pairs


@triton.jit(do_not_specialize=["num_splits", "split_tokens", "window", "scale", "v_scale", "softcap", "table_stride"])
def decode_kernel(
    q_ptr, k_ptr, v_ptr, block_tables, seq_lens, items, sinks, out_ptr, lse_ptr, part_ptr,
    num_splits, split_tokens, window, scale, v_scale, softcap, table_stride,
    q_token, q_head, q_dim, k_block, k_slot, k_head, k_dim, v_block, v_slot, v_head, v_dim,
    out_token, out_head, out_dim,
    GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    TILE: tl.constexpr, SAME_STRIDES: tl.constexpr, COMPUTE: tl.constexpr, FP8_PAIRS: tl.constexpr, ASM: tl.constexpr,
    SOFTCAP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Grid (KV heads x slices of their query heads, splits, sequences); with a plan's table (the same, items, 1).
    FP8_PAIRS: caches of int16, two FP8 numbers each; DIM counts pairs.
    """
    SLICES: tl.constexpr = (GROUP + ROWS - 1) // ROWS
    PACK: tl.constexpr = 2 if FP8_PAIRS else 1
    kv_head, split, seq = tl.program_id(0) // SLICES, tl.program_id(1), tl.program_id(2).to(tl.int64)
    in_group = tl.program_id(0) % SLICES * ROWS + tl.arange(0, ROWS)  # [ROWS] of its query heads
    heads = (kv_head * GROUP + in_group).to(tl.int64)
    num_heads = tl.num_programs(0) // SLICES * GROUP
    dims, cols = tl.arange(0, LANES), tl.arange(0, TILE)
    in_dim = dims < DIM
    live = (in_group < GROUP)[:, None] & in_dim[None, :]
    if PDL:
        gdc_wait()
        if num_splits > 1:
            gdc_launch_dependents()  # the merge may take its place now; it waits for our results itself
    if items is not None:  # which tokens of which sequence are ours stands in a table
        items += 4 * split
        seq, split = tl.load(items).to(tl.int64), tl.load(items + 1)
    q_at = q_ptr + seq * q_token + heads[:, None] * q_head + PACK * dims[None, :] * q_dim
    q = tl.load(q_at, live, 0.0).to(COMPUTE)
    if FP8_PAIRS:
        q_odd = tl.load(q_at + q_dim, live, 0.0).to(COMPUTE)
    table = block_tables + seq * table_stride
    if items is None:
        # Our first tile, unless cut off or moved by a window: a guess saves waiting for the length.
        first = split * split_tokens + cols
        block_ids = tl.load(table + first // BLOCK, first < window, 0)
        length = tl.load(seq_lens + seq)
        oldest = tl.maximum(length - window, 0)  # the first visible token
        lo = oldest + split * split_tokens
        hi = tl.minimum(lo + split_tokens, length)  # tokens [lo, hi) are ours
    else:
        lo, hi = tl.load(items + 2), tl.load(items + 3)
        pos = tl.minimum(lo + cols, hi - 1)
        block_ids = tl.load(table + pos // BLOCK, pos >= 0, 0)
    if (lo < hi) | (split <= 0):  # a sequence without tokens has its row of zeros
        if items is None:
            if (oldest > 0) | (lo + TILE > hi) | FP8_PAIRS:  # with FP8 the guess makes the loop slower
                pos = tl.minimum(lo + cols, hi - 1)
                block_ids = tl.load(table + pos // BLOCK, pos >= 0, 0)
        k_ptr += kv_head.to(tl.int64) * k_head
        v_ptr += kv_head.to(tl.int64) * v_head

        m = tl.full([ROWS], LOWEST, tl.float32)
        norm = tl.zeros([ROWS, TILE], tl.float32)  # summed over its tile at the end, once
        acc = tl.zeros([ROWS, LANES], tl.float32)
        if FP8_PAIRS:
            acc_odd = tl.zeros([ROWS, LANES], tl.float32)
        for at in range(lo, hi, TILE):
            blocks = block_ids.to(tl.int64)[:, None]
            offsets = (tl.minimum(at + cols, hi - 1) % BLOCK).to(tl.int64)[:, None]
            k_row = blocks * k_block + offsets * k_slot
            v_row = k_row if SAME_STRIDES else blocks * v_block + offsets * v_slot
            k_at, v_at = k_ptr + k_row + dims[None, :] * k_dim, v_ptr + v_row + dims[None, :] * v_dim
            k = tl.load(k_at) if DIM == LANES else tl.load(k_at, in_dim[None, :], 0 if FP8_PAIRS else 0.0)
            if FP8_PAIRS:
                k, k_odd = two_e4m3(k, ASM)
                s = tl.dot(q_odd, tl.trans(k_odd.to(COMPUTE)), input_precision="ieee")
                s = tl.dot(q, tl.trans(k.to(COMPUTE)), s, input_precision="ieee") * scale
            else:
                s = tl.dot(q, tl.trans(as_compute(k, COMPUTE)), input_precision="ieee") * scale
            if SOFTCAP:
                s = softcap * tanh(s)
            s = tl.where((at + cols < hi)[None, :], s, float("-inf"))
            m_new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            shrink = tl.exp2(m - m_new)[:, None]
            norm = norm * shrink + p
            v = tl.load(v_at) if DIM == LANES else tl.load(v_at, in_dim[None, :], 0 if FP8_PAIRS else 0.0)
            if FP8_PAIRS:
                v, v_odd = two_e4m3(v, ASM)
                acc_odd = tl.dot(p.to(COMPUTE), v_odd.to(COMPUTE), acc_odd * shrink, input_precision="ieee")
            acc = tl.dot(p.to(COMPUTE), as_compute(v, COMPUTE), acc * shrink, input_precision="ieee")
            m = m_new
            pos = tl.minimum(at + TILE + cols, hi - 1)
            block_ids = tl.load(table + pos // BLOCK)  # of the next tile: its loads need not wait

        if sinks is not None:  # the first split counts it
            sink = tl.load(sinks + heads, in_group < GROUP, float("-inf")) * LOG2_E
            m, shrink, weight = with_sink(m, tl.where(split <= 0, sink, float("-inf")))
            acc, norm = acc * shrink[:, None], norm * shrink[:, None] + weight[:, None] / TILE
            if FP8_PAIRS:
                acc_odd *= shrink[:, None]
        norm = tl.sum(norm, 1)
        if items is None:
            alone = (split == 0) & (lo + split_tokens >= length)  # the only split
        else:
            alone = split < 0
        seen = (norm != 0) | (alone & (lo < hi))  # else no token, or a part whose scores are all -inf
        m, norm = tl.where(seen, m, float("-inf")), tl.where(seen, norm, 1.0)
        log2_sum = m + tl.log2(norm)
        to_output = (v_scale / norm)[:, None]
        if alone:
            out_at = out_ptr + seq * out_token + heads[:, None] * out_head + PACK * dims[None, :] * out_dim
            tl.store(out_at, as_output(acc * to_output, out_ptr), live)
            if FP8_PAIRS:
                tl.store(out_at + out_dim, as_output(acc_odd * to_output, out_ptr), live)
            if lse_ptr is not None:
                tl.store(lse_ptr + seq * num_heads + heads, log2_sum / LOG2_E, in_group < GROUP)
        else:
            part = (tl.program_id(2).to(tl.int64) * num_splits + tl.program_id(1)) * num_heads + heads
            part_at = part_ptr + part[:, None] * (PACK * DIM) + PACK * dims[None, :]
            tl.store(part_at, acc * to_output, live)
            if FP8_PAIRS:
                tl.store(part_at + 1, acc_odd * to_output, live)
            part_lse = part_ptr + tl.num_programs(2).to(tl.int64) * num_splits * num_heads * (PACK * DIM)
            tl.store(part_lse + part, log2_sum, in_group < GROUP)


@triton.jit(do_not_specialize=["num_splits", "split_tokens", "window"])
def merge_kernel(
    part_ptr, seq_lens, first_items, out_ptr, lse_ptr, num_splits, split_tokens, window, out_token, out_head, out_dim,
    DIM: tl.constexpr, LANES: tl.constexpr, PARTS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Grid (query heads, sequences): one output row from the partial rows of its splits. With a plan num_splits is the
    number of its items, those of a sequence one after the other.
    """
    head, seq, num_heads = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.num_programs(0)
    # Before the wait: written by kernels that ended before the one waited for began to let this one in.
    if first_items is None:
        first_part, num_parts = seq * num_splits, tl.num_programs(1).to(tl.int64) * num_splits
        length = tl.load(seq_lens + seq)
        used = tl.cdiv(tl.minimum(length, window), split_tokens)  # splits that hold tokens
    else:
        first_part, num_parts = tl.load(first_items + seq).to(tl.int64), num_splits.to(tl.int64)
        used = (tl.load(first_items + seq + 1) - first_part).to(tl.int32)
    part_lse = part_ptr + num_parts * num_heads * DIM
    dims = tl.arange(0, LANES)
    if PDL:
        gdc_wait()
    if used > 1:
        m, norm, acc = tl.full([], LOWEST, tl.float32), 0.0, tl.zeros([LANES], tl.float32)
        for first in range(0, used, PARTS):
            splits = first + tl.arange(0, PARTS)
            part = (first_part + splits) * num_heads + head
            log2_sum = tl.load(part_lse + part, splits < used, float("-inf"))
            live = (splits < used)[:, None] & (dims < DIM)[None, :]
            values = tl.load(part_ptr + part[:, None] * DIM + dims[None, :], live, 0.0)
            m_new = tl.maximum(m, tl.max(log2_sum, 0))
            weight = tl.exp2(log2_sum - m_new)
            shrink = tl.exp2(m - m_new)
            norm = norm * shrink + tl.sum(weight, 0)
            acc = acc * shrink + tl.sum(weight[:, None] * values, 0)
            m = m_new
        out_at = out_ptr + seq * out_token + head.to(tl.int64) * out_head + dims * out_dim
        tl.store(out_at, as_output(acc / norm, out_ptr), dims < DIM)
        if lse_ptr is not None:
            tl.store(lse_ptr + seq * num_heads + head, (m + tl.log2(norm)) / LOG2_E)


launch_decode, launch_merge = Launcher(decode_kernel), Launcher(merge_kernel)


@lru_cache(4096)
def ready(form, options, planned, with_lse, pairs, device):
    """For calls of a form: the launches of decode and merge, and how many numbers the parts are; no merge, None and 0.
    options: without sinks. planned: a plan's settings, or None. pairs: FP8 numbers are read in twos.
    """
    (num_seqs, num_heads, head_dim), (_, block_size, num_kv_heads, dim) = form.q_shape, form.cache_shape
    if num_seqs > GRID_LIMIT:
        raise ValueError(f"seq_lens must have at most {GRID_LIMIT} sequences for backend 'triton', not {num_seqs}")
    max_seq_len, scale, window, softcap, k_scale, v_scale = options
    dtype_bytes, caches = form.cache_dtype.itemsize, (form.k_strides, form.v_strides)
    if pairs:
        dim, dtype_bytes, caches = dim // 2, 2, [(*(n // 2 for n in strides[:3]), 1) for strides in caches]
    out_strides = form.out[1] if form.out else (num_heads * head_dim, head_dim, 1)
    group, lanes = num_heads // num_kv_heads, max(16, power_of_2(dim))
    programs = num_kv_heads * ceil_div(group, rows := min(max(16, power_of_2(group)), 64))
    window = min(window or max_seq_len, max_seq_len)
    tile, stages, split_tokens, num_splits, warps = planned or decode_launch(
        lanes * dtype_bytes, programs, num_seqs, max(window, 1), multiprocessors(device)
    )
    no_table, no_lse, pdl = split_tokens > 0, not with_lse, dependent_launch(device)
    num_rows = num_seqs if no_table else 1  # of items in the grid: a table's stand in one
    decode = launch_decode.ready(
        device, (programs, num_splits, num_rows),
        (num_splits, split_tokens, window, *factors(scale, softcap, k_scale, v_scale), form.table_strides[0]),
        (*form.q_strides, *caches[0], *caches[1], *out_strides),
        (group, rows, dim, lanes, block_size, tile, caches[0] == caches[1],
         compute_dtype(form.dtype, form.cache_dtype), pairs, not INTERPRETED, softcap is not None, pdl),
        (form.dtype, form.cache_dtype, no_table, form.sinks is None, no_lse),
        num_warps=warps, num_stages=stages, launch_pdl=pdl,
    )  # fmt: skip
    if num_rows * num_splits <= num_seqs:
        return decode, None, 0
    parts = 4 if num_rows * num_splits <= 4 * num_seqs else 32  # that a merge holds at a time
    merge = launch_merge.ready(
        device, (num_heads, num_seqs, 1), (num_splits, split_tokens, window), out_strides,
        (head_dim, power_of_2(head_dim), parts, pdl), (form.dtype, no_table, no_lse),
        num_warps=1, num_stages=1, launch_pdl=pdl,
    )  # fmt: skip
    return decode, merge, num_rows * num_splits * num_heads * (head_dim + 1)


def decode(q, k_cache, v_cache, block_tables, seq_lens, options, out, lse, plan=None, form=None):
    """Attend from q [num_seqs, num_q_heads, head_dim] over the cached tokens; fills `out` and, if given, `lse`. Takes
    checked arguments, and their form.
    """
    device = q.get_device()
    form = form or form_of(q, k_cache, v_cache, block_tables, seq_lens, None, out, options.sinks)
    pairs = in_pairs(k_cache) and in_pairs(v_cache)
    if pairs:
        k_cache, v_cache = k_cache.view(torch.int16), v_cache.view(torch.int16)
    planned, items, first_items = plan[3:] if plan else (None, None, None)
    attend, merge, numbers = ready(form, options[:-1], planned, lse is not None, pairs, device)
    part = torch.empty(numbers, dtype=torch.float32, device=form.device) if merge else no_parts(device)
    attend(q, k_cache, v_cache, block_tables, seq_lens, items, options.sinks, out, lse, part)
    if merge:
        merge(part, seq_lens, first_items, out, lse)
