"""A run of the real engine as the simulator's Timeline, so that the same pictures draw both, and one can be held
against the other.

A request that may sample m tokens stores one less, so the simulator's twin of it has an output of m - 1 tokens.
"""

from math import inf

from pagedkv.simulation.log import Log, Stay
from pagedkv.simulation.timeline import Timeline
from pagedkv.simulation.workload import Request


def timeline_of(engine) -> Timeline:
    """What `engine`, a `pagedkv.engine.engine.Engine`, held at each of its steps.

    Blocks are numbered as the replay takes them, not as the engine's pool did. Who was let go while it waited has not
    finished. Raises ValueError for an engine with a token budget or a prefix cache: in its steps a request does not
    grow by one token at a time; where nothing ran; and where `usage` and `events` do not tell the same.
    """
    scheduler = engine.scheduler
    if scheduler.prefix is not None or scheduler.token_budget < inf:
        raise ValueError("engine must have neither a token budget nor reuse: its requests grow by one token a step")
    if not any(row.running for row in engine.usage):
        raise ValueError("engine must have run a step")
    log = Log(usable=scheduler.pool.num_blocks * scheduler.pool.block_size)
    stays: dict[int, Stay] = {}
    for event in engine.events:
        if event.what == "arrived":
            log.arrival_steps.append(event.step)
        elif event.what == "admitted":
            request = Request(event.request_id, 0.0, event.tokens, event.max_stored - event.tokens)
            stays[event.request_id] = Stay(request, event.step, len(engine.usage), event.tokens, None)
            log.stays.append(stays[event.request_id])
            log.left_queue.append(event.step)
        elif stay := stays.pop(event.request_id, None):
            stay.stop = event.step
            if event.what == "preempted":
                log.preempted.append(event.step)
            else:
                log.finished[event.request_id] = event.step - 1
        else:  # it waited
            log.left_queue.append(event.step)
    run = Timeline(log, len(engine.usage), log.usable, scheduler.pool.block_size)
    told = [(row.running, row.waiting, row.tokens_stored) for row in engine.usage]
    if told != list(zip(run.running.tolist(), run.waiting.tolist(), run.token_states.tolist(), strict=True)):
        raise ValueError(
            "engine must have usage and events of one run: cleared together while nobody waited or ran, if at all, and "
            "with tables that take no more blocks than their tokens fill"
        )
    return run
