"""The published measurement of memory use: Kwon et al., SOSP 2023, figure 2 (OPT-13B on a 40 GB GPU, 15,728 slots,
ShareGPT).
"""

import numpy as np
import pytest

from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.policies import MaxLength, Oracle, Paged, PowerOfTwo
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests

SLOTS = 15_728
PUBLISHED = {  # per cent of the pool: token states, reserved, internal, external and others: here external + free
    MaxLength: (20.4, 13.3, 57.3, 8.9),
    PowerOfTwo: (26.8, 17.9, 13.6, 41.6),
    Oracle: (38.2, 25.2, 0.0, 36.6),
}


def shares(make_policy, seed):
    """The four shares as the paper divides the pool, in per cent."""
    timeline = simulate(sample_requests("paper-sharegpt", 3000, seed=seed), make_policy(), SLOTS)
    token_states, reserved, internal, external, free = (100 * share for share in timeline.shares().values())
    return token_states, reserved, internal, external + free


@pytest.mark.parametrize("policy", PUBLISHED)
def test_a_buddy_arena_gives_the_published_shares(policy):
    by_seed = np.array([shares(lambda: policy(BuddyArena(SLOTS)), seed) for seed in range(5)])
    assert np.abs(by_seed.mean(axis=0) - PUBLISHED[policy]).max() < 3
    assert np.abs(by_seed - PUBLISHED[policy]).max() < 4


@pytest.mark.parametrize("policy", [PowerOfTwo, Oracle])
def test_first_fit_leaves_far_less_outside(policy):
    token_states, _, _, others = shares(lambda: policy(Arena(SLOTS)), 0)
    assert token_states > PUBLISHED[policy][0] + 10
    assert others < PUBLISHED[policy][3] - 15


def test_the_buddy_rounding_is_most_of_what_is_external():
    timeline = simulate(sample_requests("paper-sharegpt", 3000), Oracle(BuddyArena(SLOTS)), SLOTS)
    assert timeline.rounding.sum() > 0.6 * timeline.external.sum()


@pytest.mark.parametrize("policy", PUBLISHED)
def test_while_a_request_waits_every_hole_is_too_small_for_it(policy):
    timeline = simulate(sample_requests("paper-sharegpt", 300), policy(BuddyArena(SLOTS)), SLOTS)
    assert timeline.shares()["free"] == 0 and timeline.free[-1] > 0


def test_a_paged_pool_has_free_blocks_and_no_external_slot():
    shares = simulate(sample_requests("paper-sharegpt", 300), Paged(SLOTS // 16), SLOTS).shares()
    assert shares["external"] == 0 < 0.01 < shares["free"]


def test_paging_fills_the_pool():
    for seed in range(5):
        assert shares(lambda: Paged(SLOTS // 16), seed)[0] >= 96


def test_the_published_batch_of_max_length():
    timeline = simulate(sample_requests("paper-sharegpt", 1000), MaxLength(BuddyArena(SLOTS)), SLOTS)
    assert timeline.running[timeline.waiting > 0].mean() == pytest.approx(7.0, abs=0.01)


@pytest.mark.parametrize(
    ("watermark", "token_states", "preemptions"), [(0.01, 97.1, 114), (0.05, 94.9, 26), (0.10, 91.2, 6.7)]
)
def test_a_higher_watermark_trades_memory_for_fewer_preemptions(watermark, token_states, preemptions):
    timeline = simulate(sample_requests("paper-sharegpt", 3000), Paged(SLOTS // 16, watermark=watermark), SLOTS)
    assert 100 * timeline.shares()["token_states"] == pytest.approx(token_states, abs=0.5)
    assert 100 * timeline.preemptions.sum() / 3000 == pytest.approx(preemptions, rel=0.2)
