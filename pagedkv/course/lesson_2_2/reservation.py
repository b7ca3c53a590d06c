"""The reservation explorer: how much memory each policy holds for one request, and what of it is used, while the output grows."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_2_2.held import held_by_policy
from pagedkv.simulation import experiment
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import Request

CAPACITY = 4096  # room for the copy of the longest request
# One request has no neighbours: among arenas only the buddy's rounding makes a difference.
SAME = ("max length, buddy", "grow by copy, best fit")
POLICIES = {name.removesuffix(", first fit"): make for name, make in experiment.POLICIES.items() if name not in SAME}


def held(policy: str, prompt: int, output: int, generated: int) -> dict[str, int]:
    """Slots that `policy` holds for one request after `generated` output tokens, by state."""
    timeline = simulate([Request(0, 0.0, prompt, output)], POLICIES[policy](CAPACITY), CAPACITY)
    _, _, tokens, reserved, internal, rounding = (sum(column) for column in zip(*timeline.snapshot(generated), strict=True))
    return {"token_states": tokens, "reserved": reserved, "internal": internal, "external": rounding}


def picture(prompt: int = 161, output: int = 338, percent: int = 50) -> str:
    """All policies after `percent` of the output, as an SVG."""
    generated = output * percent // 100
    slots = {policy: held(policy, prompt, output, generated) for policy in POLICIES}
    title = f"Slots held for one request: prompt {prompt}, generated {generated} of {output}"
    canvas, alt = held_by_policy(slots, title)
    return canvas.svg(alt)


def explorer():
    """The widget."""
    return widget.explore(
        picture,
        prompt=widget.slider("Prompt tokens", 161, 1, 1024),
        output=widget.slider("Output tokens", 338, 1, 1024),
        percent=widget.slider("Generated so far, %", 50, 0, 100),
    )
