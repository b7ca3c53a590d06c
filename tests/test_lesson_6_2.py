"""Lesson 6.2: what its checks accept and refuse, that the learner's schedule runs an engine as the package's does, and
that its pictures and numbers are those of runs.
"""

import heapq
import random

import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, assert_to_scale, boxes, texts
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.course.draw import style
from pagedkv.course.lesson_6_2 import batching, exercises, own_schedule, pictures, predictions, widgets
from pagedkv.course.lesson_6_5.wrappers import ByHand
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import ceil_div

# Exercises


def split_recursively(pending, budget):
    if not pending:
        return []
    first = min(pending[0], budget)
    return [first, *split_recursively(pending[1:], budget - first)]


def split_by_sums(pending, budget):
    return [min(budget, sum(pending[: i + 1])) - min(budget, sum(pending[:i])) for i in range(len(pending))]


def steps_with_a_heap(lengths, rows):
    free_at = [0] * rows
    for steps in lengths:
        heapq.heapreplace(free_at, free_at[0] + steps)
    return max(free_at)


def steps_one_by_one(lengths, rows):
    queue, running, steps = list(lengths), [], 0
    while queue or running:
        while queue and len(running) < rows:
            running.append(queue.pop(0))
        running = [left - 1 for left in running if left > 1]
        steps += 1
    return steps


def schedule_in_two_functions(
    running, waiting, pool, budget, kept_free, new_table, known=lambda request: len(request.tokens)
):
    work = []

    def run(request):
        nonlocal budget
        n = min(request.num_pending, budget)
        request.table.append(n)
        budget -= n
        work.append((request, n))

    place = 0
    while place < len(running) and budget > 0:
        try:
            run(running[place])
            place += 1
        except OutOfBlocks:
            victim = running.pop()
            victim.table.free()
            victim.table = None
            waiting.insert(0, victim)
    while waiting and budget > 0:
        left = pool.num_free - ceil_div(known(waiting[0]), pool.block_size)
        if left < 0 or running and left < kept_free:
            break
        running.append(waiting.popleft())
        running[-1].table = new_table(pool)
        run(running[-1])
    return work


SCHEDULE = own_schedule.schedule
RIGHT = {
    "6.2-split": [exercises.split, split_recursively, split_by_sums],
    "6.2-steps": [exercises.continuous_steps, steps_with_a_heap, steps_one_by_one],
    "6.2-schedule": [SCHEDULE, schedule_in_two_functions],
}

# By exercise: mutants that gain every point, and why they are right answers too.
EQUIVALENT = {
    "6.2-schedule": {
        "-len(waiting[0].tokens) // pool.block_size → -len(waiting[0].tokens) / pool.block_size": (
            "compared with whole numbers, as if rounded up"
        ),
    },
}


def all_or_nothing(pending, budget):
    shares = []
    for tokens in pending:
        shares.append(tokens if tokens <= budget else 0)
        budget -= shares[-1]
    return shares


def ends_with_zeros(pending, budget):
    shares = all_or_nothing(pending, budget)
    first = shares.index(0) if 0 in shares else len(shares)
    return shares[:first] + [0] * (len(shares) - first)


def by(key):
    def wrong(pending, budget):
        order = sorted(range(len(pending)), key=lambda i: key(pending[i]))
        shares = dict(zip(order, split_by_sums([pending[i] for i in order], budget), strict=True))
        return [shares[i] for i in range(len(pending))]

    return wrong


def gives_the_rest_away(pending, budget):
    shares = split_by_sums(pending, budget)
    return shares[:-1] + [shares[-1] + budget - sum(shares)] if shares else []


def batches(lengths, rows):
    return sum(max(lengths[i : i + rows]) for i in range(0, len(lengths), rows))


def idles(lengths, rows):
    ends = [-1] * rows
    for steps in lengths:
        heapq.heapreplace(ends, ends[0] + 1 + steps)
    return max(0, *ends)


def takes_from_the_list(lengths, rows):
    steps = steps_one_by_one(lengths, rows)
    lengths.clear()
    return steps


def with_mistake(**mistake):
    return lambda *inputs: SCHEDULE(*inputs, **mistake)


def prompt_alone(*inputs):
    """Right but for who comes back: room is asked for the prompt only."""
    return schedule_in_two_functions(*inputs, known=lambda request: request.num_prompt)


def keeps_the_table(running, waiting, pool, budget, kept_free, new_table):
    before = list(running)
    work = SCHEDULE(running, waiting, pool, budget, kept_free, new_table)
    for request in before:
        if request.table is None:
            request.table = new_table(pool)
    return work


def by_index(victim=-1, spend=True, enter=True):
    """The rule by index, with a slip of an index, of the budget or of the list of those who run."""

    def wrong(running, waiting, pool, budget, kept_free, new_table):
        work, place = [], 0
        while place < len(running):
            request = running[place]
            try:
                if n := min(request.num_pending, budget):
                    request.table.append(n)
                    work.append((request, n))
                    budget -= n * spend
                place += 1
            except OutOfBlocks:
                latest = running.pop(victim)
                latest.table.free()
                latest.table = None
                waiting.appendleft(latest)
        while budget and waiting:
            request, kept = waiting[0], kept_free if running else 0
            if ceil_div(len(request.tokens), pool.block_size) + kept > pool.num_free:
                break
            waiting.popleft()
            request.table = new_table(pool)
            request.table.append(n := min(request.num_pending, budget))
            work.append((request, n))
            budget -= n * spend
            running += [request] * enter
        return work

    return wrong


WRONG = {
    "6.2-split": [
        (lambda p, b: [min(n, b - sum(p[:i])) for i, n in enumerate(p)], "falls below 0"),
        (lambda p, b: [min(n, b) for n in p], "the budget is one for all"),
        (all_or_nothing, "what is left of the budget: a chunk"),
        (ends_with_zeros, "what is left of the budget: a chunk"),
        (lambda p, b: [min(n, b // len(p)) for n in p], "not shared out evenly"),
        (lambda p, b: split_by_sums(p[::-1], b)[::-1], "the first of the list comes first"),
        (by(lambda n: n > 1), "whether one token is pending or many"),
        (by(lambda n: n), "not of size"),
        (lambda p, b: [n for n in split_by_sums(p, b) if n], "0 for those the budget does not reach"),
        (gives_the_rest_away, "cannot run more than it has pending"),
        (lambda p, b: [min(n, 1) for n in split_by_sums(p, b)], "may run more than one token"),
        (lambda p, b: min(b, sum(p)), "a list is expected"),
        (lambda p, b: (split_by_sums(p, b), p.clear())[0], "changes its input"),
    ],
    "6.2-steps": [
        (batches, "batches that wait for their longest request"),
        (lambda n, r: -(-sum(n) // r), "a long one goes on alone"),
        (lambda n, r: max(-(-sum(n) // r), max(n, default=0)), "neither bound is the answer"),
        (idles, "taken in the very next step"),
        (lambda n, r: max(sum(n[i::r]) for i in range(r)), "rows are not dealt out beforehand"),
        (lambda n, r: steps_with_a_heap(sorted(n)[::-1], r), "the lengths are not known"),
        (lambda n, r: steps_with_a_heap(sorted(n), r), "the lengths are not known"),
        (lambda n, r: sum(n), "several rows run in the same step"),
        (lambda n, r: max(n, default=0), "there are only so many rows"),
        (lambda n, r: steps_one_by_one([x - 1 for x in n], r) if n else 0, "should return|too small"),
        (lambda n, r: max(steps_one_by_one(n, r) - 1, 0), "for n steps"),
        (lambda n, r: steps_one_by_one(n, r) + 1, "for n steps"),
        (takes_from_the_list, "changes its input"),
    ],
    "6.2-schedule": [
        (with_mistake(first_admit=True), "before the running ones grow"),
        (lambda a, w, pool, b, kept, new: SCHEDULE(a, w, pool, 999, kept, new), "the budget is not kept"),
        (with_mistake(whole_budget=True), "each request gets the whole budget"),
        (with_mistake(ignore_kept=True), "an admission leaves `kept_free`"),
        (with_mistake(kept_when_idle=True), "a large request would wait for ever"),
        (with_mistake(overtake=True), "a later request overtakes"),
        (with_mistake(victim=0), "the latest admitted goes"),
        (by_index(victim=0), "the latest of `running`, then the one before it"),
        (by_index(spend=False), "the budget is not kept"),
        (by_index(enter=False), "stands in `running` too"),
        (with_mistake(tail=True), "goes to the head of the queue"),
        (with_mistake(chunk_only=True), "not only for the first chunk"),
        (with_mistake(strict=True), "if exactly `kept_free` blocks stay free"),
        (with_mistake(leak=True), "table.free()"),
        (with_mistake(one_by_one=True), "go on while the head fits"),
        (lambda a, w, *rest: SCHEDULE(a, w.__class__(), *rest), "nobody is ever admitted"),
        (prompt_alone, "those that it has sampled too"),
        (keeps_the_table, "request.table to None"),
        (lambda *inputs: [request for request, _ in SCHEDULE(*inputs)], "a list of (request, n) is expected"),
        (lambda *inputs: dict(enumerate(SCHEDULE(*inputs))), "a list of (request, n) is expected"),
        (lambda *inputs: [*SCHEDULE(*inputs), (inputs[0][0], 0)] if inputs[0] else [], "leave out who runs none"),
        (lambda *inputs: SCHEDULE(*inputs)[::-1], "the shares: in the first step not as the rule says"),
    ],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_the_commonest_mistakes_are_all_made_here():
    assert unheard(exercises, WRONG) == [] and unheard(own_schedule, WRONG) == []


@pytest.mark.parametrize("decide", RIGHT["6.2-schedule"], ids=lambda function: function.__name__)
def test_an_engine_on_the_learners_schedule_does_what_the_packages_does(decide):
    preempted = 0
    for seed in range(60):
        rng = random.Random(seed)
        size = rng.choice((1, 2, 4))
        requests = [(rng.randrange(1, 4 * size + 2), rng.randrange(1, 4 * size + 2)) for _ in range(8)]
        blocks = max(ceil_div(prompt + new - 1, size) for prompt, new in requests) + rng.randrange(4)
        options = dict(token_budget=rng.choice((None, 3, 8)), watermark=rng.choice((0, 0.2)))
        rows = []
        for by_hand in (False, True):
            pool = BlockPool(blocks, size)
            one = ByHand(pool, decide, **options) if by_hand else Scheduler(pool, **options)
            engine = Engine(one, lambda step: [len(step.slots)] * len(step.ready))
            for prompt, new in requests:
                engine.add([1] * prompt, Sampling(new))
            tokens = list(engine.stream())
            rows.append((tokens, [row._replace(lost=0) for row in engine.usage], engine.events))
        assert rows[0] == rows[1]
        preempted += sum(row.preempted for row in rows[0][1])
    assert preempted > 50


# Predictions and numbers

LENGTHS = [min(40, max(2, request.output_tokens // 10)) for request in sample_requests("azure-conv", 20, seed=0)]


def share_in_use():
    stays = batching.static(LENGTHS, 4)
    return 100 * sum(LENGTHS) / (4 * max(stay.first + stay.steps for stay in stays))


def pending_after_two_steps():
    engine = batching.plain_engine(token_budget=4)
    engine.add([1] * 9, Sampling(3))
    request = engine.scheduler.waiting[0]
    engine.step(), engine.step()
    return request.num_pending


def best_budget():
    ends = {budget: batching.long_prompt(budget).mean_end for budget in (24, 96, 512, None)}
    best = min(ends, key=ends.get)
    return "no budget at all" if best is None else str(best)


def what_fits():
    said = []
    for new in (8, 9):
        try:
            batching.plain_engine(10, 4).add([1] * 33, Sampling(new))
            said.append(f"{new} are accepted")
        except ValueError:
            said.append(f"{new} are refused")
    return ", ".join(said)


test_answers = prediction_test(
    predictions.PREDICTIONS,
    {
        "6.2-useful": share_in_use,
        "6.2-pending": pending_after_two_steps,
        "6.2-budget": best_budget,
        "6.2-fits": what_fits,
    },
)


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_rows_never_overlap_and_none_is_lost(rows):
    for stays in (batching.static(LENGTHS, rows), batching.continuous(LENGTHS, rows)):
        assert [stay.steps for stay in stays] == LENGTHS
        taken = [(stay.row, step) for stay in stays for step in range(stay.first, stay.first + stay.steps)]
        assert len(taken) == len(set(taken)) and {row for row, _ in taken} == set(range(rows))
    stays = batching.continuous(LENGTHS, rows)
    assert max(stay.first + stay.steps for stay in stays) == steps_with_a_heap(LENGTHS, rows)


def test_a_budget_runs_the_same_tokens_in_more_steps():
    small, large = batching.long_prompt(24), batching.long_prompt(None)
    assert small.steps > large.steps and small.longest_pause == 64 + 24 and large.longest_pause == 64 + 1507
    assert large.first_token == large.longest_pause


# Pictures and widget


def test_a_bar_is_as_long_as_a_request_and_what_waits_is_grey():
    ways = {"static": batching.static(LENGTHS, 4), "continuous": batching.continuous(LENGTHS, 4)}
    canvas, words = pictures.rows_by_steps(ways, 4)
    assert_legible(canvas.svg(words))
    assert "static, 193 steps, 58% of the places in use; continuous, 129 steps, 87%" in words
    grey = [width for _, _, width, _ in boxes(canvas, style.GRID)]
    scale = assert_to_scale(grey, [193, 129])
    first = [width for _, _, width, _ in boxes(canvas, style.request_colour(2)) if width]
    assert first[0] == pytest.approx(LENGTHS[2] * scale)


def test_the_loop_and_the_shares_are_legible():
    assert_legible(pictures.loop()[0].svg("In words."))
    steps = [[(0, 1), (1, 5)], [(0, 1), (1, 1)]]
    canvas, words = pictures.shares_by_step(steps, 2, "a budget of 6", 6)
    assert_legible(canvas.svg(words))
    assert texts(canvas).count("5") == 1 and "step 0: request 0 runs 1, request 1 runs 5" in words


def test_the_costs_of_budgets_are_those_of_the_runs():
    waits = {budget: batching.long_prompt(budget) for budget in (24, 512)}
    figure, words = pictures.cost_of_budgets(waits, batching.long_prompt(None))
    line = figure.axes[1].lines[0]
    assert list(line.get_ydata()) == [waits[24].mean_end, waits[512].mean_end] and "least at 24" in words


def test_blocks_are_as_high_as_they_are_many():
    canvas, words = pictures.blocks_over_steps([3, 6, 12, 4], 12, 3, "second aborted")
    assert_legible(canvas.svg(words))
    tall = [height for *_, height in boxes(canvas, style.TOKEN)]
    assert_to_scale(tall, [3, 6, 12, 4])
    assert "from 12 to 4 blocks" in words


test_widget, test_moves, test_controls = widget_tests(
    widgets,
    {"budget": [{}, dict(budget=1, prompt=30, running=5), dict(budget=None, prompt=30, running=1),
                dict(budget=2, prompt=1, running=5), dict(budget=24, prompt=30, running=5)]},
)  # fmt: skip
