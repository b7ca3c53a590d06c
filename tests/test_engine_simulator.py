"""The simulator tells the truth: step by step it holds, runs and preempts what the engine does."""

import random

import numpy as np
import pytest

from pagedkv.block_pool import BlockPool
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache
from pagedkv.simulation.engine_run import timeline_of
from pagedkv.simulation.policies import Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.timeline import SHARES
from pagedkv.simulation.workload import Request, sample_requests


def engine_run(requests, num_blocks, block_size, watermark) -> Engine:
    """The engine on requests that arrive at whole steps; a request's last token is never stored."""
    pool = BlockPool(num_blocks, block_size)
    engine = Engine(Scheduler(pool, watermark=watermark), lambda step: [0] * len(step.ready))
    coming = list(requests)
    while coming or engine.busy:
        while coming and coming[0].arrival_s <= len(engine.usage):
            request = coming.pop(0)
            engine.add([request.request_id] * request.prompt_tokens, Sampling(request.output_tokens + 1))
        engine.step()
    assert pool.num_free == num_blocks
    return engine


def at_each_step(timeline, name):
    return np.repeat(getattr(timeline, name), timeline.duration)


def assert_equal(requests, num_blocks, block_size, watermark) -> int:
    """Hold the engine, its Timeline and the simulator's against one another; returns the preemptions."""
    engine = engine_run(requests, num_blocks, block_size, watermark)
    right = simulate(requests, Paged(num_blocks, block_size, watermark), num_blocks * block_size, step_s=1.0)
    held = sum(at_each_step(right, name) for name in ("token_states", "reserved", "internal")) // block_size
    for name, simulated in (
        ("blocks_used", held),
        ("tokens_stored", at_each_step(right, "token_states")),
        *((name, at_each_step(right, name)) for name in ("running", "waiting")),
        ("preempted", at_each_step(right, "preemptions")),
    ):
        assert [getattr(row, name) for row in engine.usage] == simulated.tolist(), name
    drawn = timeline_of(engine)
    for name in (*SHARES, "running", "waiting", "preemptions"):
        assert at_each_step(drawn, name).tolist() == at_each_step(right, name).tolist(), name
    assert drawn.shares() == pytest.approx(right.shares()) and drawn.finished == right.finished
    return int(right.preemptions.sum())


def test_on_200_random_workloads_nothing_differs():
    rng, preempted = random.Random(0), 0
    for _ in range(200):
        block_size = rng.choice([1, 2, 4, 16])
        num_blocks = rng.randint(4, 40)
        arrival, requests = 0, []
        for i in range(rng.randint(1, 20)):
            arrival += rng.choice([0, 0, 1, 3, 30])
            prompt = rng.randint(1, min(40, num_blocks * block_size))
            output = rng.randint(0, min(40, num_blocks * block_size - prompt))
            requests.append(Request(i, float(arrival), prompt, output))
        preempted += assert_equal(requests, num_blocks, block_size, rng.choice([0.0, 0.01, 0.1, 0.3]))
    assert preempted > 100


def test_on_the_azure_conversation_lengths_nothing_differs():
    requests = [
        Request(i, float(i // 4), max(1, request.prompt_tokens // 8), request.output_tokens // 8)
        for i, request in enumerate(sample_requests("azure-conv", 200, seed=1))
    ]
    assert assert_equal(requests, 120, 16, 0.01) > 10


def test_a_run_that_grows_by_more_than_a_token_has_no_such_timeline():
    pool = BlockPool(20, 4)
    for options in (dict(token_budget=3), dict(prefix=PrefixCache(pool))):
        engine = Engine(Scheduler(pool, **options), lambda step: [0] * len(step.ready))
        engine.generate([[1] * 9])
        with pytest.raises(ValueError, match="neither a token budget nor reuse"):
            timeline_of(engine)
    engine = Engine(Scheduler(pool), list)
    for _ in range(2):
        with pytest.raises(ValueError, match="must have run a step"):
            timeline_of(engine)
        assert engine.step() == []  # idle


@pytest.mark.parametrize("waits", [0, 3])
def test_who_is_let_go_before_it_ran_has_not_finished(waits):
    engine = Engine(Scheduler(BlockPool(20, 4)), lambda step: [0] * len(step.ready))
    stays = engine.add([1] * 5, Sampling(9))
    for _ in range(waits):
        engine.step()
    engine.abort(engine.add([1] * 5))
    assert len(list(engine.stream())) == 9 - waits
    run = timeline_of(engine)
    assert run.finished == {stays: 8} and run.waiting.max() == 0 and run.running.tolist() == [1] * 9


@pytest.mark.parametrize("cleared", [("usage",), ("events",), ("usage", "events")])
def test_a_run_that_is_told_in_part_has_no_timeline(cleared):
    engine = Engine(Scheduler(BlockPool(20, 4)), lambda step: [0] * len(step.ready))
    engine.generate([[1] * 5])
    engine.usage.clear(), engine.events.clear()  # nobody is there
    engine.add([1] * 5, Sampling(9))
    for _ in range(2):
        engine.step()
    assert timeline_of(engine).token_states.tolist() == [5, 6]
    for name in cleared:
        getattr(engine, name).clear()
    assert len(list(engine.stream())) == 7
    with pytest.raises(ValueError, match="must have usage and events of one run"):
        timeline_of(engine)
