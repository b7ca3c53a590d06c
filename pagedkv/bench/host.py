"""What the parts cost the host, as ratios of two things timed in turn in one run: nothing here fails, it is printed and
recorded.

Each entry of `PAIRS` maps a name to a function that makes the two calls to compare, with all that they work on.
"""

from collections.abc import Callable
from time import perf_counter

import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.attention.paged import paged_attention
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.device_tables import DeviceBlockTables, pack_block_tables
from pagedkv.simulation.policies import Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests

Pair = tuple[Callable[[], object], Callable[[], object]]


def ratios(rounds: int = 30) -> dict[str, float]:
    """Name -> the fastest of `rounds` calls of one over the fastest of the other: whatever else the machine does only
    adds time.
    """
    found = {}
    for name, make in PAIRS.items():
        best = [float("inf")] * 2
        calls = make()
        for _ in range(rounds):
            for i, call in enumerate(calls):
                start = perf_counter()
                call()
                best[i] = min(best[i], perf_counter() - start)
        found[name] = best[0] / best[1]
    return found


def _decode() -> Pair:
    """16 sequences of 1,024 tokens, 8 query heads on 2 KV heads of 64, in float32."""
    g = torch.Generator().manual_seed(0)
    k, v = (torch.randn(16, 2, 1024, 64, generator=g) for _ in range(2))
    q = torch.randn(16, 8, 64, generator=g)
    blocks = torch.randperm(16 * 64, generator=g)
    tables, lengths = blocks.view(16, 64).int(), torch.full((16,), 1024, dtype=torch.int32)
    caches = [
        torch.empty(16 * 64, 16, 2, 64).index_copy_(0, blocks, x.transpose(1, 2).reshape(-1, 16, 2, 64)) for x in (k, v)
    ]
    return (
        lambda: paged_attention(q, *caches, tables, lengths, backend="torch"),
        lambda: scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True),
    )


def _small_decode() -> Pair:
    """One sequence of 20 tokens, 4 query heads on 2 KV heads of 32, in float32: what a call costs, however small."""
    q, k, v = (torch.randn(heads, length, 32) for heads, length in ((4, 1), (2, 20), (2, 20)))
    caches = [torch.randn(2, 16, 2, 32) for _ in range(2)]
    tables, lengths = torch.tensor([[0, 1]], dtype=torch.int32), torch.tensor([20], dtype=torch.int32)
    return (
        lambda: paged_attention(q.view(1, 4, 32), *caches, tables, lengths, backend="torch"),
        lambda: scaled_dot_product_attention(q[None], k[None], v[None], enable_gqa=True),
    )


def _tables() -> Pair:
    """256 sequences of 512 blocks, one token more for each: what changed is sent, or all is packed."""
    pool = BlockPool(256 * 600)
    tables = [BlockTable(pool) for _ in range(256)]
    for i, table in enumerate(tables):
        table.append(511 * 16 + i % 16)
    rows, mirror = dict(enumerate(tables)), DeviceBlockTables(256, 600)
    mirror.update(rows)
    return lambda: ([table.append(1) for table in tables], mirror.update(rows)), lambda: pack_block_tables(tables)


def _simulator() -> Pair:
    """From event to event, or by single steps."""

    class StepByStep(Paged):
        def grow_all(self, steps):
            return super().grow_all(min(steps, 1))

    requests = sample_requests("paper-sharegpt", 1000)
    return lambda: simulate(requests, Paged(983), 15_728), lambda: simulate(requests, StepByStep(983), 15_728)


PAIRS: dict[str, Callable[[], Pair]] = {
    "paged decode over contiguous attention, CPU": _decode,
    "a small paged decode over contiguous attention, CPU": _small_decode,
    "sending what changed over packing all tables": _tables,
    "simulating by events over single steps": _simulator,
}
