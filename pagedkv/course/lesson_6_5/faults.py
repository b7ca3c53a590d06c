"""Three engines with a planted fault each, and what they hold and write step by step.

The scene is the same for all: requests with one beginning in a pool too small for them, so that some are preempted.
"""

from functools import cache
from typing import NamedTuple

from pagedkv.block_pool import BlockPool, OutOfBlocks

NUM_BLOCKS, BLOCK_SIZE, MOST = 19, 4, 120  # steps of a run at most
NAMES = ("HORATIO", "OPHELIA", "CLAUDIUS", "LAERTES")
LENGTHS = (14, 26, 22, 18)  # new tokens of each


class Seen(NamedTuple):
    """An engine after a step."""

    free: int  # blocks
    tables: dict[int, list[int]]  # of the requests that run
    written: dict[int, list[int]]  # tokens so far, of all requests
    ended: list[int]
    preempted: list[int]


class ForgetsOwners(BlockPool):
    """The fault of B: whoever gives a block back sets it free, though others hold it."""

    def free(self, ids):
        for block in list(ids):
            while self.ref_count(block):
                super().free([block])


def schedule(running, waiting, pool, budget, kept_free, new_table, *, keeps=False, skips=False):
    """Lesson 6.2's schedule. keeps: the fault of A, a victim's last block gets an owner that nobody is. skips: that of
    C, who comes back runs its newest token only.
    """
    work = []
    for request in list(running):
        while request.table is not None:
            try:
                request.table.append(n := request.num_pending)
            except OutOfBlocks:
                latest = running.pop()
                if keeps:
                    pool.share(latest.table.blocks[-1:])
                latest.table.free()
                latest.table = None
                waiting.appendleft(latest)
            else:
                work.append((request, n))
                break
    while waiting and -(-len(waiting[0].tokens) // pool.block_size) <= pool.num_free:
        running.append(request := waiting.popleft())
        request.table = new_table(pool)
        if skips and request.output:
            request.table.append(request.num_pending - 1)
        request.table.append(n := request.num_pending)
        work.append((request, n))
    return work


@cache
def run(engine: str = "") -> tuple[Seen, ...]:
    """What is seen of engine "A", "B" or "C" after each step, of one without a fault where left out."""
    from pagedkv.course.lesson_6_5.own_engine import OwnRunner
    from pagedkv.course.lesson_6_5.wrappers import ByHand
    from pagedkv.engine import plays
    from pagedkv.engine.batch import paged
    from pagedkv.engine.engine import Engine
    from pagedkv.engine.request import Sampling
    from pagedkv.engine.scheduler import Scheduler
    from pagedkv.prefix_cache import PrefixCache

    model, tokenizer = plays.load()
    pool = (ForgetsOwners if engine == "B" else BlockPool)(NUM_BLOCKS, BLOCK_SIZE)
    if engine in ("A", "C"):
        slip = {"keeps": engine == "A", "skips": engine == "C"}
        scheduler = ByHand(pool, lambda *inputs: schedule(*inputs, **slip), watermark=0.0)
    else:
        scheduler = Scheduler(pool, watermark=0.0, prefix=PrefixCache(pool))
    served = Engine(scheduler, OwnRunner(model, NUM_BLOCKS, BLOCK_SIZE, hole=paged))
    requests = []
    for i, (name, new) in enumerate(zip(NAMES, LENGTHS, strict=True)):
        served.add(tokenizer.encode(f"**HAMLET**\nGood night.\n**{name}**\n").ids, Sampling(new, 0.8, seed=i))
        requests.append(scheduler.waiting[-1])
    return tuple(_watched(served, requests))


def _watched(engine, requests):
    for _ in range(MOST):
        if not engine.busy:
            return
        before = len(engine.events)
        try:
            ended = [token.request_id for token in engine.step() if token.finish_reason]
        except ValueError:  # the package's parts refuse what a fault has led to; that is where this engine stops
            return
        running = engine.scheduler.running
        yield Seen(
            engine.scheduler.pool.num_free,
            {number: list(request.table.blocks) for number, request in running.items()},
            {request.request_id: list(request.output) for request in requests},
            ended,
            [event.request_id for event in engine.events[before:] if event.what == "preempted"],
        )


def right_tokens() -> dict[int, list[int]]:
    return run()[-1].written
