"""Advancing from event to event against advancing by single steps, on 8,000 requests that all wait at the start."""

from time import perf_counter

import pytest
from plain_simulator import PagedWithIds, simulate_plainly
from test_simulator import assert_same

from pagedkv.arena import BuddyArena
from pagedkv.policies import MaxLength, Oracle, Paged, PowerOfTwo
from pagedkv.simulator import simulate
from pagedkv.workload import sample_requests

SLOTS = 15_728


@pytest.mark.speed
@pytest.mark.parametrize(("make", "plain"), [
    (lambda: MaxLength(BuddyArena(SLOTS)), None),
    (lambda: PowerOfTwo(BuddyArena(SLOTS)), None),
    (lambda: Oracle(BuddyArena(SLOTS)), None),
    (lambda: Paged(SLOTS // 16), lambda: PagedWithIds(SLOTS // 16)),
], ids=["max", "pow2", "oracle", "paged"])
def test_ten_times_faster_than_step_by_step_and_the_same(make, plain):
    requests = sample_requests("paper-sharegpt", 8000)
    times = []
    for _ in range(3):
        policy, start = make(), perf_counter()
        timeline = simulate(requests, policy, SLOTS)
        times.append(perf_counter() - start)
    policy, start = (plain or make)(), perf_counter()
    rows = simulate_plainly(requests, policy, SLOTS)
    plain_time = perf_counter() - start
    assert_same(timeline, rows)
    assert plain_time > 10 * sorted(times)[1]
