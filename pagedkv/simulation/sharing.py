"""How many blocks sharing saves when one prompt has several continuations: parallel samples, or the beams of a beam
search.

Real block tables do the counting: every continuation forks the prompt's table, copy-on-write splits what differs, and
the pool says how many blocks are in use. Beams differ from samples in one thing: a beam that falls behind is dropped
for a fork of another.
"""

import random
from collections import deque
from collections.abc import Iterable
from statistics import fmean

from pagedkv.arguments import finite_number, listed, shown, whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.simulation.workload import Request
from pagedkv.sizing import BLOCK_SIZE, MAX_BLOCK_SIZE, ceil_div

# Kwon et al., SOSP 2023, section 6.3: % of blocks saved, by number of sequences. For ShareGPT the two ends of a range.
PUBLISHED = {
    ("paper-alpaca", "parallel sampling"): {2: 6.09, 4: 8.53, 6: 9.79},
    ("paper-alpaca", "beam search"): {2: 37.56, 4: 53.13, 6: 55.16},
    ("paper-sharegpt", "parallel sampling"): {2: 16.2, 6: 30.5},
    ("paper-sharegpt", "beam search"): {2: 44.3, 6: 66.3},
}
# The chance per step that a beam is replaced: not in the paper, but fitted to its savings (met within 3 points).
SWITCH = {"paper-alpaca": 0.1, "paper-sharegpt": 0.018}


class SharedRequest:
    """The `num_sequences` continuations of one prompt, growing in step; `switch` is the chance that a step replaces a
    given beam.
    """

    def __init__(self, pool: BlockPool, prompt_tokens: int, num_sequences: int, switch: float = 0.0, seed: int = 0):
        num_sequences = whole_number("num_sequences", num_sequences, 1)
        self._switch = finite_number("switch", switch, 0, 1)
        self._random = random.Random(whole_number("seed", seed))
        prompt = BlockTable(pool)
        prompt.append(whole_number("prompt_tokens", prompt_tokens))
        self.tables = [prompt, *(prompt.fork() for _ in range(num_sequences - 1))]

    @property
    def num_tokens(self) -> int:
        """Tokens of each sequence, the prompt included."""
        return self.tables[0].num_tokens

    def step(self) -> None:
        """One more token for every sequence, after beams were dropped for forks of others as they stood before this
        step.
        """
        if self._switch:
            old, draw = self.tables, self._random
            self.tables = [draw.choice(old).fork() if draw.random() < self._switch else table for table in old]
            for table in old:
                if table not in self.tables:
                    table.free()
        for table in self.tables:
            table.append(1)

    def free(self) -> None:
        for table in self.tables:
            table.free()


def share_saved(
    requests: Iterable[Request],
    num_sequences: int,
    switch: float = 0.0,
    block_size: int = BLOCK_SIZE,
    concurrent: int = 8,
    seed: int = 0,
) -> float:
    """What sharing saves as the artifact of Kwon et al. (SOSP 2023, figure 15) computes it: 1 - 1 / r, r being the mean
    over the steps of a run of the blocks that tables name over the blocks in use. It leans to moments of much sharing,
    more so in a small batch.

    `concurrent` requests run at a time; their sequences all end after `output_tokens` steps, of which the first is the
    prefill. Counting starts when as many requests have ended as run at a time, so that the batch mixes long and short
    ones. `switch` 0: parallel sampling.
    """
    requests, concurrent = listed("requests", requests, "Request objects"), whole_number("concurrent", concurrent, 1)
    if wrong := [request for request in requests if not isinstance(request, Request)]:
        raise TypeError(f"requests must hold Request objects, not {shown(wrong[0])}")
    if len(requests) < 3 * concurrent:
        raise ValueError(f"requests must be at least 3 * concurrent = {3 * concurrent}, not {len(requests)}")
    num_sequences, block_size = (
        whole_number("num_sequences", num_sequences, 1),
        whole_number("block_size", block_size, 1, MAX_BLOCK_SIZE),
    )
    seed = whole_number("seed", seed)
    longest = max(request.total_tokens for request in requests)
    pool = BlockPool(2 * (concurrent + 1) * num_sequences * (longest // block_size + 2), block_size)  # more than enough
    waiting, running, ratios = deque(requests), [], []
    while True:
        while waiting and len(running) < concurrent:
            request = waiting.popleft()
            running.append(
                (SharedRequest(pool, request.prompt_tokens, num_sequences, switch, seed + request.request_id), request)
            )
        if len(running) < concurrent:
            return 1 - 1 / fmean(ratios)
        if len(requests) - len(waiting) >= 2 * concurrent:
            named = sum(num_sequences * ceil_div(shared.num_tokens, block_size) for shared, _ in running)
            ratios.append(named / (pool.num_blocks - pool.num_free))
        for shared, _ in running:
            shared.step()
        ended = [(shared, request) for shared, request in running if shared.num_tokens >= request.total_tokens]
        for shared, _ in ended:
            shared.free()
        running = [pair for pair in running if pair not in ended]
