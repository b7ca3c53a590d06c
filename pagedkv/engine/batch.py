"""A step as flat tensors: the tokens of all requests one after the other, and where each finds its past."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pagedkv.attention.paged import paged_attention, write_kv
from pagedkv.device_tables import DeviceBlockTables
from pagedkv.engine.model import Attend
from pagedkv.engine.request import Generation, Step
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


class Rows:
    """A row of the packed tables for each request, the same from step to step, so that little of them travels."""

    def __init__(self, max_running: int):
        self._free = list(range(max_running - 1, -1, -1))
        self._row: dict[int, int] = {}  # by request id

    def of(self, requests: Sequence[Generation]) -> list[int]:
        here = {request.request_id for request in requests}
        for request_id in [request_id for request_id in self._row if request_id not in here]:
            self._free.append(self._row.pop(request_id))
        if len(here) > len(self._row) + len(self._free):
            raise ValueError(f"a step has {len(here)} requests, more than the runner's max_running")
        for request_id in here - self._row.keys():
            self._row[request_id] = self._free.pop()
        return [self._row[request.request_id] for request in requests]


def flatten(step: Step, rows: Rows, tables: DeviceBlockTables) -> tuple:
    """A step as lists: of its tokens, which and at what positions; of its requests, their rows, lengths, and where they
    end; which tokens are followed by a new one. Then the packed tables, brought up to date: requests keep their row.
    """
    tokens, positions, seq_lens = [], [], []
    for request, n in step.work:
        stored = request.table.num_tokens
        tokens += request.tokens[stored - n : stored]
        positions += range(stored - n, stored)
        seq_lens.append(stored)
    ends = list(accumulate(n for _, n in step.work))
    ready = set(map(id, step.ready))
    last = [end - 1 for (request, _), end in zip(step.work, ends, strict=True) if id(request) in ready]
    requests = [request for request, _ in step.work]
    row_of = rows.of(requests)
    packed = tables.update({row: request.table for row, request in zip(row_of, requests, strict=True)})
    return tokens, positions, row_of, seq_lens, ends, last, packed


def pack(step: Step, rows: Rows, tables: DeviceBlockTables, device="cpu") -> Batch:
    """The step's tensors on `device`."""
    tokens, positions, row_of, seq_lens, ends, last, packed = flatten(step, rows, tables)
    longs = [tokens, positions, step.slots, last, row_of]
    ints = torch.from_numpy(np.array([*seq_lens, 0, *ends], np.int32)).to(device)
    numbers = torch.from_numpy(np.concatenate(longs, dtype=np.int64, casting="unsafe")).to(device)
    tokens, positions, slots, last, row_of = numbers.split([len(part) for part in longs])
    starts = None if len(slots) == len(seq_lens) else ints[len(seq_lens) :]
    blocks = packed.index_select(0, row_of)
    return Batch(tokens, positions, slots, last, ints[: len(seq_lens)], starts, blocks, max(seq_lens))


def paged(cache: PagedKVCache, batch: Batch, backend: str = "auto", window: int | None = None) -> Attend:
    """Attention over the paged cache: write the new K and V to their slots, then read each sequence by its table."""

    def attend(layer, q, k, v):
        write_kv(k, v, cache.k[layer], cache.v[layer], batch.slots, backend=backend)
        return paged_attention(
            q, cache.k[layer], cache.v[layer], batch.block_tables, batch.seq_lens,
            query_start_loc=batch.query_start_loc, max_seq_len=batch.max_seq_len, window=window,
            backend=backend,
        )  # fmt: skip

    return attend
