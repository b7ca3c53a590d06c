"""The widgets of lesson 2.2: an arena to fill by hand, one request under every policy, two whole runs side by side."""

from pagedkv.course.draw import style, widget
from pagedkv.course.draw.arena import playground
from pagedkv.course.draw.timeline import side_by_side
from pagedkv.course.lesson_2_2 import pictures
from pagedkv.course.thread import MIRA
from pagedkv.simulation import experiment
from pagedkv.simulation.arena import Arena, BuddyArena, OutOfMemory
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.timeline import Timeline
from pagedkv.simulation.workload import WORKLOADS, Request

SLOTS = 64
ARENAS = {
    "first fit": lambda: Arena(SLOTS, fit="first"),
    "best fit": lambda: Arena(SLOTS, fit="best"),
    "buddy": lambda: BuddyArena(SLOTS),
}
ARENA_START = (("allocate", 12), ("allocate", 9), ("allocate", 14), ("allocate", 7), ("free", 0), ("free", 2))


def replay_arena(operations, kind: str):
    """Run ("allocate", size) and ("free", number) in order; allocations are numbered from 0, those that fail too.

    Returns (arena, {number: extent}, error): the OutOfMemory of the last operation, or None. Freeing a request that was
    refused in this kind of arena does nothing.
    """
    arena, extents, error, number = ARENAS[kind](), {}, None, 0
    for verb, value in operations:
        error = None
        if verb == "free":
            if value in extents:
                arena.free(extents.pop(value))
            continue
        try:
            extents[number] = arena.allocate(value)
        except OutOfMemory as failure:
            error = failure
        number += 1
    return arena, extents, error


def smallest_refused(operations, kind: str) -> int | None:
    """The smallest request that was refused while at least half of the arena was free."""
    errors = [replay_arena(operations[: i + 1], kind)[2] for i in range(len(operations))]
    return min((error.requested for error in errors if error and error.total_free >= SLOTS / 2), default=None)


def arena_playground_svg(operations=ARENA_START, kind: str = "first fit") -> str:
    """The arena after `operations`, the task and how far it has been solved, as an SVG."""
    arena, extents, error = replay_arena(operations, kind)
    last = "an empty arena"
    if operations:
        verb, value = operations[-1]
        last = f"freed r{value}" if verb == "free" else f"allocated {value} slots"
    title = f"{kind}: {'OutOfMemory' if error else last}"
    best = smallest_refused(operations, kind)
    so_far = "none" if best is None else style.counted(best, "slot")
    task = f"Task: with half of the arena free, have as small a request as you can refused. So far: {so_far}."
    canvas, alt = playground(arena, extents, title, error, task)
    return canvas.svg(alt)


def arena_playground():
    """Allocate and free by hand, and watch holes appear until a request that ought to fit does not; every step can be
    taken back.
    """
    operations = widget.State(value=ARENA_START)
    kind = widget.choice("Arena", list(ARENAS), "first fit")
    size = widget.slider("Slots to allocate", 16, 1, SLOTS)
    victim = widget.choice("Request to free", [], None)

    def offer(_=None):
        held = replay_arena(operations.value, kind.value)[1]
        victim.options = [(f"r{number}: {extent.requested} slots", number) for number, extent in held.items()]
        victim.index = 0 if held else None

    def free():
        if victim.value is not None:
            operations.value += (("free", victim.value),)

    def allocate():
        operations.value += (("allocate", size.value),)

    def undo():
        operations.value = operations.value[:-1]

    def clear():
        operations.value = ()

    def reset():
        operations.value = ARENA_START

    operations.observe(offer, "value")
    kind.observe(offer, "value")
    offer()
    buttons = [
        widget.button("Allocate", allocate),
        widget.button("Free", free),
        widget.button("Undo", undo, "takes the last step back"),
        widget.button("Clear", clear, "begins with an empty arena"),
        widget.button("Reset", reset, "begins again as shown at first"),
    ]
    return widget.explore(arena_playground_svg, buttons, inputs=[size, victim], operations=operations, kind=kind)


ROOM = 4096  # room for the copy of the longest request
# One request has no neighbours: among arenas only the buddy's rounding makes a difference.
SAME = ("max length, buddy", "grow by copy, best fit")
ONE_REQUEST = {name.removesuffix(", first fit"): make for name, make in experiment.POLICIES.items() if name not in SAME}


def slots_held(policy: str, prompt: int, output: int, generated: int) -> dict[str, int]:
    """Slots that `policy` holds for one request after `generated` output tokens, by state: none of them is free."""
    timeline = simulate([Request(0, 0.0, prompt, output)], ONE_REQUEST[policy](ROOM), ROOM)
    _, _, tokens, reserved, internal, rounding = (
        sum(column) for column in zip(*timeline.snapshot(generated), strict=True)
    )
    return {"token_states": tokens, "reserved": reserved, "internal": internal, "external": rounding}


def reservation_svg(prompt: int = MIRA.prompt_tokens, output: int = MIRA.output_tokens, percent: int = 8) -> str:
    """All policies after `percent` of the output, as an SVG."""
    generated = output * percent // 100
    slots = {policy: slots_held(policy, prompt, output, generated) for policy in ONE_REQUEST}
    title = f"Slots held for one request: prompt {prompt}, generated {generated} of {output}"
    canvas, alt = pictures.held_by_policy(slots, title)
    return canvas.svg(alt)


def reservation():
    """How much memory each policy holds for one request, and what of it is used, while the output grows."""
    return widget.explore(
        reservation_svg,
        prompt=widget.slider("Prompt tokens", MIRA.prompt_tokens, 1, 1024),
        output=widget.slider("Output tokens", MIRA.output_tokens, 1, 1024),
        percent=widget.slider("Generated so far, %", 8, 0, 100),
    )


LEFT, RIGHT, ABOVE = "max length, first fit", "paged", f"the {pictures.NUM_REQUESTS} above"


def run(workload: str, policy: str) -> Timeline:
    """The run of the requests of the picture above the widget, or of the experiment's requests of a workload."""
    return pictures.under_load(policy) if workload == ABOVE else experiment.run(workload, policy)


def fragmentation_svg(
    step: int = pictures.STEP, left: str = LEFT, right: str = RIGHT, workload: str = ABOVE, colours: str = "requests"
) -> str:
    """Both pools at `step`, coloured by "requests" or "states", as an SVG."""
    runs = [(name, run(workload, name)) for name in (left, right)]
    canvas, alt = side_by_side(runs, step, colours)
    return canvas.svg(f"{len(runs[0][1].finished)} requests, {workload}. {alt}")


def fragmentation():
    """Two policies serve the same requests in the same memory; the slider moves through both runs, an arrow key by one
    step.
    """
    left, right = (
        widget.choice("Left", list(experiment.POLICIES), LEFT),
        widget.choice("Right", list(experiment.POLICIES), RIGHT),
    )
    workload = widget.choice("Requests like", [ABOVE, *WORKLOADS], ABOVE)
    step = widget.slider("Step", pictures.STEP, 0, pictures.STEP, wide=True)

    def fit_slider(_=None):
        step.max = max(run(workload.value, policy.value).num_steps for policy in (left, right)) - 1

    for control in (left, right, workload):
        control.observe(fit_slider, "value")
    fit_slider()
    colours = widget.choice("Colours show", ["requests", "states"], "requests")
    return widget.explore(fragmentation_svg, left=left, right=right, workload=workload, colours=colours, step=step)
