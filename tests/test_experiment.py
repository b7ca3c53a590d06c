"""The course's experiment: every policy of the one table serves the requests that fit, and runs are kept."""

import pytest

from pagedkv.simulation import experiment
from pagedkv.simulation.workload import WORKLOADS


@pytest.mark.parametrize("policy", experiment.POLICIES)
def test_every_policy_serves_the_requests_that_fit(policy):
    run = experiment.run("paper-sharegpt", policy)
    requests = experiment.requests_that_fit("paper-sharegpt")
    assert set(run.finished) == {request.request_id for request in requests} and run.refused == {}
    assert run.capacity == experiment.CAPACITY and run is experiment.run("paper-sharegpt", policy)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_requests_fill_the_pool_many_times_over(workload):
    requests = experiment.requests_that_fit(workload)
    assert max(request.total_tokens for request in requests) <= experiment.MAX_SEQ_LEN
    assert (
        experiment.NUM_TOKENS
        <= sum(request.total_tokens for request in requests)
        < experiment.NUM_TOKENS + experiment.MAX_SEQ_LEN
    )


def test_a_watermark_keeps_blocks_free_for_growth():
    runs = [experiment.paged_run("paper-sharegpt", mark) for mark in (0.0, 0.2)]
    assert runs[0].preemptions.sum() > runs[1].preemptions.sum()
    assert runs[0].shares()["token_states"] > runs[1].shares()["token_states"]
