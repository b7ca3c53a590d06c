"""The two bills of a preemption on a GPU: K and V copied to the host and back, or computed again.

    python -m pagedkv.bench.preemption --out FILE

Each block's K and V of each layer in a copy of its own, as engines began; gathered on the GPU, one copy each way, into
pinned memory; and as `engine.swap` does it. Then one prefill of as many tokens by a model of random weights. All for
`TOKENS` tokens in shuffled blocks, in ms.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

from pagedkv.arguments import installed

if __name__ == "__main__":
    installed("torch")

import torch
from tqdm import tqdm

from pagedkv.bench.report import write
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.engine.model import Llama, ModelShape, dense
from pagedkv.engine.swap import HostPool
from pagedkv.files import writable
from pagedkv.kv_cache import PagedKVCache

TOKENS, BLOCK_SIZES, RUNS = 1024, (1, 4, 16, 64, 256), 5
SHAPES = {  # of OPT-13B the sizes that count here, in a decoder of Llama's form
    "opt-13b": ModelShape(50_272, 40, 5120, 13_648, 40, 40, 128),
    "llama-3-8b": ModelShape(128_256, 32, 4096, 14_336, 32, 8, 128),
    "qwen3-0.6b": ModelShape(151_936, 28, 1024, 3072, 16, 8, 128),
}


def measure(shape: ModelShape, device: str = "cuda") -> dict:
    """The record of one model: its parameters, and ms of each way."""
    with torch.device(device), torch.no_grad():
        model = Llama(shape, torch.bfloat16, device)
        tokens, positions = torch.randint(shape.vocab_size, (TOKENS,)), torch.arange(TOKENS)
        last = torch.tensor([TOKENS - 1])
        recompute = timed(lambda: model(tokens, positions, dense(), last))
        parameters = sum(weight.numel() for weight in model.parameters())
        model = None  # its memory is wanted
    swap = {size: copies(shape, size, device) for size in BLOCK_SIZES}
    return {"parameters": parameters, "recompute_ms": recompute, "swap_ms": swap}


def copies(shape: ModelShape, size: int, device: str = "cuda") -> dict[str, float]:
    """ms there and back: one copy for each block, layer, and K or V; gathered; by the engine's HostPool."""
    ways = ways_there_and_back(PagedKVCache(shape.kv_shape(2), TOKENS // size, size, device, torch.bfloat16))
    return {label: timed(way) for label, way in ways.items()}


def ways_there_and_back(cache: PagedKVCache) -> dict[str, Callable[[], None]]:
    """Calls that copy all of `cache` to the host and back, by what they are called in the record."""
    count, size, pinned = cache.num_blocks, cache.block_size, cache.device.type == "cuda"
    blocks = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    flat = [
        side[block]
        for layer in range(cache.shape.num_layers)
        for side in (cache.k[layer], cache.v[layer])
        for block in blocks
    ]
    host = torch.empty(len(flat), *flat[0].shape, dtype=cache.dtype, pin_memory=pinned)
    rows = list(host)

    def one_by_one():
        for there, here in (rows, flat), (flat, rows):
            for a, b in zip(there, here, strict=True):
                a.copy_(b, non_blocking=True)

    index = torch.tensor(blocks, device=cache.device)
    layers = [side[layer] for side in (cache.k, cache.v) for layer in range(cache.shape.num_layers)]
    staged = torch.empty(len(layers), *layers[0].shape, dtype=cache.dtype, device=cache.device)

    def gathered():
        for i, layer in enumerate(layers):
            torch.index_select(layer, 0, index, out=staged[i])
        host.view_as(staged).copy_(staged, non_blocking=True)
        staged.copy_(host.view_as(staged), non_blocking=True)
        for i, layer in enumerate(layers):
            layer[index] = staged[i]

    pool, park = BlockPool(count, size), HostPool(cache, count)
    table = BlockTable(pool)
    table.append(count * size)

    def engine():
        parked = park.park(table)
        park.bring_back(parked, table, 0)
        park.drop(parked)

    return {"one copy a block": one_by_one, "gathered": gathered, "engine": engine}


def timed(call: Callable[[], object]) -> float:
    """The median of a few calls in ms, each from an idle GPU to an idle GPU; the first warms up."""
    times, wait = [], torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(RUNS + 1):
        wait()
        start = time.perf_counter()
        call()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    return round(median(times[1:]), 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m pagedkv.bench.preemption", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=writable, required=True, help="the record, a JSON file")
    out = parser.parse_args().out
    if not torch.cuda.is_available():
        parser.error("it measures a GPU, and there is no CUDA device here")
    record = {
        "provenance": {
            "command": "python -m pagedkv.bench.preemption",
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name(),
            "tokens": TOKENS,
            "dtype": "bfloat16",
        },
        "models": {
            name: measure(shape) for name, shape in tqdm(SHAPES.items(), desc="Models", unit="model", disable=None)
        },
    }
    write(out, record)
