"""The way to the decode kernel, rung by rung: each differs from the one before by one idea. Plain decode on contiguous
tensors, no options.

Rung 0: one program per query head, a block of the cache at a time. Rung 1: a tile of tokens that spans several blocks.
Rung 2: all query heads of a KV head in one program, as the rows of a matrix product. Rung 3, the tokens split over
several programs, is `decode` itself.
"""

import torch
import triton
import triton.language as tl

from pagedkv.attention.triton.launch import as_output, compute_dtype, power_of_2

LOG2_E = 1.4426950408889634
TILE = 64  # tokens, rungs 1 and 2


@triton.jit
def rung0_kernel(
    q_ptr, k_ptr, v_ptr, block_tables, seq_lens, out_ptr, scale, table_stride, num_heads, num_kv_heads,
    GROUP: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid (query heads, sequences)."""
    head, seq = tl.program_id(0), tl.program_id(1)
    length = tl.load(seq_lens + seq)
    dims, cols = tl.arange(0, LANES), tl.arange(0, BLOCK)
    q = tl.load(q_ptr + (seq * num_heads + head) * DIM + dims, dims < DIM, 0.0).to(tl.float32)
    m, norm = float("-inf"), 0.0
    acc = tl.zeros([LANES], tl.float32)
    for at in range(0, length, BLOCK):
        entry = seq * table_stride + at // BLOCK
        block = tl.load(block_tables + entry).to(tl.int64)
        slots = block * BLOCK + cols
        seen = at + cols < length
        where = (slots * num_kv_heads + head // GROUP)[:, None] * DIM + dims[None, :]
        live = seen[:, None] & (dims < DIM)[None, :]
        k = tl.load(k_ptr + where, live, 0.0).to(tl.float32)
        s = tl.sum(q[None, :] * k, 1) * scale
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        p = tl.exp2(s - m_new)
        shrink = tl.exp2(m - m_new)
        norm = norm * shrink + tl.sum(p, 0)
        v = tl.load(v_ptr + where, live, 0.0).to(tl.float32)
        acc = acc * shrink + tl.sum(p[:, None] * v, 0)
        m = m_new
    out = as_output(acc / norm, out_ptr)
    tl.store(out_ptr + (seq * num_heads + head) * DIM + dims, out, dims < DIM)


@triton.jit
def rung1_kernel(
    q_ptr, k_ptr, v_ptr, block_tables, seq_lens, out_ptr, scale, table_stride, num_heads, num_kv_heads,
    GROUP: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Grid (query heads, sequences). A step takes TILE tokens, and each of them looks up its own block."""
    head, seq = tl.program_id(0), tl.program_id(1)
    length = tl.load(seq_lens + seq)
    dims, cols = tl.arange(0, LANES), tl.arange(0, TILE)
    q = tl.load(q_ptr + (seq * num_heads + head) * DIM + dims, dims < DIM, 0.0).to(tl.float32)
    m, norm = float("-inf"), 0.0
    acc = tl.zeros([LANES], tl.float32)
    for at in range(0, length, TILE):
        seen = at + cols < length
        entry = seq * table_stride + (at + cols) // BLOCK
        block = tl.load(block_tables + entry, seen, 0).to(tl.int64)
        slots = block * BLOCK + (at + cols) % BLOCK
        where = (slots * num_kv_heads + head // GROUP)[:, None] * DIM + dims[None, :]
        live = seen[:, None] & (dims < DIM)[None, :]
        k = tl.load(k_ptr + where, live, 0.0).to(tl.float32)
        s = tl.sum(q[None, :] * k, 1) * scale
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 0))
        p = tl.exp2(s - m_new)
        shrink = tl.exp2(m - m_new)
        norm = norm * shrink + tl.sum(p, 0)
        v = tl.load(v_ptr + where, live, 0.0).to(tl.float32)
        acc = acc * shrink + tl.sum(p[:, None] * v, 0)
        m = m_new
    out = as_output(acc / norm, out_ptr)
    tl.store(out_ptr + (seq * num_heads + head) * DIM + dims, out, dims < DIM)


@triton.jit
def rung2_kernel(
    q_ptr, k_ptr, v_ptr, block_tables, seq_lens, out_ptr, scale, table_stride, num_heads, num_kv_heads,
    GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    TILE: tl.constexpr, COMPUTE: tl.constexpr,
):  # fmt: skip
    """Grid (KV heads, sequences).

    The GROUP query heads of the KV head are the rows of q, filled up to the 16 that a product takes.
    """
    kv_head, seq = tl.program_id(0), tl.program_id(1)
    length = tl.load(seq_lens + seq)
    dims, cols, rows = tl.arange(0, LANES), tl.arange(0, TILE), tl.arange(0, ROWS)
    q_at = (seq * num_heads + kv_head * GROUP + rows)[:, None] * DIM + dims[None, :]
    q_live = (rows < GROUP)[:, None] & (dims < DIM)[None, :]
    q = tl.load(q_ptr + q_at, q_live, 0.0).to(COMPUTE)
    m = tl.full([ROWS], float("-inf"), tl.float32)
    norm = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, LANES], tl.float32)
    for at in range(0, length, TILE):
        seen = at + cols < length
        entry = seq * table_stride + (at + cols) // BLOCK
        block = tl.load(block_tables + entry, seen, 0).to(tl.int64)
        slots = block * BLOCK + (at + cols) % BLOCK
        where = (slots * num_kv_heads + kv_head)[:, None] * DIM + dims[None, :]
        live = seen[:, None] & (dims < DIM)[None, :]
        k = tl.load(k_ptr + where, live, 0.0).to(COMPUTE)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(seen[None, :], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        shrink = tl.exp2(m - m_new)
        norm = norm * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + where, live, 0.0).to(COMPUTE)
        acc = tl.dot(p.to(COMPUTE), v, acc * shrink[:, None], input_precision="ieee")
        m = m_new
    out = as_output(acc / norm[:, None], out_ptr)
    tl.store(out_ptr + q_at, out, q_live)


def rung0(q, k_cache, v_cache, block_tables, seq_lens):
    """Decode: q [num_seqs, num_q_heads, head_dim] over sequences of at least one token; the result has q's shape."""
    out, heads, arguments, constants = _prepare(q, k_cache, v_cache, block_tables, seq_lens)
    rung0_kernel[(heads, q.shape[0])](*arguments, **constants)
    return out


def rung1(q, k_cache, v_cache, block_tables, seq_lens):
    """Like `rung0`."""
    out, heads, arguments, constants = _prepare(q, k_cache, v_cache, block_tables, seq_lens)
    rung1_kernel[(heads, q.shape[0])](*arguments, **constants, TILE=TILE)
    return out


def rung2(q, k_cache, v_cache, block_tables, seq_lens):
    """Like `rung0`."""
    out, heads, arguments, constants = _prepare(q, k_cache, v_cache, block_tables, seq_lens)
    group = constants["GROUP"]
    constants.update(ROWS=max(16, power_of_2(group)), TILE=TILE, COMPUTE=compute_dtype(q.dtype, k_cache.dtype))
    rung2_kernel[(heads // group, q.shape[0])](*arguments, **constants)
    return out


def _prepare(q, k_cache, v_cache, block_tables, seq_lens):
    """The output and what all rungs take."""
    num_heads, head_dim = q.shape[1:]
    block_size, num_kv_heads = k_cache.shape[1:3]
    if not (q.is_contiguous() and k_cache.is_contiguous() and v_cache.is_contiguous()):
        raise ValueError("the rungs take contiguous q, k_cache and v_cache only; `decode` takes any strides")
    out = torch.empty_like(q)
    scale = head_dim**-0.5 * LOG2_E
    arguments = (
        q,
        k_cache,
        v_cache,
        block_tables,
        seq_lens,
        out,
        scale,
        block_tables.stride(0),
        num_heads,
        num_kv_heads,
    )
    constants = dict(GROUP=num_heads // num_kv_heads, DIM=head_dim, LANES=power_of_2(head_dim), BLOCK=block_size)
    return out, num_heads, arguments, constants
