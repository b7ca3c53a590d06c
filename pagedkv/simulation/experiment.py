"""The course's one experiment: every policy by name, on one pool and one set of requests, simulated once."""

from collections.abc import Callable
from functools import cache, lru_cache

from pagedkv.arguments import one_of
from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.policies import GrowByCopy, MaxLength, Oracle, Paged, Policy, PowerOfTwo
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.timeline import Timeline
from pagedkv.simulation.workload import Request, sample_requests
from pagedkv.sizing import BLOCK_SIZE

CAPACITY = 15_728  # slots: 12 GiB for OPT-13B
MAX_SEQ_LEN = 2048
NUM_TOKENS = 14 * CAPACITY  # enough to fill the pool many times over
POLICIES: dict[str, Callable[[int], Policy]] = {  # name -> a policy on so many slots
    "max length, first fit": lambda slots: MaxLength(Arena(slots)),
    "max length, buddy": lambda slots: MaxLength(BuddyArena(slots)),
    "power of two, first fit": lambda slots: PowerOfTwo(Arena(slots)),
    "power of two, buddy": lambda slots: PowerOfTwo(BuddyArena(slots)),
    "oracle, first fit": lambda slots: Oracle(Arena(slots)),
    "oracle, buddy": lambda slots: Oracle(BuddyArena(slots)),
    "grow by copy, first fit": lambda slots: GrowByCopy(Arena(slots)),
    "grow by copy, best fit": lambda slots: GrowByCopy(Arena(slots, fit="best")),
    "paged": lambda slots: Paged(slots // BLOCK_SIZE),
}


@cache
def requests_that_fit(workload: str) -> tuple[Request, ...]:
    """Requests of up to MAX_SEQ_LEN tokens, which every policy can serve, all waiting at the start: NUM_TOKENS tokens
    in total.
    """
    chosen, tokens = [], 0
    for request in sample_requests(workload, 10_000):
        if request.total_tokens <= MAX_SEQ_LEN:
            chosen.append(request)
            tokens += request.total_tokens
            if tokens >= NUM_TOKENS:
                break
    return tuple(chosen)


@lru_cache(maxsize=32)
def run(workload: str, policy: str) -> Timeline:
    """The run of `requests_that_fit(workload)` under `policy`."""
    return simulate(requests_that_fit(workload), POLICIES[one_of("policy", policy, POLICIES)](CAPACITY), CAPACITY)


@lru_cache(maxsize=64)
def paged_run(workload: str, watermark: float) -> Timeline:
    """The paged run of `requests_that_fit(workload)` in which a new request must leave `watermark` of the pool free."""
    return simulate(requests_that_fit(workload), Paged(CAPACITY // BLOCK_SIZE, watermark=watermark), CAPACITY)
