"""Lesson 6.3: what its checks accept and refuse, that its predictions are computed, and its pictures to scale."""

import json
from functools import cache
from pathlib import Path

import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, assert_to_scale, heights, texts, widths
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.course.draw import bars, style
from pagedkv.course.lesson_6_3 import costs, exercises, pictures, predictions, widgets
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.simulation.engine_run import timeline_of
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS, ceil_div

RECORD = json.loads((Path(__file__).parents[1] / "figures/data/preemption_h200.json").read_text(encoding="utf-8"))

# Exercises


def victims_one_by_one(free, held, needs):
    """As a scheduler does: each in turn takes its blocks, and the latest goes while they are missing."""
    running, gone, at = list(range(len(held))), 0, 0
    while at < len(running):
        while needs[running[at]] > free and running:
            free += held[last := running.pop()]
            gone += 1
            if at >= len(running) or last == at:
                return gone
        free -= needs[running[at]]
        at += 1
    return gone


def victims_from_none(free, held, needs):
    return next(g for g in range(len(held)) if sum(needs[: len(held) - g]) <= free + sum(held[len(held) - g :]))


def requeue_by_pending(prompt, max_new, stored, sampled):
    pending = prompt + sampled - stored
    return [stored + pending, max_new - sampled]


def requeue_by_state(prompt, max_new, stored, sampled):
    return (stored + 1 if sampled else prompt, max_new - sampled)


def swap_in_a_loop(tokens, block_size, shape, bandwidth, latency, gathered):
    seconds, left = 0.0, tokens
    while left > 0:
        seconds += shape.block_bytes(block_size) / bandwidth + (0 if gathered else 2 * shape.num_layers * latency)
        left -= block_size
    return 2 * (seconds + (latency if gathered else 0))


def swap_in_one(tokens, block_size, shape, bandwidth, latency, gathered):
    blocks = (tokens + block_size - 1) // block_size
    copies = 2 if gathered else 4 * blocks * shape.num_layers
    return copies * latency + 2 * blocks * block_size * shape.bytes_per_token / bandwidth


RIGHT = {
    "6.3-victims": [exercises.victims, victims_one_by_one, victims_from_none],
    "6.3-requeue": [exercises.requeue, requeue_by_pending, requeue_by_state],
    "6.3-swap": [costs.swap_seconds, swap_in_a_loop, swap_in_one],
}


def takes_from_the_lists(free, held, needs):
    gone = 0
    while sum(needs) > free:
        free += held.pop()
        needs.pop()
        gone += 1
    return gone


def searched(room, wants):
    """Tries how many stay, from all down to none; `room` and `wants` are what it thinks of."""

    def wrong(free, held, needs):
        stays = (kept for kept in range(len(held), 0, -1) if wants(needs, kept) <= room(free, held, kept))
        return len(held) - next(stays, 0)

    return wrong


WRONG = {
    name: [(wrong, sentence) for wrong, sentence in mistakes]
    for name, mistakes in (
        ("6.3-victims", exercises.VICTIMS_MISTAKES),
        ("6.3-requeue", exercises.REQUEUE_MISTAKES),
        ("6.3-swap", exercises.SWAP_MISTAKES),
    )
}
WRONG["6.3-victims"] += [
    (takes_from_the_lists, "changes its input"),
    (searched(lambda free, held, kept: free, lambda needs, kept: sum(needs[:kept])), "they are free then"),
    (
        searched(lambda free, held, kept: free + sum(held[kept:]) - 1, lambda needs, kept: sum(needs[:kept])),
        "not one more",
    ),
    (searched(lambda free, held, kept: free + sum(held[kept:]), lambda needs, kept: sum(needs)), "no longer needs"),
    (lambda f, h, n: min(3, exercises.victims(f, h, n)), "the number is too small"),
    (lambda f, h, n: list(range(exercises.victims(f, h, n))), "a whole number is expected"),
]
WRONG["6.3-requeue"] += [
    (lambda p, m, s, n: (s if n == 0 else p + n, m - n), "or the rest of the prompt"),
    (lambda p, m, s, n: exercises.requeue(p, m, s, n)[::-1], "should return"),
    (lambda p, m, s, n: p + n, "is expected"),
]
WRONG["6.3-swap"] += [
    (lambda t, b, *others: costs.swap_seconds(t, b, *others) * t / b / -(-t // b), "move whole"),
    (lambda *case: 1e6 * costs.swap_seconds(*case), "too large"),
    (lambda *case: costs.swap_seconds(*case) * 0.75, "too small"),
]

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_each_sentence_is_told_somebody():
    assert unheard(exercises, WRONG) == []


def test_the_engine_sends_away_as_many_as_the_exercise_says():
    """Steps of the scheduler's own loop: what is free and held before, who is preempted."""
    pool = BlockPool(31, 4)
    engine, seen = Engine(Scheduler(pool, watermark=0.0), lambda step: [0] * len(step.ready)), 0
    for tokens in widgets.PROMPTS:
        engine.add([1] * tokens, Sampling(60))
    while engine.busy:
        tables = [request.table for request in engine.scheduler.running.values()]
        held, needs = [len(table.blocks) for table in tables], [table.blocks_needed(1) for table in tables]
        free = pool.num_free
        engine.step()
        assert engine.usage[-1].preempted == exercises.victims(free, held, needs)
        seen += engine.usage[-1].preempted
    assert seen == 12
    with pytest.raises(OutOfBlocks):
        pool.allocate(32)


# Predictions


@cache
def small():
    return widgets.served(31, 0.0, 60)


def more_run():
    needed = sum(widgets.PROMPTS) + 59 * len(widgets.PROMPTS)
    gone = [sum(had_to_go for *_, had_to_go in stays) for stays in pictures.stays(small()).values()]
    assert gone[-1] == max(gone) == 3 and "has to go three times" in predictions.PREDICTIONS[0].reason
    return 100 * sum(row.lost for row in small().usage) / needed


def first_step_back():
    (start, stop, known, _), (*_, back, _) = pictures.stays(small())[4][:2]
    assert known + stop - start - 1 == 28
    return str(back)


def faster_on_an_h200():
    record = RECORD["models"]["llama-3-8b"]
    times = record["recompute_ms"] / record["swap_ms"]["16"]["gathered"]
    return "swapping, 4 times" if 3.5 < times < 4.5 else f"swapping, {times}"


class Reserving(Scheduler):
    def _fits(self, request):
        promised = sum(ceil_div(other.max_stored, self.pool.block_size) for other in self.running.values())
        return promised + ceil_div(request.max_stored, self.pool.block_size) <= self.pool.num_blocks


def steps_of(kind, **how):
    drawn = [(max(1, r.prompt_tokens // 8), max(1, r.output_tokens // 8)) for r in sample_requests("azure-conv", 100)]
    engine = Engine(
        kind(BlockPool(120, 16), **how),
        lambda step: [int(len(one.output) + 1 == drawn[one.request_id][1]) for one in step.ready],
    )
    engine.generate([[2] * prompt for prompt, _ in drawn], Sampling(256, stop_token=1))
    return len(engine.usage)


def reserving():
    times = steps_of(Reserving) / steps_of(Scheduler)
    return "about twice as many" if 1.8 < times < 2.3 else str(times)


def steps_by_swap():
    """Host memory that takes everything, counted without a tensor."""
    pytest.importorskip("torch")  # `swap` imports it

    class Counting:
        def park(self, table):
            from pagedkv.engine.swap import Parked

            return Parked(table.blocks, table.num_tokens)

        def bring_back(self, parked, table, first_block): ...

        def drop(self, parked): ...

    pool = BlockPool(31, 4)
    engine = Engine(Scheduler(pool, watermark=0.0, host=Counting()), lambda step: [0] * len(step.ready))
    engine.generate([[1] * tokens for tokens in widgets.PROMPTS], Sampling(60))
    assert sum(row.parked for row in engine.usage) == sum(row.lost for row in small().usage)
    return "the same" if len(engine.usage) == len(small().usage) else "not the same"


COMPUTED = {
    "6.3-again": more_run,
    "6.3-back": first_step_back,
    "6.3-steps": steps_by_swap,
    "6.3-grouped": faster_on_an_h200,
    "6.3-reserve": reserving,
}

test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Costs


def test_the_arithmetic_is_that_of_the_published_sizes():
    opt, a100 = MODELS["opt-13b"], costs.GPUS["A100"]
    micro = [1e6 * costs.swap_seconds(1024, size, opt, a100.link, 5e-6, False) / 1024 for size in (1, 4, 16, 64, 256)]
    assert [round(one) for one in micro] == [866, 266, 116, 78, 69]
    assert round(1e6 * costs.recompute_seconds(1, costs.PARAMETERS["opt-13b"], a100.flops)) == 165


def test_the_record_has_the_shape_that_the_lesson_reads_in_it():
    opt = RECORD["models"]["opt-13b"]
    single = {int(size): bill["one copy a block"] for size, bill in opt["swap_ms"].items()}
    gathered = [bill["gathered"] for bill in opt["swap_ms"].values()]
    assert list(single) == [1, 4, 16, 64, 256] and list(single.values()) == sorted(single.values(), reverse=True)
    assert single[16] > opt["recompute_ms"] > single[64] and max(gathered) < 1.06 * min(gathered)


# Pictures


def simulated():
    run = timeline_of(small())
    return ((run.capacity - run.free) // 4).tolist()


PICTURES = {
    "pool": lambda: pictures.pool_over_time("A pool", small(), simulated()),
    "lives": lambda: pictures.lives("Lives", small(), ["a fact", "another"]),
    "by block size": lambda: pictures.by_block_size(
        "Bills", {"A": dict.fromkeys(pictures.LINES, {1: 700.0, 16: 50.0}), "B": {"gathered": {1: 3.0, 16: 3.1}}}
    ),
    "bars": lambda: bars.bars(
        "Bars", {"31 blocks": {"again": 333, "copied": 0}, "60": {"again": 2, "copied": 9}}, "tokens"
    ),
    "one bar each": lambda: bars.bars("Bars", {"a": {"steps": 3}, "b": {"steps": 0}}, "steps", ["a fact"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_legible(name):
    canvas, alt = PICTURES[name]()
    assert_legible(canvas.svg(alt))


def test_bars_are_as_long_as_their_numbers():
    canvas, alt = PICTURES["bars"]()
    assert_to_scale([*widths(canvas, bars.COLOURS[0]), *widths(canvas, bars.COLOURS[1])], [333, 2, 0, 9])
    assert "31 blocks: again 333 tokens, copied 0 tokens" in alt
    assert "a: steps 3; b: steps 0." in PICTURES["one bar each"]()[1]


def test_a_life_is_as_long_as_its_steps_and_says_what_runs_at_once():
    canvas, alt = pictures.lives("Lives", small())
    stays = pictures.stays(small())
    lengths = [stop - start for start, stop, _, _ in stays[4]]
    assert_to_scale(widths(canvas, style.request_colour(4)), lengths)
    assert [text for text in texts(canvas) if text == "61"] == ["61"] and "r1 0 to 53 (had to go), 60 to 67" in alt
    assert sum(gone for bars in stays.values() for *_, gone in bars) == 12
    assert [round(height) for height in heights(canvas, style.HIGHLIGHT)].count(24) == 12


def test_the_pool_says_where_it_preempts_and_that_the_simulator_agrees():
    alt = PICTURES["pool"]()[1]
    assert "Preemptions at steps 5, 8, 11, 15," in alt and "lies on the engine's edge" in alt
    assert "lies not on" in pictures.pool_over_time("x", small(), [0] * 188)[1]


# Widgets

SETTINGS = {
    "lives": [
        {"num_blocks": blocks, "watermark": watermark, "output": output}
        for blocks, watermark, output in ((20, 0.0, 64), (20, 0.4, 1), (160, 0.0, 64), (160, 0.4, 1), (31, 0.1, 60))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
