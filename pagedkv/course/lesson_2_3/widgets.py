"""The watermark slider: how much of the pool a new request must leave free, between a full pool and fewer preemptions."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_2_3.watermark import watermark_bars
from pagedkv.simulation.experiment import paged_run
from pagedkv.simulation.workload import WORKLOADS

WATERMARKS = (0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def picture(watermark: float = 0.01, workload: str = "paper-sharegpt") -> str:
    """All watermarks as bars and the run at one of them, as an SVG."""
    runs = {mark: paged_run(workload, mark) for mark in WATERMARKS}
    canvas, alt = watermark_bars(runs, watermark)
    return canvas.svg(f"{workload}: {alt}")


def explorer():
    """The widget."""
    return widget.explore(
        picture,
        watermark=widget.steps("Kept free", [(f"{100 * mark:g} %", mark) for mark in WATERMARKS], 0.01),
        workload=widget.choice("Requests like", list(WORKLOADS), "paper-sharegpt"),
    )
