"""Joins what the splits of a prefill found, where tiles of rows were too few to fill the GPU and each walked over its
keys in pieces.
"""

import triton
import triton.language as tl

from pagedkv.attention.triton.launch import LOG2_E, LOWEST, MOST_SPLITS, Launcher, as_output, power_of_2


@triton.jit(do_not_specialize=["num_splits"])
def prefill_merge_kernel(
    part_ptr, part_lse_ptr, out_ptr, lse_ptr, num_splits, out_token, out_head, out_dim,
    DIM: tl.constexpr, LANES: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """Grid (query heads, tokens): parts [tokens, num_splits, query heads, DIM], their logarithms without DIM;
    num_splits is at most MOST.
    """
    head, token, num_heads = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.num_programs(0)
    splits, dims = tl.arange(0, MOST), tl.arange(0, LANES)
    part = (token * num_splits + splits) * num_heads + head
    log2_sum = tl.load(part_lse_ptr + part, splits < num_splits, float("-inf"))
    live = (splits < num_splits)[:, None] & (dims < DIM)[None, :]
    values = tl.load(part_ptr + part[:, None] * DIM + dims[None, :], live, 0.0)
    m = tl.maximum(tl.max(log2_sum, 0), LOWEST)
    weight = tl.exp2(log2_sum - m)
    norm = tl.sum(weight, 0)
    result = as_output(tl.sum(weight[:, None] * values, 0) / norm, out_ptr)
    tl.store(out_ptr + token * out_token + head.to(tl.int64) * out_head + dims * out_dim, result, dims < DIM)
    if lse_ptr is not None:  # a row before its sequence has LOWEST, and a value of 0
        lse = tl.where(m == LOWEST, float("-inf"), m + tl.log2(norm)) / LOG2_E
        tl.store(lse_ptr + token * num_heads + head, lse)


launch_prefill_merge = Launcher(prefill_merge_kernel)


def merge(part, part_lse, out, lse):
    """Fill `out` [tokens, heads, head_dim] and, if given, `lse` from float32 part [tokens, splits, heads, head_dim] and
    part_lse [tokens, splits, heads], in powers of two.
    """
    num_tokens, splits, num_heads, head_dim = part.shape
    launch_prefill_merge(
        out.get_device(),
        (num_heads, num_tokens, 1),
        (part, part_lse, out, lse),
        (splits,),
        out.stride(),
        (head_dim, power_of_2(head_dim), MOST_SPLITS),
        (out.dtype, lse is None),
        num_warps=4,
    )
