"""What lesson 6.2 runs without a model: batches that wait and batches that do not, and a long prompt under a budget,
counted in steps and tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pagedkv.block_pool import BlockPool
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler

STEP = 64  # what a step costs beside its tokens, in tokens: reading the weights, launching


class Stay(NamedTuple):
    """A request in a row of the batch, from step `first` on for `steps` steps."""

    row: int
    first: int
    steps: int


def static(lengths: Sequence[int], rows: int) -> list[Stay]:
    """Batches of `rows` requests; the next begins when the last of a batch has ended."""
    stays, first = [], 0
    for i in range(0, len(lengths), rows):
        batch = lengths[i : i + rows]
        stays += [Stay(row, first, steps) for row, steps in enumerate(batch)]
        first += max(batch)
    return stays


def plain_engine(num_blocks=1000, block_size=4, **options) -> Engine:
    """An engine whose model always says 7."""
    return Engine(Scheduler(BlockPool(num_blocks, block_size), **options), lambda step: [7] * len(step.ready))


def grid_of(engine: Engine) -> list[list[tuple[int, int]]]:
    """Run an engine to its end; for each step, (request, tokens) of its shares."""
    steps, run = [], engine.run

    def watched(step):
        steps.append([(request.request_id, n) for request, n in step.work])
        return run(step)

    engine.run = watched
    while engine.busy:
        engine.step()
    return steps


def continuous(lengths: Sequence[int], rows: int) -> list[Stay]:
    """What an engine does with prompts of one token and at most `rows` running: who leaves makes room at once."""
    engine = plain_engine(max_running=rows)
    for length in lengths:
        engine.add([1], Sampling(length))
    first, row_of, free = {}, {}, list(range(rows))
    steps = grid_of(engine)
    for step, shares in enumerate(steps):
        here = {request for request, _ in shares}
        free += sorted(row_of[request] for request in row_of if request in first and request not in here and (
            first[request] + lengths[request] == step))  # fmt: skip
        for request in sorted(here - first.keys()):
            first[request], row_of[request] = step, free.pop(0)
    return [Stay(row_of[i], first[i], length) for i, length in enumerate(lengths)]


class Waits(NamedTuple):
    """What a long prompt does to everybody, in tokens' worth of work."""

    first_token: int  # until the long prompt's first token
    longest_pause: int  # the longest step while others decode
    mean_end: float  # until a request has its last token, mean of all
    steps: int


def long_prompt(budget: int | None, prompt: int = 1500, others: int = 7, tokens: int = 20) -> Waits:
    """`others` decode and have `tokens` to come when a prompt arrives that is to be answered with as many. A step costs
    STEP and one for each of its tokens.
    """
    engine = plain_engine(num_blocks=4000, token_budget=budget)
    early = [engine.add([1], Sampling(tokens + 1)) for _ in range(others)]
    while any(request.num_pending != 1 or not request.output for request in engine.scheduler.running.values()) or (
        len(engine.scheduler.running) < others
    ):
        engine.step()
    late, now, first, pause, ends, before = (
        engine.add([1] * prompt, Sampling(tokens)),
        0,
        None,
        0,
        {},
        len(engine.usage),
    )
    while engine.busy:
        given = engine.step()
        usage = engine.usage[-1]
        cost = STEP + usage.prefill_tokens + usage.decode_tokens
        now += cost
        pause = max(pause, cost) if any(request not in ends for request in early) else pause
        first = now if first is None and any(token.request_id == late for token in given) else first
        ends |= {token.request_id: now for token in given if token.finish_reason}
    return Waits(first, pause, sum(ends.values()) / len(ends), len(engine.usage) - before)
