"""The paged kernels in use that FlashInfer reaches: its own FA2 and FA3 kernels, XQA (TensorRT-LLM's decode kernel) and
cuDNN's paged attention.

What FlashInfer plans is planned before the timing. A case that a kernel does not take raises Unsupported, and so does a
kernel that is not there: FlashInfer or cuDNN's front end not installed, or a module that was not compiled ahead on a
machine where FlashInfer may not compile.
"""

from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as F

from pagedkv.bench.data import Call, Data, Unsupported

WORKSPACE = 256 << 20  # bytes
CUDA_CORE_GROUPS = (1, 2, 3, 4, 8)  # query heads per KV head that the decode without tensor cores takes
XQA_BLOCKS = (16, 32, 64, 128)


def has_flashinfer() -> bool:
    return find_spec("flashinfer") is not None


def decode(tensor_cores: bool) -> Callable[[Data], Call]:
    """The paged decode of the FA2 kernels, planned over the real lengths."""

    def prepare(data: Data) -> Call:
        group = _decodes(data)
        if not tensor_cores and group not in CUDA_CORE_GROUPS:
            raise Unsupported("no kernel for this group size")
        return _planned_decode(data, backend="fa2", use_tensor_cores=tensor_cores)

    return prepare


def cudnn(data: Data) -> Call:
    """cuDNN's paged attention, its graph built over the block table as it stands."""
    _decodes(data)
    if data.case.cache not in ("bf16", "fp16"):
        raise Unsupported("bf16 and fp16 caches only")
    if find_spec("cudnn") is None:
        raise Unsupported("cuDNN's front end is not installed")
    call = _planned_decode(data, {"block_tables": _filled(data)}, backend="cudnn")
    call(0)  # builds the graph
    return call


def xqa(data: Data) -> Call:
    """XQA: the lengths stay on the GPU and nothing is planned. Over an FP8 cache it multiplies in FP8, and rounds the
    queries for it.
    """
    _decodes(data)
    case = data.case
    if case.block_size not in XQA_BLOCKS:
        raise Unsupported(f"blocks of {', '.join(map(str, XQA_BLOCKS))} only")
    attention = _flashinfer().decode.trtllm_batch_decode_with_kv_cache
    shared = {"workspace_buffer": _workspace(data), "block_tables": _filled(data), "seq_lens": data.seq_lens}
    shared |= {"max_seq_len": max(case.lengths), "bmm1_scale": case.head_dim**-0.5, "bmm2_scale": 1.0}

    def call(i: int) -> torch.Tensor:
        pools = (data.k_cache[i], data.v_cache[i])
        return attention(data.q[i], pools, **shared, kv_layout="NHD", backend="xqa")

    _compiled(lambda: call(0))
    return call


def prefill(backend: str) -> Callable[[Data], Call]:
    """The paged prefill, "fa2" or "fa3"."""

    def prepare(data: Data) -> Call:
        case = data.case
        if case.kind == "write" or case.is_decode:
            raise Unsupported("prefill only")
        wrapper = _flashinfer().BatchPrefillWithPagedKVCacheWrapper(_workspace(data), "NHD", backend=backend)
        heads = (case.q_heads, case.kv_heads, case.head_dim, case.block_size)
        _compiled(lambda: wrapper.plan(data.query_start_loc, *_pages(data), *heads, causal=True, **_dtypes(data)))
        return lambda i: wrapper.run(data.q[i], (data.k_cache[i], data.v_cache[i]))

    return prepare


def _planned_decode(data: Data, extra: dict | None = None, **options) -> Call:
    case = data.case
    wrapper = _flashinfer().BatchDecodeWithPagedKVCacheWrapper(_workspace(data), "NHD", **options)
    heads = (case.q_heads, case.kv_heads, case.head_dim, case.block_size)
    _compiled(lambda: wrapper.plan(*_pages(data), *heads, **_dtypes(data), **(extra or {})))
    return lambda i: wrapper.run(data.q[i], (data.k_cache[i], data.v_cache[i]))


def _decodes(data: Data) -> int:
    """The query heads per KV head of a decode."""
    if not data.case.is_decode:
        raise Unsupported("decode only")
    return data.case.q_heads // data.case.kv_heads


def _flashinfer():
    if not has_flashinfer():
        raise Unsupported("FlashInfer is not installed")
    import flashinfer

    return flashinfer


def _compiled(load: Callable) -> None:
    """`load()`, which needs a compiled module: where FlashInfer may not compile, one that is not there is left out."""
    from flashinfer.jit import MissingJITCacheError

    try:
        load()
    except MissingJITCacheError:
        raise Unsupported("not compiled ahead for this shape, and FLASHINFER_DISABLE_JIT is set") from None


def _pages(data: Data) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """FlashInfer's form of the block tables: where each row starts, the ids in a row, how full each last block is."""
    lengths, size = data.seq_lens, data.case.block_size
    pages = (lengths + size - 1) // size
    starts = F.pad(pages.cumsum(0), (1, 0)).int()
    return starts, data.block_tables[data.block_tables >= 0], lengths - (pages - 1) * size


def _filled(data: Data) -> torch.Tensor:
    """The block tables with a block that exists where they are padded."""
    return data.block_tables.clamp(min=0)


def _dtypes(data: Data) -> dict:
    return {"q_data_type": data.q[0].dtype, "kv_data_type": data.k_cache[0].dtype}


def _workspace(data: Data) -> torch.Tensor:
    return torch.zeros(WORKSPACE, dtype=torch.uint8, device=data.seq_lens.device)


FLASHINFER: dict[str, Callable[[Data], Call]] = {
    "FlashInfer, tensor cores": decode(True),
    "FlashInfer, CUDA cores": decode(False),
    "FlashInfer, XQA": xqa,
    "cuDNN, paged": cudnn,
    "FlashInfer, FA2": prefill("fa2"),
    "FlashInfer, FA3": prefill("fa3"),
}
ROUNDED = {"FlashInfer, XQA": 5e-2}  # its bound on ‖out - ref‖ / ‖ref‖ over an FP8 cache, where it multiplies in FP8
