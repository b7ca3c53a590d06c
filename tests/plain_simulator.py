"""The serving simulation done the plain way: one step at a time, one token at a time, every slot counted from what the
arena or the pool says. Slow and short on purpose: the oracle for pagedkv.simulation.simulator."""

from collections import deque
from dataclasses import replace
from itertools import count
from math import ceil

import numpy as np

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.simulation.arena import OutOfMemory
from pagedkv.simulation.policies import Policy

FIELDS = (
    "token_states",
    "reserved",
    "internal",
    "external",
    "free",
    "rounding",
    "running",
    "waiting",
    "preemptions",
    "copied_tokens",
)


class PagedWithIds(Policy):
    """`Paged` with a real BlockPool and a list of block ids for every request."""

    def __init__(self, num_blocks, block_size=16, watermark=0.01):
        self.pool = BlockPool(num_blocks, block_size)
        self.block_size, self.slots = block_size, num_blocks * block_size
        self.must_stay_free = int(num_blocks * watermark)
        self.stored = {}

    def refusal(self, request):
        if ceil(request.total_tokens / self.block_size) > self.pool.num_blocks:
            return "too large"

    def admit(self, request):
        needed = ceil(request.prompt_tokens / self.block_size)
        if self.held and self.pool.num_free - needed < self.must_stay_free:
            raise OutOfBlocks(needed, self.pool.num_free)
        self.held[request.request_id] = self.pool.allocate(needed)
        self.stored[request.request_id] = request.prompt_tokens

    def grow(self, request):
        blocks = self.held[request.request_id]
        if self.stored[request.request_id] == len(blocks) * self.block_size:
            blocks += self.pool.allocate(1)
        self.stored[request.request_id] += 1

    def release(self, request):
        self.pool.free(self.held.pop(request.request_id))
        del self.stored[request.request_id]


class Running:
    def __init__(self, request):
        self.request, self.tokens = request, request.prompt_tokens


def simulate_plainly(requests, policy, capacity, step_s=0.04):
    """Return {field: array with one entry per step}, the ids that were refused, and {request_id: last step}."""
    refused = {r.request_id for r in requests if policy.refusal(r)}
    arriving = deque(r for r in requests if r.request_id not in refused)
    waiting, running, rows, finished = deque(), [], [], {}
    others = (
        capacity - policy.slots if policy.block_size else capacity - policy.arena.total_free
    )  # slots that are not the policy's
    for step in count():
        while arriving and ceil(round(arriving[0].arrival_s / step_s, 6)) <= step:
            waiting.append(arriving.popleft())
        preempted, copied = 0, policy.copied_tokens
        for run in list(running):
            while run in running:
                try:
                    policy.grow(run.request)
                    run.tokens += 1
                    break
                except (OutOfMemory, OutOfBlocks):
                    latest = running.pop()
                    policy.release(latest.request)
                    known = latest.tokens + 1  # with the one that was sampled last
                    left = latest.request.total_tokens - known
                    waiting.appendleft(replace(latest.request, prompt_tokens=known, output_tokens=left))
                    preempted += 1
        grown = len(running)
        while waiting and not (preempted and grown):
            try:
                policy.admit(waiting[0])
            except (OutOfMemory, OutOfBlocks):
                if running:
                    break
                refused.add(waiting.popleft().request_id)
            else:
                running.append(Running(waiting.popleft()))
        if not (arriving or waiting or running):
            break
        rows.append(
            (
                *account(policy, running, waiting, others),
                len(running),
                len(waiting),
                preempted,
                policy.copied_tokens - copied,
            )
        )
        for run in [run for run in running if run.tokens == run.request.total_tokens]:
            policy.release(run.request)
            running.remove(run)
            finished[run.request.request_id] = step
    return dict(zip(FIELDS, np.array(rows, int).reshape(-1, len(FIELDS)).T, strict=True)), refused, finished


def account(policy, running, waiting, others):
    """Every slot of the pool, put into one of five classes without using that they add up; and the rounding."""
    token_states = reserved = internal = rounding = 0
    for run in running:
        final = run.request.total_tokens
        held = policy.held[run.request.request_id]
        asked = held.requested if policy.block_size is None else len(held) * policy.block_size
        token_states += run.tokens
        reserved += min(final, asked) - run.tokens
        internal += max(asked - final, 0)
        rounding += 0 if policy.block_size else held.size - held.requested
    if policy.block_size:
        free, too_small = policy.pool.num_free * policy.block_size, 0
    else:
        needed = policy.asked(waiting[0]) if waiting else 0  # by the head of the queue
        free = sum(hole.size for hole in policy.arena.holes() if hole.size >= needed)
        too_small = sum(hole.size for hole in policy.arena.holes() if hole.size < needed)
    return token_states, reserved, internal, too_small + rounding + others, free, rounding
