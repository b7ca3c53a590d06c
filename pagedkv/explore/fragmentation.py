"""The fragmentation scrubber: two policies serve the same requests in the same memory; the slider moves through both runs."""

from pagedkv.draw.snapshot import side_by_side
from pagedkv.explore import widget
from pagedkv.explore.policies import CAPACITY, MAX_SEQ_LEN, POLICIES, requests_that_fit, run
from pagedkv.workload import WORKLOADS

MOMENTS = 200  # positions of the slider


def picture(
    moment: int = 20,
    left: str = "max length, first fit",
    right: str = "paged",
    workload: str = "paper-sharegpt",
    colours: str = "requests",
) -> str:
    """Both pools at `moment` of MOMENTS of the longer run, as an SVG."""
    runs = [(name, run(workload, name)) for name in (left, right)]
    last = max(int(timeline.step[-1] + timeline.duration[-1]) - 1 for _, timeline in runs)
    step = round(moment * last / MOMENTS)
    alt = (
        f"{len(requests_that_fit(workload))} requests of {workload}, of up to {MAX_SEQ_LEN:,} tokens, in {CAPACITY:,} slots "
        f"at step {step:,}. "
        + " ".join(_words(name, timeline, step) for name, timeline in runs)
    )
    return side_by_side(runs, step, colours).svg(alt)


def _words(name, timeline, step) -> str:
    if step >= timeline.step[-1] + timeline.duration[-1]:
        return f"{name}: all requests are done."
    point = timeline.step.searchsorted(step, "right") - 1
    return f"{name}: {timeline.running[point]} run, {timeline.token_states[point] / timeline.capacity:.1%} of the slots hold tokens."


def explorer():
    """The widget."""
    return widget.explore(
        picture,
        left=widget.choice("Left", list(POLICIES), "max length, first fit"),
        right=widget.choice("Right", list(POLICIES), "paged"),
        workload=widget.choice("Requests like", list(WORKLOADS), "paper-sharegpt"),
        colours=widget.choice("Colours show", ["requests", "states"], "requests"),
        moment=widget.slider("Moment", 20, 0, MOMENTS, wide=True),
    )
