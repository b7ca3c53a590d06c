"""The widget of lesson 2.3: the watermark."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_2_3 import pictures
from pagedkv.simulation.experiment import paged_run
from pagedkv.simulation.workload import WORKLOADS

WATERMARKS = (0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def watermark_svg(watermark: float = 0.01, workload: str = "paper-sharegpt") -> str:
    """All watermarks as bars and the run at one of them, as an SVG."""
    runs = {mark: paged_run(workload, mark) for mark in WATERMARKS}
    canvas, alt = pictures.watermark_bars(runs, watermark)
    return canvas.svg(f"{workload}: {alt}")


def watermark():
    """How much of the pool a new request must leave free, between a full pool and fewer preemptions."""
    return widget.explore(
        watermark_svg,
        watermark=widget.steps("Kept free", [(f"{100 * mark:g} %", mark) for mark in WATERMARKS], 0.01),
        workload=widget.choice("Requests like", list(WORKLOADS), "paper-sharegpt"),
    )
