"""The fragmentation scrubber: two policies serve the same requests in the same memory; the slider moves through both runs."""

from pagedkv.course.draw import widget
from pagedkv.course.draw.snapshot import side_by_side
from pagedkv.simulation.experiment import MAX_SEQ_LEN, POLICIES, requests_that_fit, run
from pagedkv.simulation.workload import WORKLOADS

LEFT, RIGHT, WORKLOAD = "max length, first fit", "paged", "paper-sharegpt"


def picture(step: int = 2000, left: str = LEFT, right: str = RIGHT, workload: str = WORKLOAD, colours: str = "requests") -> str:
    """Both pools at `step`, coloured by "requests" or "states", as an SVG."""
    runs = [(name, run(workload, name)) for name in (left, right)]
    canvas, alt = side_by_side(runs, step, colours)
    return canvas.svg(f"{len(requests_that_fit(workload))} requests of {workload}, of up to {MAX_SEQ_LEN:,} tokens. {alt}")


def explorer():
    """The widget. An arrow key moves the slider by one step."""
    left, right = widget.choice("Left", list(POLICIES), LEFT), widget.choice("Right", list(POLICIES), RIGHT)
    workload = widget.choice("Requests like", list(WORKLOADS), WORKLOAD)
    step = widget.slider("Step", 2000, 0, 2000, wide=True)

    def fit_slider(_=None):
        step.max = max(run(workload.value, policy.value).num_steps for policy in (left, right)) - 1

    for control in (left, right, workload):
        control.observe(fit_slider, "value")
    fit_slider()
    colours = widget.choice("Colours show", ["requests", "states"], "requests")
    return widget.explore(picture, left=left, right=right, workload=workload, colours=colours, step=step)
