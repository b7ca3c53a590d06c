"""Everything that answers a case: our kernels through the front door, contiguous attention, and FlashInfer where it is
installed.

Each entry of a table maps a name to `prepare(data)`, which plans and copies whatever may be prepared outside the timing
and returns `call(copy) -> output`. A peer that cannot serve a case raises Unsupported with the reason.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from pagedkv.attention.paged import paged_attention, plan_attention, write_kv
from pagedkv.bench.data import Data, contiguous
from pagedkv.bench.timing import measure

Call = Callable[[int], torch.Tensor]
FLASHINFER_WORKSPACE = 256 << 20  # bytes
CUDA_CORE_GROUPS = (1, 2, 3, 4, 8)  # query heads per KV head that FlashInfer's decode without tensor cores takes


class Unsupported(Exception):
    """This implementation does not serve this case; the message says why."""


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
    if case.kind == "write" or not case.equal_lengths or case.cache == "fp8":
        raise Unsupported("contiguous attention takes equal lengths and no FP8")
    heads, group, n = case.kv_heads, case.q_heads // case.kv_heads, case.queries
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
    timed = []
    for form in (packed, grouped) if n == 1 else (grouped,):
        for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
            call = under(form, kind)
            # A backend that does not take these shapes warns at length and raises.
            with warnings.catch_warnings(action="ignore"), suppress(RuntimeError):
                timed.append((measure(call, data.copies, device, 1, host=False).us, len(timed), call))
    if not timed:
        raise Unsupported("no backend of PyTorch's attention takes these shapes")
    return min(timed)[2]


def flashinfer_decode(tensor_cores: bool) -> Callable[[Data], Call]:
    """FlashInfer's paged decode with its FA2 kernels, planned over the real lengths before the timing."""

    def prepare(data: Data) -> Call:
        case = data.case
        if not case.is_decode:
            raise Unsupported("decode only")
        if not tensor_cores and case.q_heads // case.kv_heads not in CUDA_CORE_GROUPS:
            raise Unsupported("no kernel for this group size")
        wrapper = _flashinfer().BatchDecodeWithPagedKVCacheWrapper(
            _workspace(data), "NHD", use_tensor_cores=tensor_cores, backend="fa2"
        )
        wrapper.plan(*_pages(data), case.q_heads, case.kv_heads, case.head_dim, case.block_size, **_dtypes(data))
        return lambda i: wrapper.run(data.q[i], (data.k_cache[i], data.v_cache[i]))

    return prepare


def flashinfer_prefill(backend: str) -> Callable[[Data], Call]:
    """FlashInfer's paged prefill, "fa2" or "fa3"."""

    def prepare(data: Data) -> Call:
        case = data.case
        if case.kind == "write" or case.is_decode:
            raise Unsupported("prefill only")
        wrapper = _flashinfer().BatchPrefillWithPagedKVCacheWrapper(_workspace(data), "NHD", backend=backend)
        heads = (case.q_heads, case.kv_heads, case.head_dim, case.block_size)
        wrapper.plan(data.query_start_loc, *_pages(data), *heads, causal=True, **_dtypes(data))
        return lambda i: wrapper.run(data.q[i], (data.k_cache[i], data.v_cache[i]))

    return prepare


def index_put(data: Data) -> Call:
    """PyTorch's own scatter, for the writes."""
    if data.case.kind != "write":
        raise Unsupported("writes only")

    def call(i: int) -> None:
        data.k_cache[i].flatten(0, 1).index_copy_(0, data.slots, data.k[i])
        data.v_cache[i].flatten(0, 1).index_copy_(0, data.slots, data.v[i])

    return call


def has_flashinfer() -> bool:
    return find_spec("flashinfer") is not None


def _flashinfer():
    if not has_flashinfer():
        raise Unsupported("FlashInfer is not installed")
    import flashinfer

    return flashinfer


def _pages(data: Data) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """FlashInfer's form of the block tables: where each row starts, the ids in a row, how full each last block is."""
    lengths, size = data.seq_lens, data.case.block_size
    pages = (lengths + size - 1) // size
    starts = F.pad(pages.cumsum(0), (1, 0)).int()
    return starts, data.block_tables[data.block_tables >= 0], lengths - (pages - 1) * size


def _dtypes(data: Data) -> dict:
    return {"q_data_type": data.q[0].dtype, "kv_data_type": data.k_cache[0].dtype}


def _workspace(data: Data) -> torch.Tensor:
    return torch.empty(FLASHINFER_WORKSPACE, dtype=torch.uint8, device=data.seq_lens.device)


PEERS: dict[str, Callable[[Data], Call]] = {
    "SDPA, contiguous": sdpa,
    "FlashInfer, tensor cores": flashinfer_decode(True),
    "FlashInfer, CUDA cores": flashinfer_decode(False),
    "FlashInfer, FA2": flashinfer_prefill("fa2"),
    "FlashInfer, FA3": flashinfer_prefill("fa3"),
    "index_copy_": index_put,
}
