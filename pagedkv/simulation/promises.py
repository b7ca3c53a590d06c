"""What a policy of one's own has to keep to, so that its shares mean something. What it breaks is one sentence with its
name; the package's own policies are not watched as they run.
"""

from collections.abc import Mapping
from itertools import pairwise

from pagedkv.arguments import shown, whole_number
from pagedkv.simulation.arena import Extent
from pagedkv.simulation.log import Stay
from pagedkv.simulation.policies import Policy
from pagedkv.simulation.timeline import Timeline


def check_policy(policy: Policy) -> int:
    """Raise unless a policy has all that a run needs, and holds nothing yet. Returns its slots."""
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, not {shown(policy)}")
    name = type(policy).__name__
    for verb in ("admit", "grow", "release"):
        if not callable(getattr(policy, verb, None)):
            raise TypeError(f"policy must have {verb}(request), which {name} has not")
    slots = whole_number("policy.slots", getattr(policy, "slots", None), 1)
    if policy.block_size is not None:
        whole_number(f"block_size of policy {name}", policy.block_size, 1, slots)
    whole_number(f"copied_tokens of policy {name}", policy.copied_tokens)
    if not isinstance(policy.held, Mapping):
        raise TypeError(f"held of policy {name} must be a dict from request ids, not {shown(policy.held)}")
    if policy.held:
        raise ValueError(f"policy must hold no request at the start, not {sorted(policy.held)}")
    return slots


def grown(policy: Policy, steps: int) -> int:
    """By how many of these steps `policy.grow_all` has grown every request."""
    number = policy.grow_all(steps)
    if type(number) is int and 0 <= number <= steps:
        return number
    return whole_number(f"what grow_all({steps}) of policy {type(policy).__name__} returns", number, 0, steps)


def extent_of(policy: Policy, request_id: int) -> Extent:
    """The extent that a contiguous policy holds for a request. Raises TypeError where that is none."""
    held = policy.held
    extent = held.get(request_id) if isinstance(held, Mapping) else None
    if not isinstance(extent, Extent):
        name = type(policy).__name__
        raise TypeError(f"held of policy {name} must map request {request_id} to its Extent, not to {shown(extent)}")
    return extent


def check_extents(policy: Policy, running: dict[int, Stay], holes: list[Extent]) -> None:
    """Raise unless the extents of the running requests and the holes lie side by side in the policy's slots."""
    if type(policy).__module__.startswith("pagedkv.simulation"):
        return
    name, spans = type(policy).__name__, [(*hole, "a hole") for hole in holes]
    for request_id, stay in running.items():
        start, size, requested = (
            whole_number(f"{field} of an Extent of policy {name}", value, 0, policy.slots)
            for field, value in zip(Extent._fields, stay.extent, strict=True)
        )
        if start + size > policy.slots or requested > size:
            raise ValueError(f"policy {name} must hold extents of its {policy.slots} slots, not {stay.extent}")
        spans.append((start, size, requested, f"that of request {request_id}"))
    for before, after in pairwise(sorted(spans)):
        if before[0] + before[1] > after[0]:
            raise ValueError(f"policy {name} must hold extents side by side: {before[3]} and {after[3]} overlap")


def check_blocks(policy: Policy, timeline: Timeline) -> None:
    """Raise ValueError if the requests of a paged policy had more tokens than its blocks have slots."""
    if policy.block_size and (missing := -int(timeline.free.min())) > 0:
        raise ValueError(
            f"policy {type(policy).__name__} must hold no more than its {policy.slots} slots: at step "
            f"{timeline.step[timeline.free.argmin()]} its requests need {missing} more"
        )
