"""The watermark slider: how much of the pool a new request must leave free, between a full pool and fewer preemptions."""

from functools import lru_cache

from pagedkv.draw.watermark import watermark_bars
from pagedkv.explore import widget
from pagedkv.policies import Paged
from pagedkv.simulation.experiment import CAPACITY, requests_that_fit
from pagedkv.simulator import simulate
from pagedkv.workload import WORKLOADS

WATERMARKS = (0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


@lru_cache(maxsize=64)
def run(workload: str, watermark: float):
    """The paged run of one workload at one watermark."""
    return simulate(requests_that_fit(workload), Paged(CAPACITY // 16, watermark=watermark), CAPACITY)


def picture(watermark: float = 0.01, workload: str = "paper-sharegpt") -> str:
    """All watermarks as bars and the run at one of them, as an SVG."""
    runs = {mark: run(workload, mark) for mark in WATERMARKS}
    canvas, alt = watermark_bars(runs, watermark)
    return canvas.svg(f"{workload}: {alt}")


def explorer():
    """The widget."""
    return widget.explore(
        picture,
        watermark=widget.steps("Kept free", [(f"{100 * mark:g} %", mark) for mark in WATERMARKS], 0.01),
        workload=widget.choice("Requests like", list(WORKLOADS), "paper-sharegpt"),
    )
