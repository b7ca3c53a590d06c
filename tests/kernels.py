"""Kernels of tests, from text: as cells of a notebook, since Triton reads a kernel's source."""

import pytest
from cells import run_cell

# Paged decode for one head, as a learner of 4.3 may write it.
DECODE = """
def decode(q, k_cache, v_cache, tables, lens, out, scale, q_stride, width,
           BLOCK: tl.constexpr, DIM: tl.constexpr, GROUP: tl.constexpr):
    head, seq, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    slot, dim = tl.arange(0, BLOCK), tl.arange(0, DIM)
    query = tl.load(q + seq * q_stride + head * DIM + dim).to(tl.float32)
    length = tl.load(lens + seq)
    m, l, o = float("-inf"), 0.0, tl.zeros([DIM], tl.float32)
    for j in range(tl.cdiv(length, BLOCK)):
        block = tl.load(tables + seq * width + j).to(tl.int64)
        seen = j * BLOCK + slot < length
        row = (block * BLOCK + slot) * (heads // GROUP) + head // GROUP
        at = row[:, None] * DIM + dim[None, :]
        keys = tl.load(k_cache + at, mask=seen[:, None], other=0.0).to(tl.float32)
        values = tl.load(v_cache + at, mask=seen[:, None], other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(query[None, :] * keys, 1) * scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, 0))
        weights, shrink = tl.exp(scores - m_new), tl.exp(m - m_new)
        l = l * shrink + tl.sum(weights, 0)
        o = o * shrink + tl.sum(weights[:, None] * values, 0)
        m = m_new
    o = tl.where(length > 0, o / l, 0.0)
    tl.store(out + (seq * heads + head) * DIM + dim, o)
"""


def kernel(source: str, **names):
    """The last kernel that a cell with this source defines; @triton.jit stands above the first by itself."""
    pytest.importorskip("triton")
    import torch

    import pagedkv.attention.triton  # noqa: F401  # isort: skip: it chooses the interpreter, before Triton is imported
    import triton
    from triton import language as tl

    from pagedkv.course.judge.guarded import is_kernel

    namespace = {"torch": torch, "triton": triton, "tl": tl, **names}
    run_cell("@triton.jit\n" + source.strip("\n"), namespace)
    return [of for of in namespace.values() if is_kernel(of)][-1]


def changed(source: str, *changes: tuple[str, str]) -> str:
    """The source with some of its pieces replaced; each must be there."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source
