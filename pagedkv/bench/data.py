"""The tensors of one case, drawn afresh, and the float64 answer that every output is held against.

All copies share one block table and one set of lengths (so a peer plans once) and have queries and pools of their own:
a timing that walks over the copies reads more than the L2 cache holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch

from pagedkv.bench.cases import Case
from pagedkv.sizing import ceil_div

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn}
ROTATED = 4  # the copies together are this many times the L2 cache
MOST_COPIES = 64
CHECKED, CHECKED_FLOPS = 256, 3e11  # so many rows are held against float64 where a case computes more than that
WRONG = 1e-2  # an output further from float64 than this, ‖out - ref‖ / ‖ref‖, is not timed

Call = Callable[[int], torch.Tensor]  # what is timed: the answer on the copy of that number


class Unsupported(Exception):
    """This implementation does not serve this case; the message says why."""


@dataclass
class Data:
    """q [tokens, q_heads, head_dim] and pools [num_blocks, block_size, kv_heads, head_dim], one of each per copy; the
    rest is shared.
    """

    case: Case
    q: list[torch.Tensor]
    k_cache: list[torch.Tensor]
    v_cache: list[torch.Tensor]
    block_tables: torch.Tensor  # int32 [num_seqs, max_blocks], padding -1
    seq_lens: torch.Tensor  # int32 [num_seqs]
    query_start_loc: torch.Tensor | None  # int32 [num_seqs + 1], None for decode
    k: list[torch.Tensor]  # writes only: [tokens, kv_heads, head_dim]
    v: list[torch.Tensor]
    slots: torch.Tensor | None  # int64 [tokens]

    @property
    def copies(self) -> int:
        return len(self.k_cache)


def copies_for(case: Case, device: torch.device) -> int:
    """How many copies make a walk over them miss the L2 cache; one on a CPU."""
    if device.type != "cuda":
        return 1
    l2 = torch.cuda.get_device_properties(device).L2_cache_size
    return min(MOST_COPIES, max(2, ceil_div(ROTATED * l2, case.bytes)))


def make(
    case: Case, device: torch.device, copies: int | None = None, query: torch.dtype | None = None, spare: int = 3
) -> Data:
    """Random data for `case`: the blocks of each sequence lie in random order in a pool with `spare` blocks more than
    it needs.

    `query` is the dtype of q, k and v; without it they have the cache's, or bf16 over an FP8 cache.
    """
    copies = copies or copies_for(case, device)
    cache = DTYPES[case.cache]
    query = query or (torch.bfloat16 if case.cache == "fp8" else cache)
    needed = [ceil_div(length, case.block_size) for length in case.lengths]
    num_blocks = sum(needed) + spare
    order = torch.randperm(num_blocks, device=device, dtype=torch.int32)[: sum(needed)]
    tables = torch.full((len(needed), max(needed)), -1, dtype=torch.int32, device=device)
    for row, part in zip(tables, order.split(needed), strict=True):
        row[: len(part)] = part

    def random(*shape: int, dtype: torch.dtype) -> list[torch.Tensor]:
        return [torch.randn(shape, device=device, dtype=query).to(dtype) for _ in range(copies)]

    heads = (case.kv_heads, case.head_dim)
    tokens = sum(case.lengths)
    writes = case.kind == "write"
    starts = torch.tensor((0, *accumulate(case.new_tokens)), dtype=torch.int32, device=device)
    return Data(
        case,
        q=[] if writes else random(sum(case.new_tokens), case.q_heads, case.head_dim, dtype=query),
        k_cache=random(num_blocks, case.block_size, *heads, dtype=cache),
        v_cache=random(num_blocks, case.block_size, *heads, dtype=cache),
        block_tables=tables,
        seq_lens=torch.tensor(case.lengths, dtype=torch.int32, device=device),
        query_start_loc=None if case.is_decode or writes else starts,
        k=random(tokens, *heads, dtype=query) if writes else [],
        v=random(tokens, *heads, dtype=query) if writes else [],
        slots=torch.randperm(num_blocks * case.block_size, device=device)[:tokens] if writes else None,
    )


def contiguous(data: Data, copy: int, row: int, dtype: torch.dtype | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of one sequence in order, [length, kv_heads, head_dim]; gathered as bytes, since FP8 cannot be indexed
    everywhere.
    """
    length = data.case.lengths[row]
    blocks = data.block_tables[row, : ceil_div(length, data.case.block_size)].long()
    dtype = dtype or data.k_cache[copy].dtype
    pools = (data.k_cache[copy], data.v_cache[copy])
    return tuple(pool.view(torch.uint8)[blocks].view(pool.dtype).flatten(0, 1)[:length].to(dtype) for pool in pools)


def checked_rows(case: Case) -> list[range]:
    """The queries of each sequence that are held against float64: all where that is quick, else some, spread over all,
    the last one among them.
    """
    wanted = max(1, CHECKED // len(case.lengths)) if case.flops > CHECKED_FLOPS else max(case.new_tokens)
    return [range(new - 1, -1, -ceil_div(new, wanted))[::-1] for new in case.new_tokens]


def checked(out: torch.Tensor, case: Case) -> torch.Tensor:
    """Those rows of an output."""
    starts = accumulate(case.new_tokens[:-1], initial=0)
    return out[[start + query for start, rows in zip(starts, checked_rows(case), strict=True) for query in rows]]


def reference(data: Data, copy: int) -> torch.Tensor:
    """Attention in float64 of the checked rows, one sequence after the other: [rows, q_heads, head_dim]."""
    case, expected = data.case, []
    queries = checked(data.q[copy], case).double().unflatten(1, (case.kv_heads, -1))  # [rows, H, G, D]
    sizes = [len(rows) for rows in checked_rows(case)]
    shapes = zip(queries.split(sizes), checked_rows(case), case.new_tokens, case.lengths, strict=True)
    for row, (q, rows, new, length) in enumerate(shapes):
        k, v = contiguous(data, copy, row, torch.float64)  # [L, H, D]
        scores = torch.einsum("nhgd,lhd->hgnl", q, k) / case.head_dim**0.5
        seen = torch.tensor([length - new + query for query in rows], device=k.device)  # up to this position
        hidden = torch.arange(length, device=k.device) > seen[:, None]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        expected.append(torch.einsum("hgnl,lhd->nhgd", weights, v).flatten(1, 2))
    return torch.cat(expected)


def error(out: torch.Tensor, expected: torch.Tensor) -> float:
    """‖out - expected‖ / ‖expected‖; inf where the output is not finite."""
    if not torch.isfinite(out).all():
        return float("inf")
    return ((out.double() - expected).norm() / expected.norm()).item()
