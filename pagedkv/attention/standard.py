"""The attention that everything else here must equal: one softmax over all keys, on K and V that lie contiguously.

Nothing in it is paged, tiled or clever: the scores of a query with every key exist at once, [num_q_heads, num_queries, num_keys].
"""

import torch


def attention(q, k, v, causal=True, scale=None):
    """Return softmax(q kᵀ · scale) v, shaped like `q`.

    q [num_queries, num_q_heads, head_dim]; k, v [num_keys, num_kv_heads, head_dim], a KV head serving a run of query heads.
    The queries are the last tokens of the sequence, so with `causal` query i sees the keys 0 … num_keys - num_queries + i.
    A query that sees no key gets zeros. `scale` is 1/sqrt(head_dim) if left out.
    """
    num_queries, num_q_heads, head_dim = q.shape
    num_keys, num_kv_heads, _ = k.shape
    scale = head_dim**-0.5 if scale is None else scale
    k = k.repeat_interleave(num_q_heads // num_kv_heads, dim=1)  # [num_keys, num_q_heads, head_dim]
    v = v.repeat_interleave(num_q_heads // num_kv_heads, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q * scale, k)
    last_visible = torch.arange(num_queries, device=q.device) + num_keys - num_queries
    hidden = causal & (torch.arange(num_keys, device=q.device) > last_visible[:, None])  # [num_queries, num_keys]
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
    weights = weights.masked_fill(hidden, 0.0)  # a row that is hidden whole came out of the softmax as 0/0
    return torch.einsum("hqk,khd->qhd", weights, v)
