"""The figures that are drawn from the recorded run of the kernels, for `python -m pagedkv.draw`: charts, not canvases."""

from collections.abc import Callable

from pagedkv.bench.recorded import recorded
from pagedkv.draw import measurements

KERNEL_FIGURES: dict[str, Callable[[], tuple]] = {
    "kernel_roofline": lambda: measurements.roofline(recorded()),
    "kernel_reads": lambda: measurements.share_of_reads(recorded()),
    "kernel_ladder": lambda: measurements.ladder(recorded()),
    "kernel_peers": lambda: measurements.peers(recorded()),
}
