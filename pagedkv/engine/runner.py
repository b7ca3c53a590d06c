"""From a step to its tokens: a model, its paged cache, and the packed tables that its kernels read."""

import torch

from pagedkv.arguments import whole_number
from pagedkv.attention.dispatch import pick_backend, torch_backend
from pagedkv.device_tables import DeviceBlockTables
from pagedkv.engine.batch import Batch, Flat, Rows, flatten, pack, paged
from pagedkv.engine.model import Llama
from pagedkv.engine.request import Generation, Step
from pagedkv.engine.sampler import sample
from pagedkv.kv_cache import PagedKVCache
from pagedkv.sizing import BLOCK_SIZE, ceil_div

PADDING = [[0], [0], [-1], [0], [0]]  # a token, its position, slot, row and length: writes nowhere and reads nothing


class Runner:
    """Runs a Step on `model` and gives one token for each of step.ready.

    The cache has the model's dtype. On a GPU, a Llama runs as a FusedLlama, and steps of one token a request are
    replayed from CUDA graphs, one for each power of two of requests, and of blocks of the longest: rows that pad a
    batch up to it write nowhere and read nothing. `cuda_graphs=False` turns that off.
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
        on_gpu = self.device.type == "cuda"
        if type(model) is Llama and on_gpu and pick_backend(backend, model.embed, self.cache.k) is not torch_backend:
            from pagedkv.engine.fused import FusedLlama

            self.model = FusedLlama(model)
        self.graphs: dict[tuple[int, int], _Graph] | None = {} if cuda_graphs and on_gpu else None

    @torch.no_grad()
    def __call__(self, step: Step) -> list[int]:
        self.cache.copy_blocks(step.copies)
        if self.graphs is not None and len(step.slots) == len(step.work):
            return self._replay(flatten(step, self.rows, self.tables), step.ready)
        return sample(self.logits(pack(step, self.rows, self.tables, self.device)), step.ready)

    def logits(self, batch: Batch) -> torch.Tensor:
        """[len(batch.last), vocab_size]"""
        return self.model(batch.tokens, batch.positions, paged(self.cache, batch, self.backend), batch.last)

    def _replay(self, flat: Flat, ready: list[Generation]) -> list[int]:
        size, width = (
            1 << (n - 1).bit_length() for n in (len(flat.tokens), ceil_div(max(flat.seq_lens), self.cache.block_size))
        )
        key = size, min(width, self.max_blocks)
        if key not in self.graphs:
            self.graphs[key] = _Graph(self, *key, flat.tables)
        return self.graphs[key].replay(flat, ready)


class _Graph:
    """Decode of `size` requests of at most `width` blocks each, captured once, up to the likeliest tokens."""

    def __init__(self, runner: Runner, size: int, width: int, tables: torch.Tensor):
        self.sent = torch.empty(len(PADDING), size, dtype=torch.int64, pin_memory=True)
        self.numbers = torch.tensor(PADDING, device=runner.device).repeat(1, size)

        def run():
            tokens, positions, slots, rows, lengths = self.numbers
            blocks, longest = tables[:, :width].index_select(0, rows), width * runner.cache.block_size
            logits = runner.logits(Batch(tokens, positions, slots, None, lengths.int(), None, blocks, longest))
            return logits, logits.argmax(-1)

        run()  # kernels are compiled before the capture
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits, self.best = run()

    def replay(self, flat: Flat, ready: list[Generation]) -> list[int]:
        count = len(flat.tokens)
        self.sent[:, count:] = torch.tensor(PADDING)
        self.sent[:, :count] = torch.tensor([flat.tokens, flat.positions, flat.slots, flat.rows, flat.seq_lens])
        self.numbers.copy_(self.sent, non_blocking=True)
        self.graph.replay()
        if len(ready) == count:
            return sample(self.logits[:count], ready, self.best[:count])
        rows = torch.tensor(flat.last, dtype=torch.int64, device=self.best.device)
        return sample(self.logits[rows], ready, self.best[rows])  # a chunk of one token of a prompt gives none
