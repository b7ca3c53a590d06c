"""The figures that are drawn from the recorded run of the kernels, for `python -m pagedkv.course.figures`: charts, not canvases."""

from collections.abc import Callable

import numpy as np

from pagedkv.bench.recorded import recorded
from pagedkv.course.draw import measurements
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import ceil_div


def block_sizes():
    """Speed against waste. A request that runs has every length from its prompt to its end."""
    lengths = np.concatenate([np.arange(r.prompt_tokens, r.total_tokens) for r in sample_requests("paper-sharegpt", 2000, seed=0)])
    waste = {size: 1 - lengths.sum() / (ceil_div(lengths, size) * size).sum() for size in (1, 16, 32, 64, 128)}
    return measurements.block_sizes(recorded(), waste)


KERNEL_FIGURES: dict[str, Callable[[], tuple]] = {
    "kernel_roofline": lambda: measurements.roofline(recorded()),
    "kernel_reads": lambda: measurements.share_of_reads(recorded()),
    "kernel_ladder": lambda: measurements.ladder(recorded()),
    "kernel_peers": lambda: measurements.peers(recorded()),
    "kernel_block_sizes": block_sizes,
}
