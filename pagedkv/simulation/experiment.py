"""What the widgets of lesson 2.2 and 2.3 run: every policy by name, on one pool and one set of requests, simulated once."""

from functools import cache, lru_cache

from pagedkv.arena import Arena, BuddyArena
from pagedkv.policies import GrowByCopy, MaxLength, Oracle, Paged, PowerOfTwo
from pagedkv.simulator import simulate
from pagedkv.timeline import Timeline
from pagedkv.workload import Request, sample_requests

CAPACITY = 15_728  # slots: 12 GiB for OPT-13B
MAX_SEQ_LEN = 2048
NUM_TOKENS = 14 * CAPACITY  # enough to fill the pool many times over
POLICIES = {
    "max length, first fit": lambda: MaxLength(Arena(CAPACITY)),
    "power of two, first fit": lambda: PowerOfTwo(Arena(CAPACITY)),
    "power of two, buddy": lambda: PowerOfTwo(BuddyArena(CAPACITY)),
    "oracle, first fit": lambda: Oracle(Arena(CAPACITY)),
    "oracle, buddy": lambda: Oracle(BuddyArena(CAPACITY)),
    "grow by copy, first fit": lambda: GrowByCopy(Arena(CAPACITY)),
    "grow by copy, best fit": lambda: GrowByCopy(Arena(CAPACITY, fit="best")),
    "paged": lambda: Paged(CAPACITY // 16),
}


@cache
def requests_that_fit(workload: str) -> tuple[Request, ...]:
    """Requests of up to MAX_SEQ_LEN tokens, which every policy can serve, all waiting at the start: NUM_TOKENS tokens in total."""
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
    return simulate(requests_that_fit(workload), POLICIES[policy](), CAPACITY)
