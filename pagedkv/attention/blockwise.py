"""Attention that reads K and V block by block through the block table, as the lesson writes it: plain PyTorch, one sequence, one loop.

Every step looks up one physical block, reads its valid slots where they lie, and hands scores and values to the online softmax.
"""

import torch

from pagedkv.attention.online_softmax import SoftmaxState


def blockwise_attention(q, k_cache, v_cache, block_table, seq_len, scale=None):
    """Return the causal attention of the last `len(q)` tokens of one sequence, shaped like `q`.

    q [num_queries, num_q_heads, head_dim]; k_cache, v_cache [num_blocks, block_size, num_kv_heads, head_dim];
    block_table: physical block ids in logical order, of which the first ceil(seq_len / block_size) are read.
    """
    num_queries, num_q_heads, head_dim = q.shape
    block_size, num_kv_heads = k_cache.shape[1:3]
    group = num_q_heads // num_kv_heads
    scale = head_dim**-0.5 if scale is None else scale
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
    out = state.output().to(q.dtype).expand(num_kv_heads, group, num_queries, head_dim)  # 0-dimensional where there was no block
    return out.permute(2, 0, 1, 3).reshape(q.shape)
