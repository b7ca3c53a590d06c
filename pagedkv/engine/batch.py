"""A step as flat tensors: the tokens of all requests one after the other, and where each finds its past."""

from functools import cache as once
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pagedkv.attention.paged import paged_attention, plan_attention, write_kv
from pagedkv.device_tables import DeviceBlockTables
from pagedkv.engine.model import Attend
from pagedkv.engine.request import Step
from pagedkv.kv_cache import PagedKVCache


class Batch(NamedTuple):
    """The tokens of one step, flat, and what attention needs to tell them apart."""

    tokens: Tensor  # int64 [num_tokens]
    positions: Tensor  # int64 [num_tokens]
    slots: Tensor  # int64 [num_tokens]: where their K and V go
    last: Tensor | None  # int64 [num_ready]: the rows that give a token; None: all
    seq_lens: Tensor  # int32 [num_seqs], these tokens included
    query_start_loc: Tensor | None  # int32 [num_seqs + 1]; None: one token each
    block_tables: Tensor  # int32 [num_seqs, max_blocks]
    max_seq_len: int
    lengths: list[int] | None = None  # of seq_lens, or of others for which a decode may be shared out alike


def flatten(step: Step, tables: DeviceBlockTables) -> tuple:
    """A step as lists: of its tokens, which, at what positions, and in which slots; of its requests, their rows in the
    packed tables, and lengths; which tokens are followed by a new one. Then the tables, brought up to date.
    """
    ends = [request.table.num_tokens for request, _ in step.work]
    spans = [(request.tokens, end - n, end) for (request, n), end in zip(step.work, ends, strict=True)]
    tokens = [token for known, start, end in spans for token in known[start:end]]
    positions = [position for _, start, end in spans for position in range(start, end)]
    ready, counts = set(map(id, step.ready)), accumulate(n for _, n in step.work)
    last = [count - 1 for (request, _), count in zip(step.work, counts, strict=True) if id(request) in ready]
    rows, packed = tables.place({request.request_id: request.table for request, _ in step.work})
    return (tokens, positions, step.slots, rows, ends), last, packed


def pack(step: Step, tables: DeviceBlockTables, device="cpu") -> Batch:
    """The step's tensors on `device`, in one copy."""
    (*longs, seq_lens), last, packed = flatten(step, tables)
    starts = [] if len(step.slots) == len(seq_lens) else [0, *accumulate(n for _, n in step.work)]
    parts = [*longs, last, seq_lens, starts]
    numbers = torch.from_numpy(np.concatenate(parts, dtype=np.int64, casting="unsafe")).to(device)
    tokens, positions, slots, rows, last, lengths, starts = numbers.split([len(part) for part in parts])
    return Batch(
        tokens, positions, slots, last, lengths.int(), starts.int() if len(starts) else None,
        packed.index_select(0, rows), max(seq_lens), seq_lens,
    )  # fmt: skip


def paged(cache: PagedKVCache, batch: Batch, backend: str = "auto", window: int | None = None) -> Attend:
    """Attention over the paged cache: write the new K and V to their slots, then read each sequence by its table. How a
    decode step is shared out over a GPU is planned once, at the first layer.
    """

    @once
    def plan(num_q_heads):
        if batch.query_start_loc is not None:
            return None
        bounds = dict(max_seq_len=batch.max_seq_len, lengths=batch.lengths, window=window)
        return plan_attention(batch.seq_lens, cache.k[0], num_q_heads, **bounds, backend=backend)

    def attend(layer, q, k, v):
        write_kv(k, v, cache.k[layer], cache.v[layer], batch.slots, backend=backend)
        return paged_attention(
            q, cache.k[layer], cache.v[layer], batch.block_tables, batch.seq_lens,
            query_start_loc=batch.query_start_loc, max_seq_len=batch.max_seq_len, window=window,
            plan=plan(q.shape[1]), backend=backend,
        )  # fmt: skip

    return attend
