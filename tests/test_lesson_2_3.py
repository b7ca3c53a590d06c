"""Lesson 2.3: what its checks accept and refuse, and that its pictures show the numbers they are given."""

import math

import numpy as np
import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, assert_to_scale, boxes, heights, strokes, texts
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.course.draw import style
from pagedkv.course.lesson_2_3 import exercises, pictures, predictions, widgets
from pagedkv.simulation.experiment import CAPACITY, paged_run
from pagedkv.simulation.policies import Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import WORKLOADS, Request, sample_requests

# Exercises


def read_one_by_one(memory, table, num_tokens, block_size):
    entries = []
    for position in range(num_tokens):
        logical, offset = divmod(position, block_size)
        entries.append(memory[table[logical] * block_size + offset])
    return entries


def read_as_array(memory, table, num_tokens, block_size):
    return np.array(memory).reshape(-1, block_size)[table].reshape(-1)[:num_tokens]


def admit_by_ceil(prompt_tokens, num_free, num_blocks, block_size, watermark):
    return math.ceil(prompt_tokens / block_size) + int(watermark * num_blocks) <= num_free


def admit_with_the_policy(prompt_tokens, num_free, num_blocks, block_size, watermark):
    policy = Paged(num_blocks, block_size, watermark)
    if num_free < num_blocks:
        policy.admit(Request(0, 0.0, (num_blocks - num_free) * block_size, 0))
    try:
        policy.admit(Request(1, 0.0, prompt_tokens, 0))
    except Exception:
        return False
    return True


def preempt_recursively(lengths, num_free, block_size):
    if sum(n % block_size == 0 for n in lengths) <= num_free:
        return 0
    *others, latest = lengths
    return 1 + preempt_recursively(others, num_free + (latest + block_size - 1) // block_size, block_size)


def preempt_by_index(lengths, num_free, block_size):
    blocks = [-(-n // block_size) for n in lengths]
    for kept in range(len(lengths), -1, -1):
        if sum(n % block_size == 0 for n in lengths[:kept]) <= num_free + sum(blocks[kept:]):
            return len(lengths) - kept


RIGHT = {
    "2.3-read": [read_one_by_one, read_as_array],
    "2.3-admit": [admit_by_ceil, admit_with_the_policy],
    "2.3-preempt": [preempt_recursively, preempt_by_index],
}

READ, ADMIT, GONE = exercises.read_in_order, exercises.can_admit, exercises.preempted


def whole_blocks_and_the_rest(memory, table, num_tokens, block_size):
    """The last block is cut at num_tokens % block_size, which is 0 where it is full."""
    entries = [memory[block * block_size + i] for block in table[:-1] for i in range(block_size)]
    return entries + memory[table[-1] * block_size :][: num_tokens % block_size]


def first_and_last(memory, table, num_tokens, block_size):
    """Right for sequences of up to two blocks."""
    first, last = (memory[block * block_size : (block + 1) * block_size] for block in (table[0], table[-1]))
    return (first if len(table) == 1 else first + last)[:num_tokens]


def reads_by_popping(memory, table, num_tokens, block_size):
    entries = []
    while table:
        block = table.pop(0)
        entries += memory[block * block_size : (block + 1) * block_size]
    return entries[:num_tokens]


def goes(lengths, num_free, block_size, comes_back=lambda n, b: -(-n // b), recount=True):
    kept, free, need = list(lengths), num_free, sum(n % block_size == 0 for n in lengths)
    while kept and need > free:
        free += comes_back(kept.pop(), block_size)
        if recount:
            need = sum(n % block_size == 0 for n in kept)
    return len(lengths) - len(kept)


def full_blocks_come_back(*case):
    return goes(*case, comes_back=lambda n, b: n // b)


def one_block_too_many_comes_back(*case):
    return goes(*case, comes_back=lambda n, b: n // b + 1)


def one_block_comes_back(*case):
    return goes(*case, comes_back=lambda n, b: 1)


def victims_keep_their_need(*case):
    return goes(*case, recount=False)


WRONG = {  # name: [(answer, words of the verdict)]
    "2.3-read": [
        (lambda m, table, n, b: m[:n], "start of the memory"),
        (lambda m, table, n, b: READ(m, sorted(table), n, b), "not of the block ids"),
        (lambda m, table, n, b: READ(m, table, len(table) * b, b), "only partly filled"),
        (lambda m, table, n, b: READ(m, table, n // b * b, b), "the last block counts too"),
        (lambda m, table, n, b: [m[block] for block in table], "a block id is no slot"),
        (lambda m, table, n, b: m[table[0] * b : table[0] * b + n], "not behind the first one"),
        (whole_blocks_and_the_rest, "all of it counts"),
        (first_and_last, "only the first and the last block are read"),
        (reads_by_popping, "changes its input `table`"),
        (lambda m, table, n, b: (entry for entry in READ(m, table, n, b)), "not a generator"),
        (
            lambda m, table, n, b: READ(m, table[::-1], n, b),
            "([10, 11, 12, 13, 14, 15, 16, 17, 18], [2, 0], 5, 3) should return [16",
        ),
        (lambda m, table, n, b: [0] * n, "entry 0 is not the right one"),
        (lambda m, table, n, b: (READ(m, table, n, b), m.append(0), table.append(0))[0], "changes its input"),
    ],
    "2.3-admit": [
        (lambda p, f, n, b, w: ADMIT(p, f, n, b, 0), "must stay free is missing"),
        (lambda p, f, n, b, w: f - p // b >= int(w * n), "round up"),
        (lambda p, f, n, b, w: f - -(-p // b) >= int(w * f), "a share of all blocks"),
        (lambda p, f, n, b, w: f - -(-p // b) > int(w * n), "exactly that many"),
        (lambda p, f, n, b, w: f - p >= int(w * n), "the pool in blocks"),
        (lambda p, f, n, b, w: ADMIT(p + 1, f, n, b, w), "the prompt alone is counted"),
        (
            lambda p, f, n, b, w: f - -(-p // b) >= int(w * (n - -(-p // b))),
            "not of those that the prompt leaves",
        ),
        (lambda p, f, n, b, w: f >= int(w * n), "no longer free afterwards"),
        (lambda p, f, n, b, w: f >= int(w * n) and f >= math.ceil(p / b), "have to be there together"),
        (lambda p, f, n, b, w: f - math.ceil(p / b) >= w * n, "rounds down first"),
        (
            lambda p, f, n, b, w: not ADMIT(p, f, n, b, w),
            "in at least one case: your function(1, 3, 20, 3, 0.1) should return True",
        ),
        (lambda p, f, n, b, w: f - -(-p // b), "True or False is expected"),
    ],
    "2.3-preempt": [
        (lambda n, f, b: GONE(n, f, b, freed=False), "gives its blocks back"),
        (lambda n, f, b: GONE(n, f, b, needs=lambda n, b: True), "only a request whose last block is full"),
        (
            lambda n, f, b: GONE(n, f, b, needs=lambda n, b: (n + 1) % b == 0),
            "does not count the token that is to come",
        ),
        (lambda n, f, b: GONE(n, f, b, latest=False), "the latest request goes first"),
        (lambda n, f, b: max(sum(x % b == 0 for x in n) - f, 0), "a request may free several"),
        (lambda n, f, b: (GONE(n, f, b), n.append(0))[0], "changes its input"),
        (full_blocks_come_back, "where it is filled in part"),
        (victims_keep_their_need, "wants no block any more"),
        (lambda n, f, b: int(GONE(n, f, b) > 0), "one may not be enough"),
        (one_block_too_many_comes_back, "n // block_size blocks, none more"),
        (one_block_comes_back, "all its blocks, not one"),
    ],
}

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "2.3-admit": {
        "-prompt_tokens // block_size → -prompt_tokens / block_size": "compared with whole numbers, as if rounded up"
    },
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_the_commonest_mistakes_are_all_made_here():
    assert unheard(exercises, WRONG) == []


# Predictions


def stretch():
    """Attention over a stretch that holds another's K and V: neither an error nor zeros."""
    keys = np.random.default_rng(0).standard_normal((6, 4))
    weights = np.exp(keys @ np.ones(4))
    output = weights @ keys / weights.sum()
    return "a number like any other" if np.isfinite(output).all() and output.any() else "zeros"


def preemptions():
    run = paged_run("paper-sharegpt", 0.0)
    return f"about {round(100 * run.preemptions.sum() / len(run.finished), -1):.0f}"


def alpaca():
    run = simulate(sample_requests("paper-alpaca", 1500, seed=0), Paged(CAPACITY // 256, 256), CAPACITY)
    return f"about {10 * round(10 * run.shares()['token_states'])} %"


COMPUTED = {"2.3-stretch": stretch, "2.3-preemptions": preemptions, "2.3-alpaca": alpaca}
test_answers = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Pictures


def test_every_token_stands_in_its_slot_and_in_its_place():
    canvas, _ = pictures.scattered({"A": [0, 2], "B": [1]}, num_slots=4)
    seen = texts(canvas)
    assert all(seen.count(label) == 2 for label in ("A0", "A1", "B0"))
    x = {
        shape["text"]: shape["x"]
        for kind, shape in canvas.shapes
        if kind == "text" and shape["text"] in ("0", "1", "2")
    }
    in_memory = {s["text"]: s["x"] for kind, s in canvas.shapes if kind == "text" and s["y"] == 176}
    assert (in_memory["A1"], in_memory["B0"]) == (x["2"], x["1"])
    assert sum(kind == "path" for kind, _ in canvas.shapes) == 3


def test_bars_are_as_high_as_the_shares():
    canvas, _ = pictures.token_share_by_block_size({"long": {1: 1.0, 64: 0.5}, "short": {1: 0.25}})
    assert heights(canvas, style.TOKEN) == pytest.approx([150, 75, 37.5])
    assert {"100", "50", "25", "64", "block size, long"} <= set(texts(canvas))
    ticks = {shape["text"]: shape["y"] for kind, shape in canvas.shapes if kind == "text" and "%" in shape["text"]}
    assert [ticks["0 %"] - ticks[tick] for tick in ("50 %", "100 %")] == pytest.approx([75, 150])


@pytest.mark.parametrize("share", [0, 0.42, 0.93, 1])
def test_no_gridline_runs_through_a_number(share):
    assert_legible(pictures.token_share_by_block_size({"some": {1: 1.0, 64: share}})[0].svg("In words."))


def test_bars_of_watermarks_are_as_high_as_their_numbers():
    requests = [Request(i, 0.0, 40, 80) for i in range(40)]
    runs = {mark: simulate(requests, Paged(64, watermark=mark), 1024) for mark in (0, 0.1, 0.5)}
    canvas, _ = pictures.watermark_bars(runs, 0.1)
    used = [100 * run.shares()["token_states"] for run in runs.values()]
    preempted = [100 * run.preemptions.sum() / 40 for run in runs.values()]
    bars = sorted(box for box in boxes(canvas) if box[1] + box[3] == 228)
    tall = [height for *_, height in bars]
    assert assert_to_scale(tall[:3], used) == pytest.approx(1.3) and preempted[0] > 1
    assert assert_to_scale(tall[3:], preempted) == pytest.approx(130 / max(preempted))
    filled = [left for left, top, _, height in boxes(canvas, style.TOKEN) if top + height == 228]
    assert filled == [bars[1][0], bars[4][0]]
    assert {f"{value:.1f}" for value in (*used, *preempted)} <= set(texts(canvas))


def test_each_arrow_has_the_colour_of_its_request():
    canvas, alt = pictures.mapping()
    assert strokes(canvas) == {style.arrow_colour(style.request_colour(i)): count for i, count in ((0, 6), (1, 4))}
    assert_legible(canvas.svg(alt))
    assert_legible(pictures.scattered({"A": [0, 2], "B": [1]}, num_slots=4)[0].svg("In words."))


@pytest.mark.parametrize(
    ("workload", "mark", "preemptions", "without_tokens", "free"),
    [("paper-sharegpt", 0.1, 10.7, 1416, 1162), ("azure-conv", 0.01, 10.2, 636, 513)],
)
def test_the_watermark_that_keeps_to_twelve_preemptions_a_hundred(workload, mark, preemptions, without_tokens, free):
    runs = {one: paged_run(workload, one) for one in (0.0, 0.01, 0.05, 0.1)}
    per_hundred = {one: 100 * run.preemptions.sum() / len(run.finished) for one, run in runs.items()}
    assert next(one for one, number in per_hundred.items() if number <= 12) == mark
    assert per_hundred[mark] == pytest.approx(preemptions, abs=0.05)
    shares = runs[mark].shares()
    assert round(CAPACITY * (1 - shares["token_states"])) == without_tokens
    assert round(CAPACITY * shares["free"]) == free and shares["external"] == 0


# Widgets

SETTINGS = {
    "watermark": [
        {"watermark": mark, "workload": name} for mark, name in zip((0, 0.01, 0.2) * 3, WORKLOADS, strict=False)
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
