"""A serving engine's memory, simulated: requests queue, are admitted first come first served, grow by a token a step,
and leave.

One step is one token for each running request; the prefill, which stores the whole prompt, is a step of its own. A
request ends when prompt and output are stored (an engine can spare itself the K/V of the very last token; here it
counts). At each step running requests grow first, in the order of admission. If one cannot, the latest admitted is
preempted: its memory is freed, it goes back to the head of the queue with what it has generated as part of its prompt
(recomputation), and nothing is admitted in that step::

    timeline = simulate(sample_requests("azure-conv", 300), MaxLength(Arena(15728)), 15728)
    timeline.shares()                  # a dict: token_states, reserved, internal, external, free
    timeline.step, .token_states, ...  # arrays, one entry per step (see timeline.Timeline)
    timeline.snapshot(step)            # the memory map: a list of Piece(request_id, start, tokens, ...)
    timeline.holes(step)               # what lies between: a list of Hole(start, size, usable)
    timeline.refused                   # {request_id: why it can never fit}
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from tqdm import tqdm

from pagedkv.arguments import finite_number, listed, shown, whole_number
from pagedkv.block_pool import OutOfBlocks
from pagedkv.simulation.arena import MAX_SLOTS, Arena, BuddyArena, Extent, OutOfMemory
from pagedkv.simulation.log import Layout, Log, Stay
from pagedkv.simulation.policies import Policy
from pagedkv.simulation.promises import check_blocks, check_extents, check_policy, extent_of, grown
from pagedkv.simulation.timeline import Timeline
from pagedkv.simulation.workload import Request

MAX_STEPS = 10**7  # busy ones: a Timeline has an entry for each


def simulate(
    requests: Iterable[Request], policy: Policy, capacity: int, *, step_s: float = 0.04, progress: bool = False
) -> Timeline:
    """Serve `requests`, which are in order of arrival, with `policy` on `capacity` token slots, one step every `step_s`
    seconds.

    A request that can never fit is refused when it arrives, with the reason in Timeline.refused; the others go on.
    Raises ValueError when that leaves none, or when the policy makes no progress. It advances from event to event:
    `Policy.grow_all` says how many steps of mere growth lie ahead.
    """
    requests = listed("requests", requests, "Request objects")
    policy_slots = check_policy(policy)
    capacity = whole_number("capacity", capacity, policy_slots, MAX_SLOTS)
    step_s = finite_number("step_s", step_s, 1e-6)
    log = Log()
    log.usable = policy_slots if policy.block_size else sum(hole.size for hole in _holes(policy, {}))
    arrivals = _arrivals(requests, policy, step_s, log)
    run = _Run(policy, log)
    point = idle_steps = 0
    with tqdm(total=len(arrivals), unit=" requests", disable=not progress) as bar:
        while arrivals or run.waiting or run.running:
            if point >= MAX_STEPS:
                raise ValueError(f"requests must be done within {MAX_STEPS:,} steps, not counting idle ones")
            while arrivals and arrivals[0][0] <= point + idle_steps:
                run.waiting.append(arrivals.popleft()[1])
            if not run.running and not run.waiting:
                gap = arrivals[0][0] - point - idle_steps
                log.gaps.append((point, gap))
                run.note_holes(point)
                idle_steps += gap - 1
                point += 1
                continue
            preempted = run.grow(point)
            if not preempted or not run.running:
                run.admit(point)
            if not run.running:
                continue
            run.note_holes(point)
            event = min(run.next_stop(), MAX_STEPS)
            if preempted:
                event = point + 1
            elif arrivals and not run.waiting:
                event = min(event, arrivals[0][0] - idle_steps)
            point += grown(policy, event - point - 1) + 1
            bar.update(run.release(point))
    if not log.finished:
        reason = next(iter(log.refused.values()), "there is none")
        raise ValueError(f"requests must hold one that fits the policy's {policy.slots} slots: {reason}")
    timeline = Timeline(log, point, capacity, policy.block_size)
    check_blocks(policy, timeline)
    return timeline


class _Run:
    """The queue and the running requests, with the verbs that change them at one point."""

    def __init__(self, policy: Policy, log: Log):
        self.policy, self.log = policy, log
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Stay] = {}  # request_id -> its stay, in order of admission
        self.stops: list[tuple[int, int]] = []  # a heap of (point, request_id)
        self.first: Stay | None = None  # the latest that was admitted with nothing else running

    def grow(self, point: int) -> bool:
        """One more token for each running request. Returns whether one was preempted for it."""
        if grown(self.policy, 1):
            return False
        num_preempted, copied = len(self.log.preempted), self.policy.copied_tokens
        for request_id, stay in list(self.running.items()):
            while request_id in self.running:
                try:
                    self.policy.grow(stay.request)
                except (OutOfMemory, OutOfBlocks):
                    self._preempt_latest(point)
                else:
                    self._follow(stay, point)
                    break
        if self.policy.copied_tokens > copied:
            self.log.copies.append((point, self.policy.copied_tokens - copied))
        return len(self.log.preempted) > num_preempted

    def admit(self, point: int) -> None:
        """Admit from the head of the queue as long as the head fits.

        With nothing running, a head that does not fit never will.
        """
        while self.waiting:
            request, alone = self.waiting[0], not self.running
            try:
                self.policy.admit(request)
            except (OutOfMemory, OutOfBlocks) as error:
                self.log.wanted[request] = error.requested
                if self.running:
                    return
                self.log.refused[request.request_id] = (
                    f"request {request.request_id} does not fit an idle pool: {error}"
                )
            else:
                stay = self._stay(request, point, point + request.output_tokens + 1, request.prompt_tokens)
                if stay.extent:
                    self.log.wanted[request] = stay.extent.requested
                if alone:
                    self.first = stay
            self.waiting.popleft()
            self.log.left_queue.append(point)

    def note_holes(self, point: int) -> None:
        """Record the holes of contiguous memory, which stay as they are until the next event, and who waits for one."""
        if self.policy.block_size is None:
            head = self.waiting[0] if self.waiting else None
            holes = _holes(self.policy, self.running)
            check_extents(self.policy, self.running, holes)
            self.log.layouts.append(Layout(point, holes, head))

    def next_stop(self) -> int:
        """The first point at which a running request is gone."""
        while True:
            stop, request_id = self.stops[0]
            if request_id in self.running and self.running[request_id].stop == stop:
                return stop
            heappop(self.stops)  # of a request that was preempted

    def release(self, point: int) -> int:
        """Let go of the requests whose last step was the one before `point`; return how many."""
        num_finished = len(self.log.finished)
        while self.running and self.next_stop() == point:
            _, request_id = heappop(self.stops)
            self.policy.release(self.running.pop(request_id).request)
            self.log.finished[request_id] = point - 1
        return len(self.log.finished) - num_finished

    def _preempt_latest(self, point: int) -> None:
        _, stay = self.running.popitem()
        self.policy.release(stay.request)
        stay.stop = point
        request, stored = stay.request, stay.tokens + point - 1 - stay.start
        if not self.running and stay is self.first and stored == stay.tokens:
            raise ValueError(
                f"policy {type(self.policy).__name__} must let requests progress: request {request.request_id} was "
                "admitted with nothing else running, and preempted without storing a token"
            )
        known = stored + 1  # with the token that was sampled and had no slot yet: an engine starts from there
        self.waiting.appendleft(replace(request, prompt_tokens=known, output_tokens=request.total_tokens - known))
        self.log.preempted.append(point)

    def _follow(self, stay: Stay, point: int) -> None:
        """If growth moved the request to another extent, its stay ends and a new one begins."""
        if self.policy.block_size is None and self.policy.held.get(stay.request.request_id) != stay.extent:
            self._stay(stay.request, point, stay.stop, stay.tokens + point - stay.start)
            stay.stop = point

    def _stay(self, request: Request, start: int, stop: int, tokens: int) -> Stay:
        extent = extent_of(self.policy, request.request_id) if self.policy.block_size is None else None
        stay = Stay(request, start, stop, tokens, extent)
        self.running[request.request_id] = stay
        heappush(self.stops, (stop, request.request_id))
        self.log.stays.append(stay)
        return stay


def _holes(policy: Policy, running: dict[int, Stay]) -> list[Extent]:
    """The holes of a contiguous policy, by address: its arena's, or without one what lies between its extents."""
    if isinstance(arena := getattr(policy, "arena", None), (Arena, BuddyArena)):
        return arena.holes()
    extents = sorted(stay.extent for stay in running.values())
    ends = [0, *(extent.start + extent.size for extent in extents)]
    starts = [*(extent.start for extent in extents), policy.slots]
    return [Extent(end, start - end) for end, start in zip(ends, starts, strict=True) if end < start]


def _arrivals(requests: list[Request], policy: Policy, step_s: float, log: Log) -> deque[tuple[int, Request]]:
    """The requests that can be served, with the step before which each arrives; the others are refused in the log."""
    arrivals, seen, last_s = deque(), set(), 0.0
    for request in requests:
        if not isinstance(request, Request):
            raise TypeError(f"requests must hold Request objects, not {shown(request)}")
        if request.request_id in seen:
            raise ValueError(f"requests must have different ids, not {request.request_id} twice")
        if request.arrival_s < last_s:
            raise ValueError(
                f"requests must be in order of arrival: request {request.request_id} arrives before the one before it"
            )
        seen.add(request.request_id)
        last_s = request.arrival_s
        if reason := policy.refusal(request):
            log.refused[request.request_id] = reason
        else:
            arrivals.append((math.ceil(round(request.arrival_s / step_s, 6)), request))
    log.arrival_steps = [step for step, _ in arrivals]
    return arrivals
