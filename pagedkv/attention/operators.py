"""The calls as PyTorch operators, `pagedkv::paged_attention` and `pagedkv::write_kv`, so that torch.compile keeps them
whole in its graph.

An operator costs tens of microseconds per call, so an eager call does not go through here.
"""

import torch
from torch import Tensor

from pagedkv.attention import dispatch
from pagedkv.attention.options import Options


@torch.library.custom_op("pagedkv::paged_attention", mutates_args=())
def paged_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, seq_lens: Tensor, query_start_loc: Tensor | None,
    max_seq_len: int | None, scale: float | None, window: int | None, softcap: float | None,
    k_scale: float | None, v_scale: float | None, sinks: Tensor | None, return_lse: bool, backend: str, validate: bool,
) -> list[Tensor]:  # fmt: skip
    """[out], or [out, lse] with `return_lse`.

    The options stand one by one, in the order of `Options`: a schema is flat.
    """
    options = Options(max_seq_len, scale, window, softcap, k_scale, v_scale, sinks)
    results = dispatch.attend(
        q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, options, None, return_lse, None, backend, validate
    )
    return list(results) if return_lse else [results[0]]


@paged_attention.register_fake
def _(
    q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, max_seq_len, scale, window, softcap, k_scale, v_scale,
    sinks, return_lse, backend, validate,
):  # fmt: skip
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return [out, torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)] if return_lse else [out]


@torch.library.custom_op("pagedkv::write_kv", mutates_args=("k_cache", "v_cache"))
def write_kv(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    k_scale: float | None,
    v_scale: float | None,
    backend: str,
) -> None:
    """See `pagedkv.attention.paged.write_kv`."""
    dispatch.store(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale, backend)


@write_kv.register_fake
def _(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale, backend):
    return None
