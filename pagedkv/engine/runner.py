"""From a step to its tokens: a model, its paged cache, and the packed tables that its kernels read."""

import torch

from pagedkv.arguments import having, shown, whole_number
from pagedkv.attention.checks import BLOCK_SIZES
from pagedkv.attention.dispatch import pick_backend, torch_backend
from pagedkv.device_tables import DeviceBlockTables
from pagedkv.engine.batch import Batch, pack, paged
from pagedkv.engine.graphs import Graph, replayed
from pagedkv.engine.model import Llama
from pagedkv.engine.request import Step
from pagedkv.engine.sampler import sample
from pagedkv.engine.scheduler import Scheduler
from pagedkv.kv_cache import PagedKVCache
from pagedkv.sizing import BLOCK_SIZE
from pagedkv.tensors import here, without_autocast


class Runner:
    """Runs a Step on `model` and gives one token for each of step.ready.

    The cache has the model's dtype. On a GPU, a Llama runs as a FusedLlama, and steps of one token a request are
    replayed from CUDA graphs, one for each power of two of requests, and of blocks of the longest: rows that pad a
    batch up to it write nowhere and read nothing. `cuda_graphs=False` turns that off.
    """

    def __init__(
        self, model, num_blocks: int, block_size: int = BLOCK_SIZE, *, max_running: int = 64,
        max_blocks: int | None = None, device="cpu", backend: str = "auto", cuda_graphs: bool = True,
        window: int | None = None,
    ):  # fmt: skip
        self.model = having("model", model, "a model.Llama", "shape", "dtype", "__call__")
        self.backend, self.window, self.device = backend, window, here(device)
        self.max_running = whole_number("max_running", max_running, 1)
        self.max_blocks = num_blocks if max_blocks is None else whole_number("max_blocks", max_blocks, 1)
        if whole_number("block_size", block_size, 1) not in BLOCK_SIZES:
            raise ValueError(f"block_size must be a power of two from 1 to 256, not {shown(block_size)}")
        kv_shape = model.shape.kv_shape(model.dtype.itemsize)
        self.cache = PagedKVCache(kv_shape, num_blocks, block_size, device, model.dtype)
        self.tables = DeviceBlockTables(self.max_running, self.max_blocks, device)
        on_gpu = self.device.type == "cuda"
        if on_gpu and type(model) is Llama and pick_backend(backend, model.embed, self.cache.k) is not torch_backend:
            from pagedkv.engine.fused import FusedLlama

            self.model = FusedLlama(model)
        self.graphs: dict[tuple[int, int], Graph] | None = {} if cuda_graphs and on_gpu else None

    def join(self, scheduler: Scheduler) -> None:
        """Serve the steps of `scheduler`: it runs no more, and no longer tables, than there is room for here.

        Raises ValueError if its pool, its window or what its prefix cache names are not those of the cache here.
        """
        pool, cache, prefix, window = scheduler.pool, self.cache, scheduler.prefix, scheduler.window
        if cache.block_size != pool.block_size or cache.num_blocks < pool.num_blocks:
            theirs = f"the scheduler's pool has {pool.num_blocks} blocks of {pool.block_size} tokens"
            raise ValueError(f"{theirs}, and the runner's cache {cache.num_blocks} of {cache.block_size}")
        if window is not None and window.size != self.window:
            raise ValueError(f"the scheduler's window is {window.size}, and the runner's {self.window}")
        if prefix is not None:
            if getattr(prefix, "cache", None) not in (None, cache):
                raise ValueError("the scheduler's prefix cache names blocks of another runner's cache")
            prefix.cache = cache
        scheduler.max_running = min(scheduler.max_running, self.max_running)
        scheduler.max_blocks = min(scheduler.max_blocks, self.max_blocks)

    @torch.no_grad()
    @without_autocast
    def __call__(self, step: Step) -> list[int]:
        self.cache.copy_blocks(step.copies)
        if self.graphs is not None and len(step.slots) == len(step.work):
            return sample(*replayed(self, step))
        return sample(self.logits(pack(step, self.tables, self.device)), step.ready)

    def logits(self, batch: Batch) -> torch.Tensor:
        """[len(batch.last), vocab_size]"""
        attend = paged(self.cache, batch, self.backend, self.window)
        return self.model(batch.tokens, batch.positions, attend, batch.last)
