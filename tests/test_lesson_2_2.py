"""Lesson 2.2: what its checks accept and refuse, and that its pictures and widgets show what the policies do."""

import ast
import inspect
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, assert_to_scale, text_boxes, texts, widths
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.course.draw import style
from pagedkv.course.draw.timeline import side_by_side
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_2_2 import exercises, own_policy, pictures, predictions, widgets
from pagedkv.course.lesson_2_2.published import PUBLISHED, published
from pagedkv.course.thread import MIRA
from pagedkv.simulation import experiment
from pagedkv.simulation.arena import Arena, BuddyArena, OutOfMemory
from pagedkv.simulation.policies import GrowByCopy, MaxLength, Oracle, Paged, Policy, PowerOfTwo, Reservation
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


class Doubling(Policy):
    """The prompt and 200 tokens; then twice as many slots as are full."""

    def __init__(self, arena):
        self.arena, self.slots, self.stored = arena, arena.capacity, {}

    def first(self, request):
        return request.prompt_tokens + 200

    def admit(self, request):
        self.held[request.request_id] = self.arena.allocate(self.first(request))
        self.stored[request.request_id] = request.prompt_tokens

    def grow(self, request):
        old = self.held[request.request_id]
        if self.stored[request.request_id] == old.requested:
            self.held[request.request_id] = self.arena.allocate(self.larger(request, old))
            self.give_back(old)
        self.stored[request.request_id] += 1

    def larger(self, request, old):
        return min(2 * old.requested, self.arena.capacity)

    def give_back(self, old):
        self.arena.free(old)

    def release(self, request):
        self.arena.free(self.held.pop(request.request_id))
        del self.stored[request.request_id]


class StartsAgain(Doubling):
    """As long as the prompt, at least 30 more; a request that outgrows it is preempted, and comes back with more."""

    def first(self, request):
        return request.prompt_tokens + max(30, min(request.prompt_tokens, 1000))

    def grow(self, request):
        extent = self.held[request.request_id]
        if self.stored[request.request_id] == extent.requested:
            raise OutOfMemory(extent.requested + 1, self.arena.total_free, self.arena.largest_hole)
        self.stored[request.request_id] += 1


class Learning(Doubling):
    """The prompt and the mean of the outputs so far."""

    ended = (100,)

    def first(self, request):
        return request.prompt_tokens + min(sum(self.ended) // len(self.ended), 1000)

    def release(self, request):
        self.ended = (*self.ended, max(self.stored[request.request_id] - request.prompt_tokens, 1))
        super().release(request)


class Knows(Doubling):
    def first(self, request):
        return request.total_tokens + 1


def knows(guess):
    """A policy that asks for the prompt and `guess(request)`."""
    return type("KnowsInPart", (Doubling,), {"first": lambda self, request: request.prompt_tokens + guess(request)})


LOOKS = (
    lambda request: max(1, min(request.output_tokens, 899)),
    lambda request: max(1, min(request.output_tokens, 128)),
    lambda request: min(request.output_tokens, 128) or 1,
    lambda request: 64 if request.output_tokens < 100 else 512,
    lambda request: 64 if request.total_tokens < 400 else 512,
    lambda request: request.output_tokens // 100 * 100 or 1,
    lambda request: 1 << min(request.output_tokens.bit_length(), 9),
    lambda request: 1000 if request.output_tokens > 1500 else 200,
)


class KnowsLater(Doubling):
    def larger(self, request, old):
        return request.total_tokens


class Longest(Doubling):
    def first(self, request):
        return 2048


class NoGuess(Doubling):
    def first(self, request):
        return request.prompt_tokens


class NeverMoves(Doubling):
    admit, release = Doubling.admit, Doubling.release

    def grow(self, request): ...


class MovesLate(Doubling):
    def grow(self, request):
        self.stored[request.request_id] += 1
        old = self.held[request.request_id]
        if self.stored[request.request_id] > old.requested + 1:
            self.held[request.request_id] = self.arena.allocate(2 * old.requested)
            self.arena.free(old)


class MovesAlways(Doubling):
    def grow(self, request):
        old = self.held[request.request_id]
        self.held[request.request_id] = self.arena.allocate(old.requested + 1)
        self.arena.free(old)


class MovesEarly(Doubling):
    def grow(self, request):
        self.stored[request.request_id] += 1
        old = self.held[request.request_id]
        if self.stored[request.request_id] == old.requested:
            self.held[request.request_id] = self.arena.allocate(2 * old.requested)
            self.arena.free(old)


class CountsTooSoon(Doubling):
    def grow(self, request):
        self.stored[request.request_id] += 1
        old = self.held[request.request_id]
        if self.stored[request.request_id] > old.requested:
            self.held[request.request_id] = self.arena.allocate(2 * old.requested)
            self.arena.free(old)


class LosesTheOld(Doubling):
    def give_back(self, old):
        self.copied_tokens += old.requested


class NeverGivesBack(Doubling):
    def release(self, request):
        self.held.pop(request.request_id)


class KeepsTheName(Doubling):
    def release(self, request):
        self.arena.free(self.held[request.request_id])


class GivesBackFirst(Doubling):
    def grow(self, request):
        old = self.held[request.request_id]
        if self.stored[request.request_id] == old.requested:
            self.arena.free(old)
            self.held[request.request_id] = self.arena.allocate(2 * old.requested)
        self.stored[request.request_id] += 1


class CountsSlots(Doubling):
    """Keeps a number instead of the extent."""

    def admit(self, request):
        self.held[request.request_id] = self.arena.allocate(self.first(request)).requested
        self.stored[request.request_id] = request.prompt_tokens


class NoRoom(NoGuess):
    def grow(self, request):
        raise OutOfMemory(1, 0, 0)


class NotBooked(Doubling):
    def admit(self, request):
        self.stored[request.request_id] = request.prompt_tokens


class Borrowed(GrowByCopy):
    def admit(self, request):
        super().admit(request)

    def grow(self, request):
        super().grow(request)


class OtherArena(Doubling):
    def __init__(self, arena):
        super().__init__(Arena(arena.capacity))

    def larger(self, request, old):
        return old.requested + 100


class Unrelated:
    def __init__(self, arena):
        self.arena = arena

    def admit(self, request):
        return 1

    grow = release = admit


class UnwrittenPolicy(Policy):
    def __init__(self, arena):
        self.arena, self.slots, self.stored = arena, arena.capacity, {}

    def admit(self, request): ...

    def grow(self, request): ...

    def release(self, request): ...


RIGHT = {
    "2.2-policy": [Doubling, StartsAgain, Learning],
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


def joins_one_side(holes, start, size):
    """Above only where nothing touches below."""
    for i, (first, length) in enumerate(holes):
        if first + length == start:
            return [*holes[:i], (first, length + size), *holes[i + 1 :]]
    for i, (first, length) in enumerate(holes):
        if start + size == first:
            return [*holes[:i], (start, size + length), *holes[i + 1 :]]
    return sorted([*holes, (start, size)])


def joins_and_loses(holes, start, size):
    """The hole below is moved to its new end, and its own slots are forgotten."""
    return [(s, size if s < start < s + z else z) for s, z in GIVE(holes, start, size)]


def joins_over_a_gap(holes, start, size):
    slots = {slot for s, z in [*holes, (start, size)] for slot in range(s, s + z)}
    slots |= {slot for slot in range(200) if slot - 1 in slots and slot + 1 in slots}
    return free_by_slots([], min(slots), 0)[:0] + [
        (first, next(n for n in range(1, 200) if first + n not in slots))
        for first in sorted(slot for slot in slots if slot - 1 not in slots)
    ]


WRONG = {  # name: [(answer, words of the verdict)]; of a pair, one is right
    "2.2-policy": [
        (Knows, "it looks at the length of the output"),
        (KnowsLater, "it looks at the length of the output"),
        *((knows(guess), "it looks at the length of the output") for guess in LOOKS),
        (Longest, "more than 1,000 tokens is a max-length reservation again"),
        (NoGuess, "guess at least one"),
        (NeverMoves, "stores more tokens than it holds slots"),
        (MovesLate, "stores more tokens than it holds slots"),
        (MovesAlways, "is moved though its extent has room"),
        (MovesEarly, "is moved though its extent has room"),
        (CountsTooSoon, "counts no token for which `allocate` raises"),
        (LosesTheOld, "an extent is lost, or was given back too early"),
        (NeverGivesBack, "a request is refused, though it fits an empty arena"),
        (KeepsTheName, "`release` has to take the request out of `held`"),
        (GivesBackFirst, "allocate first, give back afterwards"),
        (CountsSlots, "the extent that `allocate` returned"),
        (NoRoom, "a request that runs alone is preempted before it has stored a token"),
        (NotBooked, "after `admit`, `held` has no extent"),
        (GrowByCopy, "its `admit` is that of a policy of the package"),
        (Borrowed, "its `release` is that of a policy of the package"),
        (OtherArena, "the arena has given out other slots than `held` names"),
        (Unrelated, "has to inherit from Policy"),
        (Doubling(Arena(64)), "the class is expected, not an object of it"),
    ],
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
        ((lambda p, o, a: (p + o // 2) / a, LATER), "need not be whole"),
        ((lambda p, o, a: sum(p + t for t in range(o + 1)) / o / a, LATER), "divide by their number"),
        ((TOKENS, lambda p, o, a: o // 2 / a), "need not be whole"),
        ((TOKENS, lambda p, o, a: o / 2 / (p + o)), "the whole reservation counts"),
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
        (
            (lambda h, n: min(h, key=lambda hole: (abs(hole[1] - n), hole))[0] if h else None, GIVE),
            "however little is missing",
        ),
        (
            (lambda h, n: min([(z, s + z - n) for s, z in h if z >= n] or [(0, None)])[1], GIVE),
            "not the place at its end",
        ),
        ((BEST, joins_one_side), "all three become one"),
        ((BEST, joins_and_loses), "here slots are lost"),
        ((BEST, joins_over_a_gap), "the slots between two holes are still held"),
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
        (lambda i, t: next(k for k in range(40) if i * 2**k >= t), "that is how many moves there are"),
        (lambda i, t: max((i * 2**k for k in range(40) if i * 2**k < t), default=0), "the last move alone"),
        (lambda i, t: COPIED(1, t), "the first extent has `initial` slots"),
    ],
}

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "2.2-fill": {"1 → 0": "the step that is left out reserves nothing"},
    "2.2-policy": {"128 → ...": "any guess will do"},
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(
    exercises.EXERCISES, RIGHT, WRONG, {"2.2-policy": UnwrittenPolicy}
)


def test_a_policy_of_ones_own_stands_beside_the_five():
    canvas, words = own_policy.beside_the_five(Doubling)
    assert words.startswith("Your policy beside the five.") and "; yours: token states" in words
    assert_legible(canvas.svg(words))
    canvas, words = own_policy.beside_the_five(UnwrittenPolicy)
    assert words.startswith("The five policies; yours is not written yet.") and "yours: " not in words
    assert texts(own_policy.beside_the_five(NotBooked)[0])[0] == "The five policies; yours raises TypeError"


def test_each_sentence_about_a_policy_is_heard():
    source = inspect.getsource(own_policy).split("def beside_the_five")[0]
    strings = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    said = [text for text in strings if isinstance(text, str) and len(text) > 35 and text[0].islower() or text == "`"]
    heard = [words for _, words in WRONG["2.2-policy"]]
    assert len(said) == 11
    assert [one for one in said if not any(words in one or one in words for words in heard)] == []


PAIRS = ("2.2-fill", "2.2-holes")


@pytest.mark.usefixtures("references_are_answers")
@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name in PAIRS for answer, _ in WRONG[name]])
def test_of_a_pair_one_is_right(name, answer, capsys):
    check(name, answer)
    assert capsys.readouterr().out.count("   ok ") == 1


def test_the_commonest_mistakes_are_all_made_here():
    assert unheard(exercises, WRONG) == []


# Predictions


def under_load(policy, arena=Arena, requests=300):
    return simulate(sample_requests("paper-sharegpt", requests, seed=0), policy(arena(15_728)), 15_728)


def copied():
    policy = GrowByCopy(Arena(4096), initial=64, factor=2.0)
    simulate([Request(0, 0.0, MIRA.prompt_tokens, MIRA.output_tokens)], policy, 4096)
    return f"about {round(policy.copied_tokens, -2)}"


def waits():
    run = under_load(Oracle)
    waiting = run.waiting > 0
    return f"about {100 * (run.external + run.free >= run.wanted)[waiting].mean() // 10 * 10:.0f} %"


def rounding():
    runs = [under_load(policy, BuddyArena, 1500) for policy in (PowerOfTwo, Oracle)]
    return "most of it" if all(pictures.rounding_share(r) > 60 * r.shares()["external"] for r in runs) else "half"


COMPUTED = {
    "2.2-copied": copied,
    "2.2-oracle": lambda: f"about {25 * round(4 * under_load(Oracle).shares()['token_states'])} %",
    "2.2-waits": waits,
    "2.2-rounding": rounding,
}
test_answers = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Pictures


def test_copies_are_counted_and_drawn_to_scale():
    canvas, _ = pictures.copied_prompts(100, [50, 30])
    assert texts(canvas)[0] == "2 branches of one prompt: 100 of 280 slots hold copies (36 %)"
    fills = [style.request_colour(0), style.mix(style.request_colour(0)), *map(style.request_colour, (1, 2))]
    lengths = [widths(canvas, fill) for fill in fills]
    assert assert_to_scale(sum(lengths, []), [100, 100, 50, 30]) == pytest.approx(800 / 280)
    assert_legible(canvas.svg("In words."))


def test_rounding_and_holes_are_the_two_parts_of_external():
    run = simulate(sample_requests("paper-sharegpt", 100), Oracle(BuddyArena(4096)), 4096)
    canvas, _ = pictures.shares_by_allocator({"oracle, buddy": run}, "a title")
    external = 100 * run.shares()["external"]
    assert 0 < pictures.rounding_share(run) < external
    shares, rounding = run.shares(), pictures.rounding_share(run)
    whole = [100 * shares[state] for state in ("token_states", "reserved")]
    lengths = [widths(canvas, style.TOKEN), widths(canvas, style.RESERVED), widths(canvas, style.EXTERNAL)]
    scale = assert_to_scale(sum(lengths, []), [*whole, rounding, external - rounding])
    assert scale == pytest.approx((style.WIDTH - 256) / 100)
    assert f"rounding {pictures.rounding_share(run):.1f}" in texts(canvas)
    assert_legible(canvas.svg("In words."))


def test_rounding_has_a_share_where_nobody_waits():
    run = simulate([Request(0, 0, 1, 0)], Oracle(BuddyArena(16)), 16)
    assert not run.waiting.any() and pictures.rounding_share(run) == 0
    canvas, words = pictures.shares_by_allocator({"oracle, buddy": run}, "a title")
    assert words.endswith("rounding 0.0%.")
    assert_to_scale([*widths(canvas, style.TOKEN), *widths(canvas, style.FREE)], [1, 15])


HELD = {
    "a": {"token_states": 100, "reserved": 50, "internal": 200, "external": 30},
    "b": {"token_states": 100, "reserved": 25, "internal": 250, "external": 10},
}


def test_what_a_policy_holds_is_drawn_to_scale():
    canvas, _ = pictures.held_by_policy(HELD, "a title")
    lengths = [widths(canvas, style.STATES[state][0]) for state in HELD["a"]]
    scale = assert_to_scale(sum(lengths, []), [HELD[name][state] for state in HELD["a"] for name in HELD])
    totals = {shape["text"]: shape["x"] for kind, shape in canvas.shapes if kind == "text" and "used" in shape["text"]}
    assert totals["385: 26 % used"] - totals["380: 26 % used"] == pytest.approx(5 * scale)
    assert_legible(canvas.svg("In words."))


def test_a_reservation_is_drawn_to_scale():
    canvas, _ = pictures.internal_fragmentation()
    lengths = [widths(canvas, fill) for fill in (style.TOKEN, style.RESERVED, style.INTERNAL)]
    scale = assert_to_scale(sum(lengths, []), [38, 50, 200, 162, 150, 1848, 1848, 1848])
    assert scale == pytest.approx((style.WIDTH - 190) / 2048)


def test_published_shares_are_whole():
    for name, shares in PUBLISHED.items():
        assert sum(shares.values()) == pytest.approx(100 if name != "vLLM" else 96.3, abs=0.2)


def test_the_bars_of_the_published_figure_are_as_long_as_their_numbers():
    canvas, words = published()
    bars = widths(canvas, style.TOKEN)
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
            (*WORKLOADS, *WORKLOADS, *[widgets.ABOVE] * len(experiment.POLICIES)),
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
    (kind, size, victim), (allocate, free, undo, clear, reset) = (row.children for row in box.children[:2])
    pane = box.children[2]
    start = pane.value
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
    kind.value = "first fit"
    reset.click()
    assert pane.value == start and len(victim.options) == 2


@pytest.mark.parametrize("kind", widgets.ARENAS)
def test_the_playground_has_a_task_that_can_be_solved(kind):
    assert "So far: none." in widgets.arena_playground_svg(kind=kind)
    full = (("allocate", 1),) * 64
    half = full + tuple(("free", number) for number in range(0, 64, 2))
    assert widgets.smallest_refused((*half[:-1], ("allocate", 2)), kind) is None  # 31 slots are free
    assert widgets.smallest_refused((*half, ("allocate", 3), ("allocate", 2), ("free", 1)), kind) == 2
    assert "So far: 2 slots." in widgets.arena_playground_svg((*half, ("allocate", 2)), kind)


def test_playground_replays_failures_by_number():
    operations = (("allocate", 40), ("allocate", 40), ("allocate", 10), ("free", 1), ("free", 0))
    arena, extents, error = widgets.replay_arena(operations, "first fit")
    assert list(extents) == [2] and error is None and arena.total_free == 54


def test_scrubber_reaches_the_last_step_of_the_longer_run():
    box = widgets.fragmentation()
    left, right, workload, colours, step = box.children[0].children
    for policy in ("oracle, buddy", "paged"):
        left.value = policy
        longest = max(widgets.run(workload.value, name).num_steps for name in (policy, "paged"))
        assert step.max == longest - 1
        step.value = step.max
        assert "1 run, " in box.children[2].value
    workload.value = "azure-code"
    assert step.value == step.max and f"at step {step.max:,}" in box.children[2].value


def test_the_scrubber_opens_on_the_picture_above_it():
    slots, requests = 15_728, sample_requests("paper-sharegpt", 300, seed=0)
    runs = {"max length": MaxLength(Arena(slots)), "paged": Paged(slots // 16)}
    above = [(name, simulate(requests, policy, slots)) for name, policy in runs.items()]
    said = texts(side_by_side(above, 2000)[0])
    box = widgets.fragmentation()
    shown = [box[4] for box in text_boxes(box.children[2].value)]
    assert shown == [text if text != "max length" else "max length, first fit" for text in said]
    notebook = (Path(__file__).parents[1] / "notebooks/2_2_fragmentation.ipynb").read_text()
    for line in (
        f"step = {pictures.STEP}",
        'names = (\\"max length\\", \\"paged\\")',
        f"{pictures.NUM_REQUESTS}, seed=0",
    ):
        assert line in notebook


def test_reservation_agrees_with_the_policies():
    held = {
        ("max length", 38, 162, 12): (50, 150, 1848, 0),
        ("power of two, buddy", 161, 338, 338): (499, 0, 174, 351),
        ("paged", 1, 40, 20): (21, 11, 0, 0),
    }
    for request, slots in held.items():
        states = ("token_states", "reserved", "internal", "external")
        assert widgets.slots_held(*request) == dict(zip(states, slots, strict=True))
