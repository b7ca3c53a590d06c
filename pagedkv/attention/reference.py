"""The attention that everything else here must equal, in plain PyTorch: in one piece, and block by block as the lesson
writes it.

`attention` is nothing but one softmax: the scores of a query with every key exist at once, [num_q_heads, num_queries,
num_keys].
`blockwise_attention` looks up one physical block at a time, reads its valid slots where they lie, and hands scores and
values to the online softmax.
"""

import torch

from pagedkv.arguments import finite_number, flag, listed, whole_number
from pagedkv.attention.online_softmax import SoftmaxState
from pagedkv.sizing import ceil_div
from pagedkv.tensors import without_autocast


@without_autocast
def attention(q, k, v, causal=True, scale=None):
    """Return softmax(q kᵀ · scale) v, shaped like `q`.

    q [num_queries, num_q_heads, head_dim]; k, v [num_keys, num_kv_heads, head_dim], a KV head serving a run of query
    heads.
    The queries are the last tokens of the sequence, so with `causal` query i sees the keys 0 … num_keys - num_queries +
    i.
    A query that sees no key gets zeros. `scale` is 1/sqrt(head_dim) if left out.
    """
    _check(q, {"k": k, "v": v}, 3)
    num_queries, num_q_heads, head_dim = q.shape
    num_keys, num_kv_heads, _ = k.shape
    scale = head_dim**-0.5 if scale is None else finite_number("scale", scale)
    k = k.repeat_interleave(num_q_heads // num_kv_heads, dim=1)  # [num_keys, num_q_heads, head_dim]
    v = v.repeat_interleave(num_q_heads // num_kv_heads, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q * scale, k)
    last_visible = torch.arange(num_queries, device=q.device) + num_keys - num_queries
    behind = torch.arange(num_keys, device=q.device) > last_visible[:, None]  # [num_queries, num_keys]
    hidden = behind & flag("causal", causal)
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
    weights = weights.masked_fill(hidden, 0.0)  # a row that is hidden whole came out of the softmax as 0/0
    return torch.einsum("hqk,khd->qhd", weights, v)


@without_autocast
def blockwise_attention(q, k_cache, v_cache, block_table, seq_len, scale=None):
    """Return the causal attention of the last `len(q)` tokens of one sequence, shaped like `q`.

    q [num_queries, num_q_heads, head_dim]; k_cache, v_cache [num_blocks, block_size, num_kv_heads, head_dim];
    block_table: physical block ids in logical order, of which the first ceil(seq_len / block_size) are read.
    """
    _check(q, {"k_cache": k_cache, "v_cache": v_cache}, 4)
    num_queries, num_q_heads, head_dim = q.shape
    block_size, num_kv_heads = k_cache.shape[1:3]
    group = num_q_heads // num_kv_heads
    scale = head_dim**-0.5 if scale is None else finite_number("scale", scale)
    block_table = listed("block_table", block_table, "block ids")
    seq_len = whole_number("seq_len", seq_len, 0, len(block_table) * block_size)
    for block in block_table[: ceil_div(seq_len, block_size)]:
        whole_number("block_table", block, 0, len(k_cache) - 1)
    queries = (q * scale).reshape(num_queries, num_kv_heads, group, head_dim)
    queries = queries.permute(1, 2, 0, 3)  # [num_kv_heads, group, num_queries, head_dim]
    query_positions = torch.arange(seq_len - num_queries, seq_len, device=q.device)

    state = SoftmaxState()
    for first in range(0, seq_len, block_size):
        block = int(block_table[first // block_size])
        valid = min(block_size, seq_len - first)  # slots past seq_len are not read at all
        k = k_cache[block, :valid].permute(1, 2, 0)  # [num_kv_heads, head_dim, valid]
        v = v_cache[block, :valid].transpose(0, 1)  # [num_kv_heads, valid, head_dim]
        scores = queries @ k.unsqueeze(1)  # [num_kv_heads, group, num_queries, valid]
        positions = torch.arange(first, first + valid, device=q.device)
        scores = scores.masked_fill(positions > query_positions[:, None], float("-inf"))
        state.update(scores, v.unsqueeze(1))
    out = (
        state.output().to(q.dtype).expand(num_kv_heads, group, num_queries, head_dim)
    )  # 0-dimensional where there was no block
    return out.permute(2, 0, 1, 3).reshape(q.shape)


def _check(q, caches, rank):
    """Raise TypeError or ValueError where q and the keys and values, of `rank` dimensions, do not fit together."""
    for name, tensor, dimensions in (("q", q, 3), *((name, tensor, rank) for name, tensor in caches.items())):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a tensor of {dimensions} dimensions, not {type(tensor).__name__}")
        if tensor.dim() != dimensions:
            raise ValueError(f"{name} must have {dimensions} dimensions, not the shape {list(tensor.shape)}")
        if (tensor.dtype, tensor.device) != (q.dtype, q.device):
            raise TypeError(f"{name} must be {q.dtype} on {q.device} as q is, not {tensor.dtype} on {tensor.device}")
    (first, k), (second, v) = caches.items()
    if k.shape != v.shape:
        raise ValueError(f"{second} must have the shape of {first}, {list(k.shape)}, not {list(v.shape)}")
    if q.shape[2] != k.shape[-1] or not k.shape[-2] or q.shape[1] % k.shape[-2]:
        raise ValueError(
            f"q must have {first}'s head_dim, {k.shape[-1]}, and a multiple of its {k.shape[-2]} heads, not "
            f"{q.shape[1]} heads of {q.shape[2]}"
        )
