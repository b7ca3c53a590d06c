"""Numerical errors by dtype: the paged kernel and contiguous attention, each against float64 on the values that the cache really holds."""

import torch

from pagedkv.bench.cases import even
from pagedkv.bench.data import contiguous, error, make, reference
from pagedkv.bench.peers import ours

DTYPES = ("fp32", "fp16", "bf16", "fp8")


def accuracy(device: torch.device, batch: int = 4, length: int = 4096) -> list[dict]:
    """‖out - float64‖ / ‖float64‖ for a decode of `batch` × `length` tokens, 32/8 heads of 128; an FP8 cache is read with bf16 queries."""
    backend = "triton" if device.type == "cuda" else "torch"
    rows = []
    for dtype in DTYPES:
        data = make(even(dtype, batch, length, cache=dtype), device, copies=1)
        expected = reference(data, 0)
        rows.append({"dtype": dtype, "pagedkv": error(ours(backend)(data)(0), expected), "contiguous": error(_contiguous(data), expected)})
    return rows


def _contiguous(data) -> torch.Tensor:
    """The same attention with K and V in order and in the query's dtype."""
    dtype = data.q[0].dtype
    case = data.case
    outputs = []
    for row in range(len(case.lengths)):
        k, v = (x.transpose(0, 1)[None] for x in contiguous(data, 0, row, dtype))  # [1, H, L, D]
        q = data.q[0][row].unflatten(0, (case.kv_heads, -1))[None]  # [1, H, G, D]
        outputs.append(torch.nn.functional.scaled_dot_product_attention(q, k, v).flatten(1, 2))
    return torch.cat(outputs)
