"""From a step to its tokens: a model, its paged cache, and the packed tables that its kernels read."""

import torch

from pagedkv.arguments import whole_number
from pagedkv.device_tables import DeviceBlockTables
from pagedkv.engine.batch import Batch, Rows, pack, paged
from pagedkv.engine.request import Step
from pagedkv.engine.sampler import sample
from pagedkv.kv_cache import PagedKVCache
from pagedkv.sizing import BLOCK_SIZE


class Runner:
    """Runs a Step on `model` and gives one token for each of step.ready.

    The cache has the model's dtype. On a GPU, steps of one token a request are replayed from CUDA graphs, one for each
    power of two of requests: rows that pad a batch up to it write nowhere and read nothing. `cuda_graphs=False` turns
    that off.
    """

    def __init__(
        self, model, num_blocks: int, block_size: int = BLOCK_SIZE, *, max_running: int = 64,
        max_blocks: int | None = None, device="cpu", backend: str = "auto", cuda_graphs: bool = True,
    ):  # fmt: skip
        self.model, self.backend, self.device = model, backend, torch.device(device)
        self.max_running = whole_number("max_running", max_running, 1)
        self.max_blocks = num_blocks if max_blocks is None else whole_number("max_blocks", max_blocks, 1)
        shape = model.shape.kv_shape(model.dtype.itemsize)
        self.cache = PagedKVCache(shape, num_blocks, block_size, device, model.dtype)
        self.tables, self.rows = DeviceBlockTables(max_running, self.max_blocks, device), Rows(max_running)
        self.graphs: dict[int, _Graph] | None = {} if cuda_graphs and self.device.type == "cuda" else None

    @torch.no_grad()
    def __call__(self, step: Step) -> list[int]:
        self.cache.copy_blocks(step.copies)
        batch = pack(step, self.rows, self.tables, self.device)
        if self.graphs is None or batch.query_start_loc is not None:
            logits = self.logits(batch)
        else:
            logits = self._replay(batch)
        return sample(logits, step.ready)

    def logits(self, batch: Batch) -> torch.Tensor:
        """[len(batch.last), vocab_size]"""
        return self.model(batch.tokens, batch.positions, paged(self.cache, batch, self.backend), batch.last)

    def _replay(self, batch: Batch) -> torch.Tensor:
        size = 1 << (len(batch.tokens) - 1).bit_length()
        if size not in self.graphs:
            self.graphs[size] = _Graph(self, size)
        return self.graphs[size].replay(batch)


class _Graph:
    """Decode of `size` requests, captured once for any lengths up to the longest table."""

    def __init__(self, runner: Runner, size: int):
        def numbers(value, dtype, *more):
            return torch.full((size, *more), value, dtype=dtype, device=runner.device)

        zeros = numbers(0, torch.int64)
        self.batch = Batch(
            zeros, zeros.clone(), numbers(-1, torch.int64), torch.arange(size, device=runner.device),
            numbers(0, torch.int32), None, numbers(-1, torch.int32, runner.max_blocks),
            runner.max_blocks * runner.cache.block_size,
        )  # fmt: skip
        runner.logits(self.batch)  # kernels are compiled before the capture
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = runner.logits(self.batch)

    def replay(self, batch: Batch) -> torch.Tensor:
        count = len(batch.tokens)
        for mine, new in zip(self.batch, batch, strict=True):
            if isinstance(mine, torch.Tensor) and mine is not self.batch.last:
                mine[:count].copy_(new)
        self.batch.slots[count:] = -1  # padding
        self.batch.seq_lens[count:] = 0
        self.graph.replay()
        return self.logits[batch.last]  # a chunk of one token of a prompt gives none
