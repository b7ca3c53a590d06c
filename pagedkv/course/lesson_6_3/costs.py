"""What a preemption costs, by arithmetic: operations to compute K and V again, or bytes to copy them out and back.

Rates are published peaks: dense bf16 of the GPU, of which a prefill reaches about `EFFICIENCY`, and what a copy over
the link to the host reaches. Attention's own operations are left out: for a thousand tokens they are a few per cent.
"""

from typing import NamedTuple

from pagedkv.sizing import KVShape, ceil_div

EFFICIENCY = 0.5
PARAMETERS = {
    "opt-13b": 12.9e9,
    "llama-2-7b": 6.7e9,
    "llama-3-8b": 8.0e9,
    "llama-3-70b": 70.6e9,
    "qwen3-0.6b": 0.6e9,
}


class Gpu(NamedTuple):
    flops: float  # per second, dense bf16
    link: float  # bytes per second to the host, each way


GPUS = {"A100": Gpu(312e12, 25e9), "H200": Gpu(989e12, 50e9)}


def recompute_seconds(tokens: int, parameters: float, flops: float) -> float:
    """One prefill: a multiplication and an addition for each parameter and token."""
    return 2 * parameters * tokens / (EFFICIENCY * flops)


def swap_seconds(
    tokens: int, block_size: int, shape: KVShape, bandwidth: float, latency: float, gathered: bool
) -> float:
    """Out to the host and back. Blocks move whole; `latency` is paid for each copy.

    There is a copy for each block, layer, and K or V, or, gathered, one each way.
    """
    blocks = ceil_div(tokens, block_size)
    copies = 1 if gathered else blocks * shape.num_layers * 2
    return 2 * (copies * latency + blocks * shape.block_bytes(block_size) / bandwidth)
