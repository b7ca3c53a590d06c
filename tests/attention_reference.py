"""Paged batches with poison wherever nobody may look, and what attention over them must give, in float64 and one query
at a time.
"""

from dataclasses import dataclass, replace

import torch


@dataclass
class Batch:
    """One call's tensors, and the K and V of each sequence lying plainly in order."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    query_start_loc: torch.Tensor | None
    keys: list
    values: list

    def run(self, attend, **options):
        return attend(
            self.q,
            self.k_cache,
            self.v_cache,
            self.block_tables,
            self.seq_lens,
            query_start_loc=self.query_start_loc,
            **options,
        )

    def expected(self, **options):
        """out and lse in float64."""
        bounds = range(len(self.keys) + 1) if self.query_start_loc is None else self.query_start_loc.tolist()
        parts = [
            reference(self.q[first:end], k, v, **options)
            for first, end, k, v in zip(bounds, bounds[1:], self.keys, self.values, strict=False)
        ]
        return torch.cat([out for out, _ in parts]), torch.cat([lse for _, lse in parts])

    def to(self, device):
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, torch.Tensor)}
        return replace(
            self, **moved, keys=[k.to(device) for k in self.keys], values=[v.to(device) for v in self.values]
        )


def reference(q, k, v, scale=None, window=None, softcap=None, sinks=None):
    """The definition, in float64: q [queries, heads, dim] are the last tokens of the sequence that k, v [tokens,
    kv_heads, dim] hold. `sinks`: one more column of scores, whose values are 0.
    """
    q, k, v = q.double(), k.double(), v.double()
    out, lse = torch.zeros_like(q), torch.full(q.shape[:2], -torch.inf, dtype=torch.float64, device=q.device)
    group = q.shape[1] // k.shape[1]
    for i in range(len(q)):
        end = len(k) - len(q) + i + 1
        begin = 0 if window is None else max(0, end - window)
        if end <= begin:
            lse[i] = -torch.inf if sinks is None else sinks
            continue
        for head in range(q.shape[1]):
            scores = k[begin:end, head // group] @ q[i, head] * (q.shape[2] ** -0.5 if scale is None else scale)
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            values = v[begin:end, head // group]
            if sinks is not None:
                scores = torch.cat([scores, sinks[head, None]])
                values = torch.cat([values, torch.zeros_like(values[:1])])
            out[i, head] = torch.softmax(scores, 0) @ values
            lse[i, head] = torch.logsumexp(scores, 0)
    return out, lse


def random_batch(
    lengths,
    *,
    num_queries=None,
    block_size=16,
    heads=(4, 2),
    head_dim=16,
    dtype=torch.float64,
    seed=0,
    spread=1.0,
    poison=torch.nan,
):
    """A shuffled pool; every slot that holds no token, every foreign block is `poison`; the tables end in entries that
    no block has.

    num_queries: None for decode, else the number of queries of each sequence. heads: (query heads, KV heads).
    """
    generator = torch.Generator().manual_seed(seed)
    num_q_heads, num_kv_heads = heads
    blocks_of = [-(-length // block_size) for length in lengths]
    num_blocks = sum(blocks_of) + 3
    free = torch.randperm(num_blocks, generator=generator).tolist()
    tables = torch.full((len(lengths), max(blocks_of, default=0) + 2), -1, dtype=torch.int32)
    tables[:, -1] = 2**31 - 1
    k_cache = torch.full((num_blocks, block_size, num_kv_heads, head_dim), poison, dtype=torch.float64)
    v_cache, keys, values = k_cache.clone(), [], []
    for row, (length, count) in enumerate(zip(lengths, blocks_of, strict=True)):
        table = torch.tensor([free.pop() for _ in range(count)], dtype=torch.long)
        tables[row, :count] = table
        k, v = (
            spread * torch.randn(length, num_kv_heads, head_dim, generator=generator, dtype=torch.float64)
            for _ in range(2)
        )
        position = torch.arange(length)
        for cache, new in ((k_cache, k), (v_cache, v)):
            cache[table[position // block_size], position % block_size] = new
        keys.append(k.to(dtype))
        values.append(v.to(dtype))
    num_tokens = len(lengths) if num_queries is None else sum(num_queries)
    q = spread * torch.randn(num_tokens, num_q_heads, head_dim, generator=generator, dtype=torch.float64)
    start = None if num_queries is None else torch.tensor([0, *torch.tensor(num_queries).cumsum(0)], dtype=torch.int32)
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    return Batch(q.to(dtype), k_cache.to(dtype), v_cache.to(dtype), tables, seq_lens, start, keys, values)
