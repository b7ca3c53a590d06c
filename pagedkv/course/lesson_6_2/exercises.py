"""Exercises of lesson 6.2: spend a budget, count the steps of a batch that never waits; the loop that decides who runs
is in `own_schedule`.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_6_2.own_schedule import SCHEDULE

# Split


def split(pending, budget):
    """Tokens that each request runs: in order, as many as are pending, while the budget lasts."""
    shares = []
    for tokens in pending:
        shares.append(min(tokens, budget))
        budget -= shares[-1]
    return shares


def _split_cases(random):
    yield from (([1, 1, 9, 4], 8), ([1, 1], 1), ([2], 1), ([9, 1], 4), ([1, 1, 1], 3), ([3, 4], 100), ([], 5))
    yield from (([5, 1, 1], 5), ([4, 4, 4], 6), ([1, 7, 1, 1], 8))
    for _ in range(12):
        pending = [random.choice((1, 1, 1, random.randrange(2, 30))) for _ in range(random.randrange(1, 9))]
        yield pending, random.randrange(1, 2 * sum(pending))


def _all_or_nothing(pending, budget):
    shares = []
    for tokens in pending:
        shares.append(tokens if tokens <= budget else 0)
        budget -= shares[-1]
    return shares


def _below_zero(pending, budget):
    return [min(tokens, budget - sum(pending[:i])) for i, tokens in enumerate(pending)]


def _equal(pending, budget):
    return [min(tokens, budget // len(pending)) for tokens in pending]


def _stops(pending, budget):
    shares = _all_or_nothing(pending, budget)
    return shares if 0 not in shares else shares[: shares.index(0)] + [0] * (len(shares) - shares.index(0))


def _decodes_first(pending, budget):
    order = sorted(range(len(pending)), key=lambda i: pending[i] > 1)
    shares = dict(zip(order, split([pending[i] for i in order], budget), strict=True))
    return [shares[i] for i in range(len(pending))]


def _shortest_first(pending, budget):
    order = sorted(range(len(pending)), key=lambda i: pending[i])
    shares = dict(zip(order, split([pending[i] for i in order], budget), strict=True))
    return [shares[i] for i in range(len(pending))]


SPLIT_MISTAKES = (
    (lambda p, b: [min(tokens, b) for tokens in p], "the budget is one for all: what the first have taken is gone"),
    (_below_zero, "what is left of the budget falls below 0: take off what was given, not what is pending"),
    (_all_or_nothing, "a request that does not fit whole runs what is left of the budget: a chunk"),
    (_stops, "a request that does not fit whole runs what is left of the budget: a chunk"),
    (lambda p, b: _equal(p, b) if p else [], "the budget is not shared out evenly: the first in order take first"),
    (lambda p, b: split(p[::-1], b)[::-1], "in order of admission: the first of the list comes first"),
    (_decodes_first, "in order of admission, whether one token is pending or many"),
    (_shortest_first, "in order of admission, not of size"),
    (lambda p, b: [n for n in split(p, b) if n], "one number for each request: 0 for those the budget does not reach"),
    (lambda p, b: split(p, b) if sum(p) > b else [*split(p, b)[:-1], *([b - sum(p[:-1])] if p else [])],
     "a request cannot run more than it has pending, though budget is left"),
    (lambda p, b: [min(n, 1) for n in split(p, b)], "a request with more pending may run more than one token"),
    (lambda p, b: sum(split(p, b)), "a list is expected, of what each request runs"),
)  # fmt: skip

SPLIT = Exercise("6.2-split", "spend a budget", (
    calls("a budget that is enough, or not", split, _split_cases, mistakes=SPLIT_MISTAKES),
), )  # fmt: skip

# Steps


def continuous_steps(lengths, rows):
    """Steps until all are done: who leaves makes room for the next in order."""
    free_at = [0] * rows
    for steps in lengths:
        row = free_at.index(min(free_at))
        free_at[row] += steps
    return max(free_at)


def _batches(lengths, rows):
    return sum(max(lengths[i : i + rows]) for i in range(0, len(lengths), rows))


def _idle(lengths, rows):
    """A freed row waits for a step."""
    free_at = [-1] * rows
    for steps in lengths:
        row = free_at.index(min(free_at))
        free_at[row] += 1 + steps
    return max([at for at in free_at if at >= 0], default=0)


def _dealt(lengths, rows):
    return max((sum(lengths[row::rows]) for row in range(rows)), default=0)


def _step_cases(random):
    yield from (([5], 3), ([6, 4, 1], 2), ([4, 6], 1), ([3, 3, 3], 3), ([1, 1, 1, 1], 2), ([1, 9, 1, 9], 2), ([], 2))
    yield from (([9, 1, 1, 1, 1], 2), ([2, 5, 4, 1, 7], 3))
    for _ in range(12):
        yield [random.randrange(1, 20) for _ in range(random.randrange(1, 14))], random.randrange(1, 5)


STEP_MISTAKES = (
    (_batches, "these are batches that wait for their longest request; here who leaves makes room at once"),
    (lambda n, r: -(-sum(n) // r), "a request has one row: a long one goes on alone when the others have ended"),
    (lambda n, r: max(-(-sum(n) // r), max(n, default=0)),
     "neither bound is the answer: which request comes when decides how the rows end"),
    (_idle, "a row that is free is taken in the very next step"),
    (_dealt, "rows are not dealt out beforehand: the next in order takes the row that is free first"),
    (lambda n, r: continuous_steps(sorted(n, reverse=True), r), "first come, first served: the lengths are not known"),
    (lambda n, r: continuous_steps(sorted(n), r), "first come, first served: the lengths are not known"),
    (lambda n, r: sum(n), "several rows run in the same step"),
    (lambda n, r: max(n, default=0), "there are only so many rows: some requests have to wait for one"),
    (lambda n, r: continuous_steps(n, r) - 1 if n else 0, "a request of n tokens is in its row for n steps"),
    (lambda n, r: continuous_steps(n, r) + 1, "a request of n tokens is in its row for n steps"),
)  # fmt: skip

STEPS = Exercise("6.2-steps", "steps of a batch that never waits", (
    calls("steps until the last has ended", continuous_steps, _step_cases, mistakes=STEP_MISTAKES),
))  # fmt: skip

EXERCISES = (SPLIT, STEPS, SCHEDULE)
