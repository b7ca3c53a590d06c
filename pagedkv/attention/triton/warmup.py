"""Compile ahead what calls on a given cache will run, so that no request waits for the compiler.

Lengths and batches need no variants of their own, but for the few settings that `launch` picks from them.
"""

import torch

from pagedkv.attention.options import Options
from pagedkv.attention.plan import AttentionPlan
from pagedkv.attention.triton.decode import decode
from pagedkv.attention.triton.launch import DecodeLaunch, multiprocessors, power_of_2
from pagedkv.attention.triton.plan import cut
from pagedkv.attention.triton.prefill import prefill
from pagedkv.attention.triton.settings import Settings, tiles
from pagedkv.attention.triton.write import write
from pagedkv.sizing import ceil_div
from pagedkv.tensors import is_fp8


def warmup(k_cache, v_cache, num_q_heads, *, dtype=None, softcap=None, sinks=False, return_lse=False, plans=False):
    """Run every variant of the kernels on sequences without tokens: nothing is read from the caches, and nothing
    written.

    k_cache, v_cache [num_blocks, block_size, num_kv_heads, head_dim], as the calls to come will hand them over.
    num_q_heads: the model's, a multiple of the KV heads. dtype: q's, the caches' own if left out (bfloat16 over FP8
    caches).
    softcap, return_lse: as in the calls to come; one number of softcap serves for all. sinks, plans: whether they give
    some.

    A call with other strides is compiled when it comes. Arguments are not checked.
    """
    num_kv_heads, head_dim = k_cache.shape[2:]
    dtype = dtype or (torch.bfloat16 if is_fp8(k_cache) else k_cache.dtype)
    device = k_cache.device
    sinks = torch.zeros(num_q_heads, device=device) if sinks else None
    programs = num_kv_heads * ceil_div(num_q_heads // num_kv_heads, 64)  # for one sequence; see `decode`
    wave = (
        multiprocessors(k_cache.get_device()) // programs + 1
    )  # sequences that put one on each multiprocessor, roughly
    # Few splits and many, with deep and with shallow loops; sequences that run all at once, and more than fit.
    for num_seqs, longest in ((1, 256), (1, 4096), (wave, 8192), (3 * wave, 256), (6 * wave, 256)):
        q = torch.zeros(num_seqs, num_q_heads, head_dim, dtype=dtype, device=device)
        lse = torch.empty(q.shape[:2], dtype=torch.float32, device=device) if return_lse else None
        tables = torch.zeros(num_seqs, longest, dtype=torch.int32, device=device)
        lengths = torch.zeros(num_seqs, dtype=torch.int32, device=device)
        options = Options(longest, scale=1.0, softcap=softcap, sinks=sinks)
        decode(q, k_cache, v_cache, tables, lengths, options, torch.empty_like(q), lse)
    if plans:
        row_bytes = max(16, power_of_2(head_dim)) * k_cache.element_size()
        q, tables, lengths = q[:1], tables[:1], lengths[:1]
        for tile, num_warps, *_ in tiles(row_bytes, k_cache.element_size(), num_q_heads // num_kv_heads):
            # The grid whole and in few and many splits, tables of few items and of many.
            launches = [(DecodeLaunch(tile, 3, tile, splits, num_warps),) for splits in (1, 2, 40)]
            launches += [cut(lengths, 1, 1, Settings(tile, num_warps, items, True)) for items in (1, 2, 40)]
            for launch in launches:
                planned = AttentionPlan((), None, None, *launch)
                decode(q, k_cache, v_cache, tables, lengths, options, torch.empty_like(q), lse, planned)
    for num_tokens, longest in ((1, 4096), (65, 16_384)):  # small tiles of rows, in splits, and large ones
        options = Options(longest, scale=1.0, softcap=softcap, sinks=sinks)
        q = torch.zeros(num_tokens, num_q_heads, head_dim, dtype=dtype, device=device)
        lse = torch.empty(q.shape[:2], dtype=torch.float32, device=device) if return_lse else None
        starts = torch.tensor([0, num_tokens], dtype=torch.int32, device=device)
        prefill(q, k_cache, v_cache, tables[:1], lengths[:1], starts, options, torch.empty_like(q), lse)
    new = torch.zeros(1, num_kv_heads, head_dim, dtype=dtype, device=device)
    write(new, new, k_cache, v_cache, torch.tensor([-1], device=device), k_scale=None, v_scale=None)
