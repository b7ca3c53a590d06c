"""The exercise of lesson 6.2 in which the learner writes `schedule`, judged beside the package's rule step by step."""

from collections import deque

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Exercise, Part, Role, hidden
from pagedkv.engine.request import Generation, Sampling
from pagedkv.sizing import ceil_div

MOST = 120  # steps of a run at most: what goes in circles is cut there


def schedule(
    running, waiting, pool, budget, kept_free, new_table, *, victim=-1, tail=False, ignore_kept=False,
    kept_when_idle=False, overtake=False, whole_budget=False, strict=False, leak=False, first_admit=False,
    chunk_only=False, one_by_one=False, prompt_only=False,
):  # fmt: skip
    """Who runs how many tokens in the next step: [(request, n), ...]. The keyword arguments make the usual mistakes."""
    work, given = [], budget

    def admit():
        nonlocal budget
        place = 0
        while place < len(waiting) and budget:
            request = waiting[place]
            known = request.num_prompt if prompt_only else len(request.tokens)
            needed = ceil_div(min(known, budget) if chunk_only else known, pool.block_size)
            kept = 0 if ignore_kept or not (running or kept_when_idle) else kept_free
            if needed + kept + strict > pool.num_free:
                if not overtake:
                    break
                place += 1
                continue
            del waiting[place]
            request.table = new_table(pool)
            running.append(request)
            share(request)
            if one_by_one:
                break

    def share(request):
        nonlocal budget
        n = min(request.num_pending, given if whole_budget else budget)
        request.table.append(n)
        work.append((request, n))
        budget -= n

    if first_admit:
        admit()
    for request in list(running):
        if budget <= 0 or request.table is None or any(request is other for other, _ in work):
            continue
        while request.table is not None:
            try:
                share(request)
                break
            except OutOfBlocks:
                latest = running.pop(victim)
                if not leak:
                    latest.table.free()
                latest.table = None
                waiting.append(latest) if tail else waiting.appendleft(latest)
    if not first_admit:
        admit()
    return work


class Case:
    """Requests of (prompt, new tokens) on a pool, some of them running already with some of it stored."""

    def __init__(self, blocks, size, budget, kept, requests, running=()):
        self.given = blocks, size, budget, kept, tuple(requests), tuple(running)

    def outcome(self, decide) -> list:
        """What `decide` leaves after each step: shares, running, waiting, free blocks."""
        blocks, size, budget, kept, requests, started = self.given
        pool, seen = BlockPool(blocks, size), []
        all_of = [Generation(i, [1] * prompt, Sampling(new)) for i, (prompt, new) in enumerate(requests)]
        for request, (stored, sampled) in zip(all_of, started, strict=False):
            request.tokens += [7] * sampled
            request.table = BlockTable(pool)
            request.table.append(stored)
        running, waiting = all_of[: len(started)], deque(all_of[len(started) :])
        while (running or waiting) and len(seen) < MOST:
            work = call(lambda: decide(running, waiting, pool, budget, kept, BlockTable), answer=decide)
            shares = _shares(work)
            ids = [[request.request_id for request in group] for group in (running, waiting)]
            seen.append((shares, *ids, pool.num_free, [r.request_id for r in waiting if r.table is not None]))
            if not shares:
                break
            for request in [request for request in running if request.num_pending == 0]:
                request.tokens.append(7)
                if len(request.tokens) == request.num_prompt + request.sampling.max_new_tokens:
                    running.remove(request)
                    request.table.free()
                    request.table = None
        return seen


def _shares(work) -> list[tuple[int, int]]:
    if not isinstance(work, (list, tuple)):
        raise Wrong("a list of (request, n) is expected")
    shares = []
    for pair in work:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], Generation):
            raise Wrong("a list of (request, n) is expected, each with a request of `running`")
        if type(pair[1]) is not int or pair[1] < 1:
            raise Wrong("each request in the list runs a whole number of tokens, at least 1; leave out who runs none")
        shares.append((pair[0].request_id, pair[1]))
    return shares


def _part(title: str, cases):
    def test(answer):
        drawn = list(cases(hidden(title)))
        got = [case.outcome(answer) for case in drawn]
        right = [case.outcome(schedule) for case in drawn]
        if got == right:
            return
        for mistake, sentence in MISTAKES:
            if _like(mistake, drawn, got):
                raise Wrong(sentence)
        raise Wrong(_difference(drawn, right, got))

    return Part(title, test)


def _like(mistake, drawn, got) -> bool:
    try:
        return all(case.outcome(mistake) == seen for case, seen in zip(drawn, got, strict=True))
    except Wrong:
        return False


def _difference(drawn, right, got) -> str:
    for case, good, mine in zip(drawn, right, got, strict=True):
        waited = set(range(len(case.given[5]), len(case.given[4])))
        for step, (expected, found) in enumerate(zip(good, mine, strict=False)):
            if expected != found:
                return _slip(case.given[2], waited, expected, found) or _named(step, expected, found)
            waited = set(found[2])
    return "the run does not end when it should; go through the rule line by line"


def _slip(budget, waited, expected, found) -> str | None:
    """What the first wrong step says by itself, whatever the rest of the rule."""
    shares, running = found[:2]
    if sum(n for _, n in shares) > budget:
        return "the budget is not kept: all shares together have at most `budget` tokens"
    if not {number for number, _ in shares} <= set(running):
        return "who runs stands in `running` too: an admitted request goes to its end"
    if set(expected[2]) - waited != set(found[2]) - waited:
        return "who has to go: the latest of `running`, then the one before it, only until there is room"


def _named(step, expected, found) -> str:
    names = "the shares", "who runs", "who waits", "the number of free blocks"
    for name, a, b in zip(names, expected, found, strict=False):
        if a != b:
            when = "in the first step" if step == 0 else "after some steps"
            return f"{name}: {when} not as the rule says; go through the rule line by line"
    return "who waits has no table: give its blocks back and set request.table to None"


def _with(**mistake):
    return lambda *inputs: schedule(*inputs, **mistake)


def _without_budget(running, waiting, pool, budget, kept_free, new_table):
    return schedule(running, waiting, pool, 10**6, kept_free, new_table)


def _nobody_admitted(running, waiting, pool, budget, kept_free, new_table):
    return schedule(running, deque(), pool, budget, kept_free, new_table)


MISTAKES = (
    (_with(first_admit=True), "new requests are admitted before the running ones grow; those come first"),
    (_without_budget, "the budget is not kept: all shares together have at most `budget` tokens"),
    (_with(whole_budget=True), "each request gets the whole budget; what the ones before have taken is gone"),
    (_with(ignore_kept=True), "an admission leaves `kept_free` blocks free while others run"),
    (_with(kept_when_idle=True),
     "with nothing running, `kept_free` does not count: a large request would wait for ever"),
    (_with(overtake=True),
     "a later request overtakes: when the head of the queue does not fit, nobody behind it is admitted"),
    (_with(victim=0), "the earliest request is preempted; the latest admitted goes"),
    (_with(tail=True), "a preempted request goes to the head of the queue, or later ones overtake it"),
    (_with(prompt_only=True),
     "a request that comes back needs room for all its known tokens, those that it has sampled too"),
    (_with(chunk_only=True), "an admission needs room for all known tokens, not only for the first chunk"),
    (_with(strict=True), "if exactly `kept_free` blocks stay free, the request is admitted"),
    (_with(leak=True), "a preempted request has to give its blocks back: table.free()"),
    (_with(one_by_one=True), "several requests may be admitted in one step: go on while the head fits"),
    (_nobody_admitted, "nobody is ever admitted"),
)  # fmt: skip


def _grow(random):
    yield Case(40, 4, 100, 0, [(6, 4), (3, 5), (9, 2)], [(6, 1), (3, 2), (4, 0)])
    yield Case(40, 4, 4, 0, [(6, 4), (3, 5), (9, 2)], [(6, 1), (3, 2), (4, 0)])
    yield Case(40, 4, 2, 0, [(6, 4), (3, 5), (9, 2)], [(6, 1), (3, 2), (4, 0)])
    for _ in range(6):
        requests = [(random.randrange(2, 20), random.randrange(2, 8)) for _ in range(3)]
        yield Case(40, 4, random.randrange(3, 12), 0, requests, [(n, 1) for n, _ in requests[:2]] + [(1, 0)])


def _admit(random):
    yield Case(10, 4, 100, 2, [(8, 3), (12, 2), (4, 4), (9, 3)])
    yield Case(10, 4, 6, 2, [(8, 3), (12, 2), (4, 4), (9, 3)])
    yield Case(10, 4, 100, 5, [(30, 2), (3, 2)])
    yield Case(8, 4, 100, 1, [(4, 9), (28, 2), (3, 2)])
    yield Case(8, 4, 100, 1, [(32, 1), (3, 2)])  # the whole pool
    yield Case(8, 4, 100, 2, [(8, 4), (16, 2), (16, 2), (1, 1)])
    yield Case(12, 4, 5, 0, [(9, 1), (40, 1)], [(9, 1)])
    for _ in range(6):
        requests = [(random.randrange(1, 24), random.randrange(1, 5)) for _ in range(5)]
        yield Case(30, 4, random.choice((5, 12, 100)), random.randrange(4), requests)


def _preempt(random):
    yield Case(4, 4, 100, 0, [(7, 6), (7, 6), (7, 6)])
    yield Case(6, 2, 100, 0, [(4, 6), (3, 6), (2, 7), (1, 2)])
    yield Case(6, 2, 100, 1, [(4, 6), (3, 6), (2, 7), (1, 2)])
    yield Case(7, 2, 6, 1, [(5, 9), (4, 9), (3, 8), (6, 2), (1, 3)])
    yield Case(5, 1, 100, 0, [(2, 4), (1, 5), (1, 2), (3, 1)])
    yield Case(9, 2, 100, 0, [(6, 8), (4, 8), (2, 8), (1, 1), (1, 1)])
    for _ in range(10):
        size = random.choice((1, 2, 4))
        requests = [(random.randrange(1, 4 * size + 2), random.randrange(2, 4 * size + 2)) for _ in range(6)]
        most = max(ceil_div(prompt + new - 1, size) for prompt, new in requests)
        yield Case(most + random.randrange(3), size, random.choice((4, 100)), random.randrange(3), requests)


SCHEDULE = Exercise(
    "6.2-schedule",
    "who runs next",
    (
        _part("running requests, in order, within the budget", _grow),
        _part("waiting requests are admitted", _admit),
        _part("a block is missing", _preempt),
    ),
    in_order=True,
    role=Role("schedule", lambda: schedule),
)
