import json
import re
from pathlib import Path

import numpy as np
import pytest

from pagedkv.simulation.arena import Arena
from pagedkv.simulation.policies import MaxLength
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import WORKLOADS, Request, length_table, sample_requests


def lengths(requests):
    return np.array([[r.prompt_tokens, r.output_tokens] for r in requests]).T


@pytest.mark.parametrize("name", WORKLOADS)
def test_means_come_out_within_three_percent(name):
    table = length_table(name)
    for part, drawn in zip(("prompt", "output"), lengths(sample_requests(name, 40_000)), strict=True):
        assert drawn.min() >= 1
        assert drawn.mean() == pytest.approx(table[part]["mean"], rel=0.03), part


@pytest.mark.parametrize("name", [name for name in WORKLOADS if not name.startswith("paper")])
def test_quantiles_come_out_as_in_the_table(name):
    shares = json.loads(Path(length_table.__code__.co_filename).with_name("lengths.json").read_text())["p"]
    for part, drawn in zip(("prompt", "output"), lengths(sample_requests(name, 40_000)), strict=True):
        quantiles = length_table(name)[part]["quantiles"]
        assert np.all(np.diff(quantiles) >= 0)
        assert quantiles[0] <= drawn.min() <= drawn.max() <= quantiles[-1]
        for share in (0.1, 0.5, 0.9):
            expected = quantiles[shares.index(share)]
            below, upto = (drawn < 0.98 * expected).mean(), (drawn <= 1.02 * expected).mean()
            assert below - 0.01 <= share <= upto + 0.01


@pytest.mark.parametrize(("name", "ratio"), [("paper-sharegpt", 598), ("paper-alpaca", 123)])
def test_the_spread_of_the_fitted_outputs(name, ratio):
    prompts, outputs = lengths(sample_requests(name, 40_000))
    assert (outputs**2).mean() / outputs.mean() == pytest.approx(ratio, rel=0.04)
    assert (prompts + outputs).max() <= 2048


def test_every_table_states_its_source():
    for name in WORKLOADS:
        assert len(length_table(name)["source"]) > 20


def test_a_seed_fixes_the_requests():
    assert sample_requests("azure-conv", 50, rate=2, seed=3) == sample_requests("azure-conv", 50, rate=2, seed=3)
    assert sample_requests("azure-conv", 50, seed=3) != sample_requests("azure-conv", 50, seed=4)


def test_without_a_rate_all_wait_at_the_start_and_with_one_gaps_are_poisson():
    assert {r.arrival_s for r in sample_requests("sharegpt", 100)} == {0.0}
    arrivals = np.array([r.arrival_s for r in sample_requests("sharegpt", 20_000, rate=4)])
    gaps = np.diff(arrivals)
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(1 / 4, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.03)
    assert [r.request_id for r in sample_requests("sharegpt", 3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shakespeare", 5), "name must be one of 'paper-sharegpt', .*not 'shakespeare'"),
        ((None, 5), "name must be one of"),
        (("sharegpt", 0), "n must be .*at least 1.*not 0"),
        (("sharegpt", 2.0), "n must be .*not 2.0"),
        (("sharegpt", True), "n must be .*not True"),
        (("sharegpt", 10**12), "n must be .*at most 10000000, not 1000000000000"),
        (("sharegpt", 5, 0), "rate must be a finite number above 0, not 0"),
        (("sharegpt", 5, -1.0), "rate must be"),
        (("sharegpt", 5, float("nan")), "rate must be .*nan"),
        (("sharegpt", 5, float("inf")), "rate must be .*inf"),
        (("sharegpt", 5, "2"), "rate must be .*'2'"),
        (("sharegpt", 5, 1.0, -1), "seed must be"),
        (("sharegpt", 5, 1.0, 0.5), "seed must be"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sample_requests(*arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", -1),
        ("request_id", 0.5),
        ("arrival_s", -0.1),
        ("arrival_s", float("nan")),
        ("arrival_s", 1e10),
        ("arrival_s", "now"),
        ("prompt_tokens", 0),
        ("prompt_tokens", True),
        ("prompt_tokens", 10**20),
        ("output_tokens", -1),
        ("output_tokens", 1.0),
    ],
)
def test_a_bad_request_names_its_field(field, value):
    good = {"request_id": 0, "arrival_s": 0.0, "prompt_tokens": 1, "output_tokens": 0}
    with pytest.raises((ValueError, TypeError), match=f"{field} must be"):
        Request(**(good | {field: value}))


def test_the_table_says_what_independent_draws_leave_out():
    table = length_table("azure-conv")
    short = [request for request in sample_requests("azure-conv", 20_000) if request.total_tokens <= 2048]
    share = simulate(short, MaxLength(Arena(15728)), 15728).shares()["token_states"]
    assert re.search(r"Drawn from this table: (\d+) %", table["independence"])[1] == f"{100 * share:.0f}"
