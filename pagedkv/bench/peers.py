"""Everything that answers a case: our kernels through the front door, contiguous attention, and the paged kernels in
use that `flashinfer_peers` reaches.

Each entry of a table maps a name to `prepare(data)`, which plans and copies whatever may be prepared outside the timing
and returns `call(copy) -> output`. A peer that cannot serve a case raises Unsupported with the reason.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from pagedkv.attention.paged import paged_attention, plan_attention, write_kv
from pagedkv.bench.data import Call, Data, Unsupported, contiguous
from pagedkv.bench.flashinfer_peers import FLASHINFER
from pagedkv.bench.timing import captured, measure_in_turns


def ours(backend: str) -> Callable[[Data], Call]:
    """The front door with that backend."""

    def prepare(data: Data) -> Call:
        if data.case.kind == "write":
            return lambda i: write_kv(
                data.k[i], data.v[i], data.k_cache[i], data.v_cache[i], data.slots, backend=backend
            )
        longest = max(data.case.lengths)

        def call(i: int) -> torch.Tensor:
            cache = (data.k_cache[i], data.v_cache[i], data.block_tables, data.seq_lens)
            return paged_attention(
                data.q[i], *cache, query_start_loc=data.query_start_loc, max_seq_len=longest, backend=backend
            )

        return call

    return prepare


def planned(known: bool) -> Callable[[Data], Call]:
    """The front door with a plan, made before the timing: from the lengths on the host, or from those on the GPU."""

    def prepare(data: Data) -> Call:
        case = data.case
        if not case.is_decode:
            raise Unsupported("decode only")
        plan = plan_attention(
            data.seq_lens,
            data.k_cache[0],
            case.q_heads,
            max_seq_len=max(case.lengths),
            lengths=case.lengths if known else None,
        )

        def call(i: int) -> torch.Tensor:
            cache = (data.k_cache[i], data.v_cache[i], data.block_tables, data.seq_lens)
            return paged_attention(data.q[i], *cache, plan=plan)

        return call

    return prepare


def sdpa(data: Data) -> Call:
    """PyTorch's attention on contiguous K and V of the same values: the fastest of its backends, and of two ways to lay
    out a KV group.
    """
    case = data.case
    if case.kind == "write" or not case.equal_lengths or len(set(case.new_tokens)) > 1 or case.cache == "fp8":
        raise Unsupported("contiguous attention takes equal lengths and no FP8")
    heads, group, n = case.kv_heads, case.q_heads // case.kv_heads, case.new_tokens[0]
    device = data.k_cache[0].device
    k, v = [], []
    for copy in range(data.copies):
        rows = [contiguous(data, copy, row) for row in range(len(case.lengths))]
        k.append(torch.stack([row[0] for row in rows]).transpose(1, 2).contiguous())  # [B, H, L, D]
        v.append(torch.stack([row[1] for row in rows]).transpose(1, 2).contiguous())

    def packed(i: int) -> torch.Tensor:  # decode: the query heads of a group stand as rows over their one KV head
        return F.scaled_dot_product_attention(data.q[i].unflatten(1, (heads, group)), k[i], v[i]).flatten(1, 2)

    mask = None
    if n > 1:
        from torch.nn.attention.bias import (
            causal_lower_right,
        )  # imports Triton, which elsewhere has to wait for its interpreter

        mask = causal_lower_right(n, case.lengths[0])

    def grouped(i: int) -> torch.Tensor:
        q = data.q[i].unflatten(0, (-1, n)).transpose(1, 2)  # [B, Hq, n, D]
        return (
            F.scaled_dot_product_attention(q, k[i], v[i], attn_mask=mask, enable_gqa=group > 1)
            .transpose(1, 2)
            .flatten(0, 1)
        )

    def under(form: Call, kind: SDPBackend) -> Call:
        def call(i: int) -> torch.Tensor:
            with sdpa_kernel(kind):
                return form(i)

        return call

    if device.type != "cuda":
        return grouped
    calls = {}
    for form in (packed, grouped) if n == 1 else (grouped,):
        for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
            call = under(form, kind)
            # A backend that does not take these shapes warns at length and raises.
            with warnings.catch_warnings(action="ignore"), suppress(RuntimeError):
                captured(call, data.copies)
                calls[len(calls)] = call
    if not calls:
        raise Unsupported("no backend of PyTorch's attention takes these shapes")
    timings = measure_in_turns(calls, data.copies, device, 1)
    return calls[min(calls, key=lambda number: timings[number].us)]


def index_put(data: Data) -> Call:
    """PyTorch's own scatter, for the writes."""
    if data.case.kind != "write":
        raise Unsupported("writes only")

    def call(i: int) -> None:
        data.k_cache[i].flatten(0, 1).index_copy_(0, data.slots, data.k[i])
        data.v_cache[i].flatten(0, 1).index_copy_(0, data.slots, data.v[i])

    return call


PEERS: dict[str, Callable[[Data], Call]] = {
    "SDPA, contiguous": sdpa,
    "index_copy_": index_put,
    **FLASHINFER,
}
