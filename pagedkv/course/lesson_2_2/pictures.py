"""The pictures of lesson 2.2: what a policy holds, what copies and rounding cost, figures 2 and 3, the README's."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from pagedkv.course.draw import style
from pagedkv.course.draw.arena import fragmented_arena
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, bracket, draw_legend, draw_strip, draw_swatches, state_piece
from pagedkv.course.draw.timeline import side_by_side
from pagedkv.course.lesson_2_2.published import published
from pagedkv.course.thread import MIRA
from pagedkv.simulation.arena import Arena
from pagedkv.simulation.experiment import CAPACITY, POLICIES
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.timeline import Timeline
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS


def held_by_policy(held: Mapping[str, Mapping[str, int]], title: str) -> tuple[Canvas, str]:
    """`held` maps a policy to its slots in each state: token_states, reserved, internal, external (the allocator's
    rounding).

    Returns the picture and its words.
    """
    left, bar, gap = 212, 34, 20
    width = style.WIDTH - left - 150
    canvas = Canvas(style.WIDTH, 104 + len(held) * (bar + gap))
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    states = [*next(iter(held.values()))]
    draw_legend(canvas, left, 62, {state: style.STATE_NAMES[state] for state in states})
    most = max(sum(slots.values()) for slots in held.values())
    for row, (policy, slots) in enumerate(held.items()):
        y, total = 92 + row * (bar + gap), sum(slots.values())
        canvas.text(left - 12, y + bar / 2, policy, anchor="end", bold=policy == "paged")
        pieces = [state_piece(state, slots[state], f"{slots[state]:,}") for state in states]
        draw_strip(canvas, left, y, width, bar, most, pieces)
        used = 100 * slots["token_states"] / total
        canvas.text(left + width * total / most + 10, y + bar / 2, f"{total:,}: {used:.0f} % used")
    words = []
    for policy, slots in held.items():
        parts = ", ".join(f"{number:,} {style.STATE_NAMES[state]}" for state, number in slots.items() if number)
        words.append(f"{policy} {sum(slots.values()):,}: {parts}")
    return canvas, f"{title}. {'; '.join(words)}."


def copied_prompts(prompt: int, outputs: Sequence[int]) -> tuple[Canvas, str]:
    """One strip with the branches side by side: a prompt of `prompt` tokens and an output of their own each.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 176)
    copies, total = prompt * (len(outputs) - 1), prompt * len(outputs) + sum(outputs)
    title = (
        f"{len(outputs)} branches of one prompt: {copies:,} of {total:,} slots hold copies "
        f"({100 * copies / total:.0f} %)"
    )
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    pieces = []
    for branch, output in enumerate(outputs):
        first = style.request_colour(0)
        look = (style.mix(first), None, "copy") if branch else (first, None, "prompt")
        pieces.append(Piece(prompt, *look))
        pieces.append(Piece(output, style.request_colour(branch + 1), None, f"{output}"))
    spans = draw_strip(canvas, 20, 84, style.WIDTH - 40, 44, total, pieces)
    for branch in range(len(outputs)):
        bracket(canvas, spans[2 * branch][0] + 2, spans[2 * branch + 1][1] - 2, 70, f"branch {branch}")
        begin, end = spans[2 * branch]
        canvas.text((begin + end) / 2, 146, f"{prompt}", anchor="middle", fill=style.MUTED)
    own = ", ".join(map(str, outputs))
    return (
        canvas,
        f"{title}. They lie side by side in memory, each a prompt of {prompt} tokens and an output of its own: {own} "
        "tokens.",
    )


def shares_by_allocator(runs: Mapping[str, Timeline], title: str) -> tuple[Canvas, str]:
    """A strip of 100 % for each named run: means over the steps at which a request waits.

    Returns the picture and its words.
    """
    left, bar, gap, states = 236, 34, 18, ("token_states", "reserved", "internal")
    canvas = Canvas(style.WIDTH, 92 + len(runs) * (bar + gap))
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    for row, (name, run) in enumerate(runs.items()):
        y = 60 + row * (bar + gap)
        shares = {state: 100 * share for state, share in run.shares().items()}
        rounding = rounding_share(run)
        canvas.text(left - 12, y + bar / 2, name, anchor="end")
        pieces = [state_piece(state, shares[state], f"{shares[state]:.1f}") for state in states]
        holes = shares["external"] - rounding
        pieces.append(state_piece("external", rounding, f"rounding {rounding:.1f}"))
        pieces.append(state_piece("external", holes, f"holes {holes:.1f}" if holes > 12 else f"{holes:.1f}"))
        pieces.append(state_piece("free", shares["free"]))
        draw_strip(canvas, left, y, style.WIDTH - left - 20, bar, 100, pieces)
    y = canvas.height - 16
    names = style.STATE_NAMES | {"external": "external: rounding, holes"}
    looks = [(names[state], *style.STATES[state]) for state in (*states, "external", "free")]
    x = draw_swatches(canvas, 70, y, looks, 44)
    canvas.text(x, y, "all in %", fill=style.MUTED)
    words = "; ".join(
        f"{name}: {', '.join(f'{style.STATE_NAMES[state]} {share:.1%}' for state, share in run.shares().items())}, "
        f"rounding {rounding_share(run):.1f}%"
        for name, run in runs.items()
    )
    return canvas, f"{title}. Strips of the shares of the pool, rounding being a part of external. {words}."


def rounding_share(run: Timeline) -> float:
    """Per cent of the pool that the allocator's rounding takes, over the steps of `run.shares()`."""
    return 100 * run.share(run.rounding)


def internal_fragmentation() -> tuple[Canvas, str]:
    """Figure 2: the 200 tokens of the course's request in a reservation of 2048."""
    prompt, output, max_seq_len = MIRA.prompt_tokens, MIRA.output_tokens, 2048
    idle = max_seq_len - prompt - output
    alt = (
        f"Figure 2: one reservation of {max_seq_len:,} slots at three moments. After the prompt {prompt} slots hold "
        f"tokens and {output} are reserved for later; {MIRA.generated} steps later {MIRA.stored} hold tokens; at the "
        f"end {prompt + output} do. At all three, {idle:,} slots, {100 * idle / max_seq_len:.1f} %, are internal waste "
        "that no token will ever fill."
    )
    return _life_of_a_reservation(prompt, output, MIRA.generated, max_seq_len), alt


def _life_of_a_reservation(prompt: int, output: int, steps: int, max_seq_len: int) -> Canvas:
    """One reservation after the prompt, some steps later and at the end: reserved slots turn into token states,
    internal waste stays.
    """
    left, width = 20, style.WIDTH - 40
    canvas = Canvas(style.WIDTH, 325)
    idle = max_seq_len - prompt - output
    title = f"{max_seq_len:,} slots reserved, {prompt + output:,} used: {idle:,} slots wait for tokens that never come"
    canvas.text(left, 24, title, size=style.TITLE, bold=True)
    moments = {"after the prompt": 0, f"{steps} steps later": steps, "at the end": output}
    for row, (name, generated) in enumerate(moments.items()):
        y = 84 + 90 * row
        tokens, reserved = prompt + generated, output - generated
        pieces = [state_piece("token_states", tokens), state_piece("reserved", reserved)]
        pieces.append(state_piece("internal", idle, f"{idle:,} internal: {100 * idle / max_seq_len:.1f} %"))
        spans = draw_strip(canvas, left + 150, y, width - 150, 40, max_seq_len, pieces)
        canvas.text(left, y + 20, name, bold=True)
        later = f" + {reserved} reserved for later" if reserved else ""
        canvas.text(left + 150, y - 14, f"{tokens} token states{later}")
        canvas.rect(spans[0][0], y, width - 150, 40, None, line=2)
    return canvas


def external_fragmentation() -> tuple[Canvas, str]:
    """Figure 3: ten requests fill an arena, five leave, and an eleventh finds no hole.

    Sizes are those of the chapter, in MiB.
    """
    per_slot = MODELS["llama-2-7b"].bytes_per_token
    megabytes = [768, 512, 1024, 256, 512, 1024, 1280, 768, 512, 1024]
    wanted = 1536 * 2**20 // per_slot
    arena = Arena(sum(megabytes) * 2**20 // per_slot)
    extents = {request: arena.allocate(size * 2**20 // per_slot) for request, size in enumerate(megabytes)}
    for request in (1, 3, 5, 7, 9):
        arena.free(extents.pop(request))

    def size(slots: int) -> str:
        mib = slots * per_slot / 2**20
        return f"{mib:.0f} MiB" if mib <= 1024 else f"{mib / 1024:.2f} GiB"

    holes = ", ".join(size(hole.size) for hole in arena.holes())
    alt = (
        f"Figure 3: an arena in which five requests alternate with five holes of {holes}. The next request needs "
        f"{size(wanted)} in one piece. Each hole is too small, although together they are {size(arena.total_free)}."
    )
    return fragmented_arena(arena, extents, wanted, size), alt


NUM_REQUESTS, STEP = 300, 2000  # of the lesson's server under load, and of its picture


@cache
def under_load(policy: str) -> Timeline:
    """The run of the lesson's requests under a policy of POLICIES."""
    return simulate(sample_requests("paper-sharegpt", NUM_REQUESTS), POLICIES[policy](CAPACITY), CAPACITY)


def front() -> tuple[Canvas, str]:
    """The README's picture: one pool, the same requests, with and without paging."""
    runs = [("max-length reservation", under_load("max length, first fit")), ("paged", under_load("paged"))]
    used = [run.token_states[run.step.searchsorted(STEP)] / CAPACITY for _, run in runs]
    ends = [run.num_steps for _, run in runs]
    alt = (
        f"The same {NUM_REQUESTS} requests in the same {CAPACITY:,} slots, at step {STEP:,}. With max-length "
        f"reservation {used[0]:.0%} of the slots hold tokens and the last request is done at step {ends[0]:,}; with "
        f"paging {used[1]:.0%} do and it is done at step {ends[1]:,}."
    )
    return side_by_side(runs, STEP)[0], alt


FIGURES: dict[str, Callable[[], tuple]] = {
    "figure_2": internal_fragmentation,
    "figure_3": external_fragmentation,
    "published": published,
    "front": front,
}
