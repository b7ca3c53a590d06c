from functools import cache

import numpy as np
import pytest

from pagedkv.block_pool import BlockPool
from pagedkv.simulation.sharing import PUBLISHED, SWITCH, SharedRequest, share_saved
from pagedkv.simulation.workload import Request, sample_requests


def used(pool):
    return pool.num_blocks - pool.num_free


@pytest.mark.parametrize("prompt", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_samples_share_the_full_blocks_of_their_prompt_and_no_others(prompt, n):
    pool = BlockPool(200, 16)
    request = SharedRequest(pool, prompt, n)
    for generated in range(1, 70):
        request.step()
        assert used(pool) == prompt // 16 + n * (-(-(prompt + generated) // 16) - prompt // 16)
        assert request.num_tokens == prompt + generated
    pool.check([table.blocks for table in request.tables])
    request.free()
    assert used(pool) == 0


def test_beams_share_what_their_last_common_beam_had():
    pool = BlockPool(400, 16)
    alone = SharedRequest(BlockPool(400, 16), 40, 4)
    beams = SharedRequest(pool, 40, 4, switch=0.3)
    for _ in range(300):
        beams.step()
        alone.step()
        pool.check([table.blocks for table in beams.tables])
        assert len(beams.tables) == 4
    assert used(pool) < 40 < used(alone.tables[0].pool)
    beams.free()
    assert used(pool) == 0


def test_one_sequence_saves_nothing_and_the_same_seed_the_same():
    requests = sample_requests("paper-alpaca", 60)
    assert share_saved(requests, 1) == share_saved(requests, 1, switch=1.0) == 0
    assert share_saved(requests, 3, switch=0.2, seed=4) == share_saved(requests, 3, switch=0.2, seed=4)


def test_a_share_by_hand():
    first = [Request(i, 0.0, 1, 16) for i in range(2)]  # the first batch is not counted
    requests = first + [
        Request(i, 0.0, 32, 16) for i in range(2, 8)
    ]  # each takes 2 shared blocks and, after the prefill, 4 of its own
    assert share_saved(requests, 4, concurrent=2) == pytest.approx(1 - 1 / ((4 * 2 / 2 + 15 * (4 * 3) / (2 + 4)) / 16))


def test_requests_of_one_shape_save_in_proportion_to_the_sequences_that_need_no_copy():
    requests = [Request(i, 0.0, 32, 1) for i in range(9)]  # only the prefill is counted, where all blocks are shared
    assert [share_saved(requests, n, concurrent=3) for n in (2, 6)] == pytest.approx([1 / 2, 5 / 6])


def mean_saved(name, num_requests, n, switch=0.0):
    return sum(100 * share_saved(sample_requests(name, num_requests, seed=seed), n, switch) for seed in range(3)) / 3


@cache
def many_lengths(name):
    return np.array([(request.prompt_tokens, request.output_tokens) for request in sample_requests(name, 120_000)]).T


def long_run(name, n, concurrent=8, block_size=16):
    """What sampling saves over a run without end, in %: at any moment a long request is as many times as likely to be
    met as it is long.
    """
    rng, (prompts, outputs) = np.random.default_rng(0), many_lengths(name)
    met = rng.choice(len(prompts), (100_000, concurrent), p=outputs / outputs.sum())
    generated = (rng.random(met.shape) * outputs[met]).astype(int)
    full, length = prompts[met] // block_size, -(-(prompts[met] + generated) // block_size)
    used = np.where(generated, full + n * (length - full), length)
    return 100 * (1 - 1 / np.mean(n * length.sum(1) / used.sum(1)))


@pytest.mark.parametrize(
    ("name", "n", "off"),
    [
        ("paper-alpaca", 2, 1.2),
        ("paper-alpaca", 4, 2.5),
        ("paper-alpaca", 6, 2.5),
        ("paper-sharegpt", 2, 0.7),
        ("paper-sharegpt", 6, -1.6),
    ],
)
def test_sampling_is_within_three_points_of_the_published_savings(name, n, off):
    saved = long_run(name, n)
    assert saved - PUBLISHED[name, "parallel sampling"][n] == pytest.approx(off, abs=0.3)
    assert mean_saved(name, 400, n) == pytest.approx(saved, abs=1.5)


def test_the_fewer_requests_run_at_a_time_the_more_the_measure_leans_to_shared_moments():
    few, some, many = (long_run("paper-sharegpt", 6, concurrent) for concurrent in (2, 8, 64))
    assert few > some + 3 > many + 4


@pytest.mark.parametrize(("name", "n"), [(name, n) for name in SWITCH for n in PUBLISHED[name, "beam search"]])
def test_beams_are_within_three_points_of_the_published_savings(name, n):
    assert abs(mean_saved(name, 200, n, SWITCH[name]) - PUBLISHED[name, "beam search"][n]) < 3


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(num_sequences=0), ValueError, "num_sequences"),
        (dict(num_sequences=2.0), TypeError, "num_sequences"),
        (dict(switch=1.5), ValueError, "switch must be a finite number of at least 0 and at most 1"),
        (dict(concurrent=0), ValueError, "concurrent"),
        (dict(concurrent=8), ValueError, "requests must be at least"),
        (dict(block_size=0), ValueError, "block_size"),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = dict(requests=sample_requests("paper-alpaca", 6), num_sequences=2, concurrent=2) | change
    with pytest.raises(error, match=message):
        share_saved(**arguments)
