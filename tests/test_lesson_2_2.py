"""Lesson 2.2: what its checks accept and refuse, and that its pictures and widgets show what the policies do."""

import itertools
import re

import numpy as np
import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, texts
from widget_rules import widget_tests

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_2_2 import exercises, pictures, widgets
from pagedkv.course.lesson_2_2.published import PUBLISHED, published
from pagedkv.simulation import experiment
from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.policies import Oracle, Reservation
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import WORKLOADS, Request, sample_requests

# Exercises


def simulated(prompt, output, asked, part):
    class Asks(Reservation):
        def asked(self, request):
            return asked

    timeline = simulate([Request(0, 0.0, prompt, output)], Asks(Arena(asked)), asked)
    return timeline.shares()[part]


def mean_of_list(prompt, output, asked):
    return np.mean([(prompt + step) / asked for step in range(output + 1)])


def mean_later(prompt, output, asked):
    return np.mean(np.arange(output + 1)) / asked


def fit_in_a_loop(holes, n):
    best = None
    for hole in holes:
        if hole[1] >= n and (best is None or hole[1] < best[1]):
            best = hole
    return best[0] if best else None


def fit_by_sorting(holes, n):
    for start, size in sorted(holes, key=lambda hole: (hole[1], hole[0])):
        if size >= n:
            return start


def free_by_slots(holes, start, size):
    free = {slot for first, length in [*holes, (start, size)] for slot in range(first, first + length)}
    starts = sorted(slot for slot in free if slot - 1 not in free)
    return [[first, next(n for n in range(1, 10**6) if first + n not in free)] for first in starts]


def free_with_the_package(holes, start, size):
    capacity = max((first + length for first, length in [*holes, (start, size)]), default=0)
    arena, spans, at = Arena(capacity), [], 0
    for first, length in sorted([*holes, (start, size)]):
        if first > at:
            arena.allocate(first - at)
        spans.append(arena.allocate(length))
        at = first + length
    for span in spans:
        arena.free(span)
    return [(hole.start, hole.size) for hole in arena.holes()]


def copies_by_list(initial, total):
    sizes = itertools.accumulate(range(40), lambda size, _: 2 * size, initial=initial)
    return sum(size for size in sizes if size < total)


def copies_token_by_token(initial, total):
    copied, size = 0, initial
    for stored in range(total):
        if stored == size:
            copied, size = copied + stored, size + stored
    return copied


RIGHT = {
    "2.2-fill": [
        (mean_of_list, mean_later),
        (lambda p, o, a: simulated(p, o, a, "token_states"), lambda p, o, a: simulated(p, o, a, "reserved")),
    ],
    "2.2-holes": [(fit_in_a_loop, free_by_slots), (fit_by_sorting, free_with_the_package)],
    "2.2-copies": [copies_by_list, copies_token_by_token],
}

TOKENS, LATER = exercises.mean_tokens, exercises.mean_reserved
BEST, GIVE = exercises.best_fit, exercises.give_back
COPIED = exercises.copied_tokens

WRONG = {  # name: [(answer, words of the verdict)]; of a pair, one is right
    "2.2-fill": [
        ((lambda p, o, a: (p + o) / a, LATER), "the fill in the last step"),
        ((lambda p, o, a: o / 2 / a, LATER), "from the first step on"),
        ((lambda p, o, a: np.mean([p + t for t in range(1, o + 1)]) / a, LATER), "step 0, in which only the prompt"),
        (
            (lambda p, o, a: np.mean([p + t for t in range(o)]) / a, LATER),
            "the last step, in which all of the output is stored",
        ),
        ((lambda p, o, a: p + o / 2, LATER), "between 0 and 1"),
        ((lambda p, o, a: (p + o / 2) / (p + o), LATER), "the whole reservation counts"),
        ((TOKENS, lambda p, o, a: 1 - TOKENS(p, o, a)), "never used are internal"),
        ((TOKENS, lambda p, o, a: (a - p - o) / a), "never used: internal"),
        ((TOKENS, lambda p, o, a: o / a), "that is the first step"),
        ((TOKENS, lambda p, o, a: np.mean([o - t for t in range(1, o + 1)]) / a), "step 0, in which all of the output"),
        (
            (TOKENS, lambda p, o, a: np.mean([o - t for t in range(o)]) / a),
            "the last step, in which nothing is reserved any more",
        ),
    ],
    "2.2-holes": [
        ((lambda h, n: next((s for s, size in h if size >= n), None), GIVE), "that is first fit"),
        ((lambda h, n: max(((z, -s) for s, z in h if z >= n), default=(0, None))[1], GIVE), "not yet"),
        (
            (lambda h, n: min([(z, s) for s, z in h if z > n] or [(0, None)])[1], GIVE),
            "a hole of exactly n slots fits too",
        ),
        ((lambda h, n: min([(z, s) for s, z in h] or [(0, None)])[1], GIVE), "at least n slots"),
        (
            (lambda h, n: next((i for i, (s, _) in enumerate(h) if s == BEST(h, n)), None), GIVE),
            "not its place in the list",
        ),
        (
            (
                lambda h, n: -min([(z, -s) for s, z in h if z >= n] or [(0, 0)])[1] if BEST(h, n) is not None else None,
                GIVE,
            ),
            "the lowest",
        ),
        ((lambda h, n: BEST(h, n) or 0, GIVE), "not yet"),
        ((lambda h, n: min(h, key=lambda hole: hole[1])[0], GIVE), "ValueError"),
        ((BEST, lambda h, s, z: sorted([*h, (s, z)])), "holes that touch have to become one"),
        ((BEST, exercises._merged_upwards), "the hole that ends where the span starts"),
        ((BEST, exercises._merged_downwards), "the hole that starts where the span ends"),
        ((BEST, lambda h, s, z: list(reversed(GIVE(h, s, z)))), "in order of address"),
        ((BEST, lambda h, s, z: (GIVE(h, s, z), h.append(0))[0]), "changes its input"),
        ((BEST, lambda h, s, z: h.append((s, z))), "changes its input"),
    ],
    "2.2-copies": [
        (lambda i, t: sum(i * 2**k for k in range(40) if i * 2**k <= t), "only when one more token comes"),
        (lambda i, t: 2 * COPIED(i, t), "not the slots of the new one"),
        (lambda i, t: sum(range(i, t)), "doubling makes moves rare"),
        (lambda i, t: max(t - i, 0), "at each move again"),
        (lambda i, t: sum(range(i, t, i)), "the extent doubles"),
        (lambda i, t: t, "not yet"),
    ],
}

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "2.2-fill": {"1 → 0": "the step that is left out reserves nothing"},
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


PAIRS = ("2.2-fill", "2.2-holes")


@pytest.mark.usefixtures("references_are_answers")
@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name in PAIRS for answer, _ in WRONG[name]])
def test_of_a_pair_one_is_right(name, answer, capsys):
    check(name, answer)
    assert capsys.readouterr().out.count("   ok ") == 1


def test_the_commonest_mistakes_are_all_made_here():
    assert unheard(exercises, WRONG) == []


# Pictures


def filled(canvas: Canvas, colour: str) -> list[dict]:
    return [shape for kind, shape in canvas.shapes if kind == "polygon" and shape["fill"] == colour]


def width(shape: dict) -> float:
    xs = [x for x, _ in shape["points"]]
    return max(xs) - min(xs)


def test_copies_are_counted_and_drawn_to_scale():
    canvas, _ = pictures.copied_prompts(100, [50, 30])
    assert texts(canvas)[0] == "2 branches of one prompt: 100 of 280 slots hold copies (36 %)"
    first, copy = filled(canvas, style.request_colour(0))[0], filled(canvas, style.mix(style.request_colour(0)))[0]
    assert width(first) == pytest.approx(width(copy)) == pytest.approx(800 * 100 / 280)


def test_rounding_and_holes_are_the_two_parts_of_external():
    run = simulate(sample_requests("paper-sharegpt", 100), Oracle(BuddyArena(4096)), 4096)
    canvas, _ = pictures.shares_by_allocator({"oracle, buddy": run}, "a title")
    external = 100 * run.shares()["external"]
    assert 0 < pictures.rounding_share(run) < external
    parts = [
        width(shape) for shape in filled(canvas, style.EXTERNAL) if shape["hatch"] in ("x", None) and shape["stroke"]
    ]
    assert sum(parts) == pytest.approx((style.WIDTH - 256) * external / 100)
    assert f"rounding {pictures.rounding_share(run):.1f}" in texts(canvas)
    assert_legible(canvas.svg("In words."))


def test_published_shares_are_whole():
    for name, shares in PUBLISHED.items():
        assert sum(shares.values()) == pytest.approx(100 if name != "vLLM" else 96.3, abs=0.2)


def test_the_bars_of_the_published_figure_are_as_long_as_their_numbers():
    canvas, words = published()
    bars = [width(shape) for shape in filled(canvas, style.TOKEN)][1:]  # the first is the legend's
    numbers = [
        float(number) for row in re.findall(r"token states ([\d.]+) and ([\d.]+) \(([\d.]+)\)", words) for number in row
    ]
    assert bars == pytest.approx([(style.WIDTH - 310) * number / 100 for number in numbers], abs=0.3)
    assert all(f"{number:.1f}" in texts(canvas) for number in numbers) and len(numbers) == 12


def test_external_and_free_together_are_what_the_paper_calls_external():
    words = published()[1]
    for name, shares in PUBLISHED.items():
        if "external and free" in shares:
            number = re.search(rf"{re.escape(name)}.*?external and free [\d.]+ and ([\d.]+)", words)[1]
            assert float(number) == pytest.approx(shares["external and free"], abs=3)


# Widgets

SETTINGS = {
    "arena_playground": [
        {"operations": operations, "kind": kind}
        for kind in widgets.ARENAS
        for operations in (
            (),
            widgets.ARENA_START,
            (*widgets.ARENA_START, ("allocate", 64)),
            (("allocate", 1),) * 66,
        )
    ],
    "fragmentation": [
        {"step": step, "left": left, "workload": workload, "colours": colours}
        for step, left, workload, colours in zip(
            itertools.cycle((0, 777, 2001, 10**6)),
            itertools.cycle(experiment.POLICIES),
            (*WORKLOADS, *WORKLOADS),
            itertools.cycle(("requests", "states")),
            strict=False,
        )
    ],
    "reservation": [
        {"prompt": prompt, "output": output, "percent": percent}
        for prompt, output in ((1, 1), (1, 1024), (1024, 1), (1024, 1024), (161, 338))
        for percent in (0, 50, 100)
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)


def test_playground_buttons():
    box = widgets.arena_playground()
    (kind, size, victim), (allocate, free, undo, clear) = (row.children for row in box.children[:2])
    pane = box.children[2]
    clear.click()
    assert "empty arena" in pane.value and victim.options == ()
    free.click()  # nothing to free
    size.value = 60
    allocate.click()
    assert victim.options == (("r0: 60 slots", 0),)
    size.value = 5
    allocate.click()
    assert "5 slots requested, 4 free, the largest hole has 4" in pane.value
    undo.click()
    assert "allocated 60 slots" in pane.value
    free.click()
    assert "freed r0" in pane.value and victim.options == ()
    kind.value = "buddy"
    size.value = 9
    allocate.click()
    assert "7 lost to rounding" in pane.value


def test_playground_replays_failures_by_number():
    operations = (("allocate", 40), ("allocate", 40), ("allocate", 10), ("free", 1), ("free", 0))
    arena, extents, error = widgets.replay_arena(operations, "first fit")
    assert list(extents) == [2] and error is None and arena.total_free == 54


def test_scrubber_reaches_the_last_step_of_the_longer_run():
    box = widgets.fragmentation()
    left, right, workload, colours, step = box.children[0].children
    for policy in ("oracle, buddy", "paged"):
        left.value = policy
        longest = max(experiment.run(workload.value, name).num_steps for name in (policy, "paged"))
        assert step.max == longest - 1
        step.value = step.max
        assert "1 run, " in box.children[2].value
    workload.value = "azure-code"
    assert step.value == step.max and f"at step {step.max:,}" in box.children[2].value


def test_reservation_agrees_with_the_policies():
    held = {
        ("max length", 60, 140, 0): (60, 140, 1848, 0),
        ("power of two, buddy", 161, 338, 338): (499, 0, 174, 351),
        ("paged", 1, 40, 20): (21, 11, 0, 0),
    }
    for request, slots in held.items():
        states = ("token_states", "reserved", "internal", "external")
        assert widgets.slots_held(*request) == dict(zip(states, slots, strict=True))
