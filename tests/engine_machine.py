"""A model whose next token is a checksum of its whole context, and random runs of the engine on it: whatever is wrong
with slots, tables, reuse or swapping changes a token.
"""

import random
from types import SimpleNamespace

import torch
from torch.nn.functional import one_hot

from pagedkv.block_pool import BlockPool
from pagedkv.engine.batch import paged
from pagedkv.engine.engine import Engine
from pagedkv.engine.model import ModelShape
from pagedkv.engine.request import Sampling
from pagedkv.engine.runner import Runner
from pagedkv.engine.scheduler import Scheduler
from pagedkv.engine.swap import HostPool
from pagedkv.prefix_cache import PrefixCache

VOCABULARY = 97


class Checksum:
    """With q = 0 attention is the mean of V: multiplied by the number of tokens in sight and rounded, an exact sum of
    whole numbers."""

    shape, dtype = ModelShape(VOCABULARY, 1, 16, 16, 1, 1, 16), torch.float64

    def __init__(self, window=None):
        self.window = window or 10**9

    def __call__(self, tokens, positions, attend, last):
        numbers = torch.zeros(len(tokens), 1, 16, dtype=torch.float64)
        numbers[:, 0, 0] = checksum_term(tokens, positions)
        nothing = torch.zeros_like(numbers)
        mean = attend(0, nothing, nothing, numbers)[last, 0, 0]
        return one_hot(
            (mean * (positions[last] + 1).clamp(max=self.window)).round().long() % VOCABULARY, VOCABULARY
        ).double()


def checksum_term(token, position):
    return (token * 31 + 7 * position + 5) % VOCABULARY * (position % 13 + 1)


def continued(prompt: list[int], count: int, window: int | None = None) -> list[int]:
    """What the checksum model writes after `prompt`, in plain Python."""
    tokens = list(prompt)
    for _ in range(count):
        seen = list(enumerate(tokens))[-window if window else 0 :]
        tokens.append(sum(checksum_term(token, position) for position, token in seen) % VOCABULARY)
    return tokens[len(prompt) :]


class Exchanged(Runner):
    """Writes V to the K cache and K to the other, and so reads what was written to K."""

    def logits(self, batch):
        exchanged = SimpleNamespace(k=self.cache.v, v=self.cache.k)
        attend = paged(exchanged, batch, window=self.window)
        return self.model(batch.tokens, batch.positions, attend, batch.last)


def random_engine(rng: random.Random, **fixed) -> Engine:
    block_size = rng.choice([1, 2, 4, 8])
    options = (
        dict(
            num_blocks=rng.randint(60, 100) // block_size,
            token_budget=rng.choice([None, None, 1, 7, 20]),
            max_running=rng.choice([3, 64]),
            watermark=rng.choice([0.0, 0.01, 0.3]),
            reuse=rng.random() < 0.5,
            host_blocks=rng.choice([0, 0, 3, 200]),
            keys=rng.random() < 0.4,
            window=rng.choice([None] * 6 + [1, 5, 12]),
        )
        | fixed
    )
    window = options["window"]
    longest = options["num_blocks"] * (rng.choice([1, 3]) if window else 1)  # blocks of a table
    pool = BlockPool(options["num_blocks"], block_size)
    runner = (Exchanged if options["keys"] else Runner)(
        Checksum(window),
        pool.num_blocks,
        block_size,
        max_running=options["max_running"],
        max_blocks=longest,
        window=window,
    )
    scheduler = Scheduler(
        pool,
        token_budget=options["token_budget"],
        max_running=options["max_running"],
        watermark=options["watermark"],
        prefix=PrefixCache(pool) if options["reuse"] else None,
        host=HostPool(runner.cache, options["host_blocks"]) if options["host_blocks"] else None,
        max_blocks=longest,
        window=window,
    )
    return Engine(scheduler, runner, VOCABULARY)


class Failure(Exception):
    pass


def random_run(seed: int, **fixed) -> Engine:
    """Serve random requests, some of which share beginnings, with aborts and failing steps, asserting after every step
    what must hold."""
    rng, moods = random.Random(seed), random.Random(~seed)
    engine = random_engine(rng, **fixed)
    scheduler, pool = engine.scheduler, engine.scheduler.pool
    run, fail_next = engine.run, False

    def runs(step):
        assert not step.preempted or len(step.admitted) in (0, len(scheduler.running)), (
            "admitted while others had to go"
        )
        if fail_next:
            if rng.random() < 0.5:
                run(step)
            raise Failure
        return run(step)

    engine.run = runs
    beginnings = [[rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 40))] for _ in range(3)]
    prompts, outputs, given, aborted = {}, {}, [], set()
    most = scheduler.max_blocks * pool.block_size
    for _ in range(rng.randint(4, 12)):
        prompt = rng.choice(beginnings)[: rng.randint(1, 24)] + [
            rng.randrange(VOCABULARY) for _ in range(rng.randint(0, 9))
        ]
        new = rng.randint(1, 24) if scheduler.max_blocks == pool.num_blocks else rng.randint(1, 2 * most // 3)
        identity = rng.choice([None, None, "a"])
        given.append((prompt, new, identity))
    steps = 0
    order = []
    while given or engine.busy:
        while given and rng.random() < 0.6:
            prompt, new, identity = given.pop()
            if len(prompt) + new - 1 > most:
                continue
            request_id = engine.add(prompt, Sampling(new), identity)
            prompts[request_id], outputs[request_id] = (prompt, new), []
            order.append(request_id)
        fail_next = rng.random() < 0.05
        try:
            for token in engine.step():
                outputs[token.request_id].append(token.token)
        except Failure:
            pass
        steps += 1
        assert steps < 5000, "it does not end"
        check(engine)
        if scheduler.prefix is not None and moods.random() < 0.03:
            scheduler.prefix.clear()
        live = [i for i in order if i in engine.scheduler.live]
        if live and rng.random() < 0.04:
            gone = rng.choice(live)
            engine.abort(gone)
            aborted.add(gone)
            check(engine)
    for request_id, (prompt, new) in prompts.items():
        right = continued(prompt, new, run.window)
        assert outputs[request_id] == right[: len(outputs[request_id])]
        assert request_id in aborted or len(outputs[request_id]) == new
    assert pool.num_free == pool.num_blocks and not scheduler.waiting and not scheduler.running
    assert scheduler.host is None or scheduler.host.num_free == scheduler.host.pool.num_blocks
    return engine


def check(engine: Engine) -> None:
    scheduler = engine.scheduler
    running, waiting = list(scheduler.running.values()), list(scheduler.waiting)
    scheduler.pool.check([request.table.blocks for request in running])
    assert all(request.table is None for request in waiting)
    if scheduler.window:
        most = -(-(scheduler.window.size + scheduler.token_budget - 2) // scheduler.pool.block_size) + 1
        held = [sum(block_id != -1 for block_id in request.table.blocks) for request in running]
        assert all(count <= most for count in held), "a window's blocks are kept"
    ids = [request.request_id for request in running + waiting]
    assert ids == sorted(ids), "an earlier request waits while a later one runs"
    assert sorted(ids) == sorted(engine.scheduler.live)
    assert sum(request.num_pending > 1 for request in running) <= 1 or scheduler.token_budget > 10**6
    if scheduler.token_budget < 10**6 and engine.usage:
        last = engine.usage[-1]
        assert last.prefill_tokens + last.decode_tokens <= scheduler.token_budget
