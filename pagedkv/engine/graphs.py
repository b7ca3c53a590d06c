"""Decode steps on a GPU, replayed from CUDA graphs: one launch for all kernels of a step.

A graph is captured once for each power of two of requests, and of blocks of the longest, and for lengths that are about
equal and others, which attention shares out in different ways. Rows that pad a batch up to it write nowhere and read
nothing. It reads lengths and rows on the GPU, and so does the plan of attention in it.
"""

import numpy as np
import torch

from pagedkv.attention.plan import about_equal
from pagedkv.engine.batch import Batch, flatten
from pagedkv.engine.request import Generation, Step
from pagedkv.sizing import ceil_div

# A token, its position, slot, row and length, that writes nowhere and reads nothing.
PADDING = np.array([[0], [0], [-1], [0], [0]])


def replayed(runner, step: Step) -> tuple[torch.Tensor, list[Generation], torch.Tensor]:
    """What `sampler.sample` takes: the logits of those that are ready, who they are, and their likeliest tokens. `step`
    has one token for each request. Captures what `runner.graphs` lacks.
    """
    numbers, last, tables = flatten(step, runner.tables)
    size, blocks = len(step.work), ceil_div(max(numbers[-1]), runner.cache.block_size)
    rows, width = 1 << (size - 1).bit_length(), min(1 << (blocks - 1).bit_length(), runner.max_blocks)
    lengths = numbers[-1] + [0] * (rows - size)
    key = rows, width, about_equal(lengths)
    if key not in runner.graphs:
        runner.graphs[key] = Graph(runner, lengths, width, tables)
    logits, best = runner.graphs[key].replay(numbers)
    if len(last) < size:  # a chunk of one token of a prompt gives none
        logits, best = logits[last], best[last]
    return logits, step.ready, best


class Graph:
    """Decode of requests of such `lengths`, at most `width` blocks each, captured once, up to the likeliest tokens."""

    def __init__(self, runner, lengths: list[int], width: int, tables: torch.Tensor):
        self.numbers = torch.from_numpy(PADDING.repeat(len(lengths), 1)).to(runner.device)

        def run():
            tokens, positions, slots, rows, seq_lens = self.numbers
            blocks, longest = tables[:, :width].index_select(0, rows), width * runner.cache.block_size
            batch = Batch(tokens, positions, slots, None, seq_lens.int(), None, blocks, longest, lengths)
            logits = runner.logits(batch)
            return logits, logits.argmax(-1)

        run()  # kernels are compiled before the capture
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits, self.best = run()

    def replay(self, numbers: tuple[list[int], ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """(logits, likeliest tokens) of each request, valid until the next replay."""
        count, padded = len(numbers[0]), PADDING.repeat(self.numbers.shape[1], 1)
        padded[:, :count] = numbers
        self.numbers.copy_(torch.from_numpy(padded), non_blocking=True)
        self.graph.replay()
        return self.logits[:count], self.best[:count]
