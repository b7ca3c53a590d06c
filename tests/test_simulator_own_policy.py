"""`admit`, `grow` and `release` are enough for a policy of one's own, contiguous or paged; one that never progresses
ends at once, and one that keeps no promise is told which.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv.block_pool import OutOfBlocks
from pagedkv.simulation.arena import Arena, BuddyArena, Extent, OutOfMemory
from pagedkv.simulation.log import Log
from pagedkv.simulation.policies import GrowByCopy, Oracle, Paged, Policy
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.timeline import SHARES
from pagedkv.simulation.workload import Request

FIELDS = (*SHARES, "rounding", "step", "duration", "running", "waiting", "preemptions", "copied_tokens")


class MyBlocks(Policy):
    """Blocks on demand, counted; `held` has each request's tokens."""

    def __init__(self, num_blocks, block_size):
        self.block_size, self.free, self.slots = block_size, num_blocks, num_blocks * block_size

    def admit(self, request):
        needed = -(-request.prompt_tokens // self.block_size)
        if needed > self.free:
            raise OutOfBlocks(needed, self.free)
        self.free -= needed
        self.held[request.request_id] = request.prompt_tokens

    def grow(self, request):
        if self.held[request.request_id] % self.block_size == 0:
            if not self.free:
                raise OutOfBlocks(1, 0)
            self.free -= 1
        self.held[request.request_id] += 1

    def release(self, request):
        self.free += -(-self.held.pop(request.request_id) // self.block_size)


class MyExtents(Policy):
    """Exactly what the request will need."""

    def __init__(self, arena):
        self.arena, self.slots = arena, arena.capacity

    def admit(self, request):
        self.held[request.request_id] = self.arena.allocate(request.prompt_tokens + request.output_tokens)

    def grow(self, request):
        pass

    def release(self, request):
        self.arena.free(self.held.pop(request.request_id))


class MyCopies(MyExtents):
    """Extents of 8 slots, or twice as many as are stored, as GrowByCopy has them."""

    def admit(self, request):
        self.held[request.request_id] = self.arena.allocate(self.doubled(8, request.prompt_tokens))
        self.stored = {**getattr(self, "stored", {}), request.request_id: request.prompt_tokens}

    def doubled(self, size, tokens):
        while size <= tokens:
            size *= 2
        return min(size, self.arena.largest_request)

    def grow(self, request):
        old = self.held[request.request_id]
        if self.stored[request.request_id] == old.requested:
            new = self.arena.allocate(self.doubled(old.requested, old.requested))
            self.held[request.request_id] = new
            self.copied_tokens += old.requested
            self.arena.free(old)
        self.stored[request.request_id] += 1


def assert_same(mine, theirs):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)
    assert mine.finished == theirs.finished and set(mine.refused) == set(theirs.refused)
    for step in range(0, mine.num_steps, 7):
        assert mine.snapshot(step) == theirs.snapshot(step) and mine.holes(step) == theirs.holes(step)


@settings(deadline=None)
@given(data=st.data())
def test_the_three_verbs_give_the_timeline_of_the_packages_policy(data):
    slots = data.draw(st.integers(12, 60))
    lengths = data.draw(st.lists(st.tuples(st.integers(1, 8), st.integers(0, slots - 10)), min_size=1, max_size=12))
    arrivals = sorted(data.draw(st.lists(st.integers(0, 60), min_size=len(lengths), max_size=len(lengths))))
    requests = [
        Request(i, 0.04 * at, prompt, min(output, slots - slots % 5 - prompt))
        for i, (at, (prompt, output)) in enumerate(zip(arrivals, lengths, strict=True))
    ]
    size = data.draw(st.integers(1, 5))
    fits = [request for request in requests if request.total_tokens <= slots - slots % size]
    assert_same(
        simulate(fits, MyBlocks(slots // size, size), slots), simulate(fits, Paged(slots // size, size, 0.0), slots)
    )
    kind = data.draw(st.sampled_from([Arena, BuddyArena]))
    fits = [request for request in requests if request.total_tokens <= kind(slots).largest_request - 1]
    if fits:
        assert_same(simulate(fits, MyExtents(kind(slots)), slots), simulate(fits, Oracle(kind(slots)), slots))
        assert_same(simulate(fits, MyCopies(kind(slots)), slots), simulate(fits, GrowByCopy(kind(slots), 8), slots))


def test_a_paged_policy_of_ones_own_by_hand():
    for policy in (MyBlocks(16, 4), Paged(16, 4, 0.0)):
        run = simulate([Request(0, 0.0, 4, 4)], policy, 64)
        assert run.token_states.tolist() == [4, 5, 6, 7, 8] and run.finished == {0: 4}
        expected = {"token_states": 30, "reserved": 6, "internal": 0, "external": 0, "free": 284}
        assert run.shares() == {name: slots / 320 for name, slots in expected.items()}


class Never(Policy):
    slots, block_size = 64, 1

    def admit(self, request):
        self.held[request.request_id] = None

    def grow(self, request):
        raise OutOfMemory(1, 0, 0)

    def release(self, request):
        del self.held[request.request_id]


class NeverABlock(MyBlocks):
    def grow(self, request):
        raise OutOfBlocks(1, 0)


class OnlyThePrompt(MyExtents):
    """Reserves nothing for growth."""

    def admit(self, request):
        self.held[request.request_id] = self.arena.allocate(request.prompt_tokens)

    def grow(self, request):
        raise OutOfMemory(1, 0, 0)


@pytest.mark.parametrize(
    "make", [Never, lambda: NeverABlock(16, 4), lambda: OnlyThePrompt(Arena(64)), lambda: OnlyThePrompt(BuddyArena(64))]
)
@pytest.mark.parametrize("num_requests", [1, 2, 40])
def test_a_policy_that_never_progresses_ends_at_once(make, num_requests):
    policy, admitted = make(), []
    admit = policy.admit
    policy.admit = lambda request: admitted.append(request) or admit(request)
    requests = [Request(i, 0.0, 4, 4) for i in range(num_requests)]
    with pytest.raises(ValueError, match="request 0 was admitted with nothing else running, and preempted without"):
        simulate(requests, policy, 64)
    assert len(admitted) <= num_requests


def test_the_sentence_names_the_policy():
    with pytest.raises(ValueError, match="^policy Never must let requests progress: request 3 was admitted"):
        simulate([Request(3, 0.0, 4, 4)], Never(), 64)


def test_one_token_at_a_time_is_progress():
    class OneMore(OnlyThePrompt):
        """Room for one token; then the request is preempted, and comes back with it."""

        def admit(self, request):
            self.held[request.request_id] = self.arena.allocate(request.prompt_tokens + 1)
            self.room = {**getattr(self, "room", {}), request.request_id: 1}

        def grow(self, request):
            if not self.room[request.request_id]:
                raise OutOfMemory(1, 0, 0)
            self.room[request.request_id] -= 1

    run = simulate([Request(i, 0.0, 4, 8) for i in range(3)], OneMore(Arena(64)), 64)
    assert set(run.finished) == {0, 1, 2} and run.preemptions.sum() > 6


def test_a_policy_that_admits_fewer_than_fit_leaves_free_slots():
    class Two(MyExtents):
        def admit(self, request):
            if len(self.held) == 2:
                raise OutOfMemory(request.total_tokens, self.arena.total_free, self.arena.largest_hole)
            super().admit(request)

    run = simulate([Request(i, 0.0, 4, 4) for i in range(3)], Two(Arena(20)), 20)
    assert run.external.tolist() == [4] * 5 + [0] * 5  # too few for request 2
    assert run.free.tolist() == [0] * 5 + [12] * 5
    run = simulate([Request(i, 0.0, 4, 4) for i in range(3)], Two(Arena(64)), 64)
    assert run.free.tolist() == [48] * 5 + [56] * 5


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"admit": None}, TypeError, r"policy must have admit\(request\), which Broken has not"),
        ({"release": None}, TypeError, r"policy must have release\(request\)"),
        ({"slots": None}, TypeError, "policy.slots must be"),
        (
            {"admit": lambda self, request: None},
            TypeError,
            "held of policy Broken must map request 0 to its Extent",
        ),
        (
            {"admit": lambda self, request: self.held.update({0: self.arena.allocate(request.prompt_tokens)})},
            ValueError,
            "policy must hold a slot for each token: request 0 stores 8 in an extent of 4",
        ),
    ],
)
def test_a_broken_promise_is_named(change, error, message):
    broken = type("Broken", (MyExtents,), change)(Arena(64))
    if "slots" in change:
        broken.slots = None
    broken.release = None if "release" in change else lambda request: broken.held.pop(0, None)
    with pytest.raises(error, match=message):
        simulate([Request(0, 0.0, 4, 4)], broken, 64)


def eight():
    return [Request(i, 0.0, 4, 8) for i in range(8)]


class TwiceGivenBack(MyBlocks):
    def release(self, request):
        self.free += 2 * -(-self.held.pop(request.request_id) // self.block_size)


class Always(MyBlocks):
    """Never looks whether a block is free."""

    def admit(self, request):
        self.free = 10**6
        super().admit(request)


@pytest.mark.parametrize("kind", [TwiceGivenBack, Always])
def test_more_blocks_than_there_are(kind):
    words = f"^policy {kind.__name__} must hold no more than its 16 slots: at step \\d+ its requests need \\d+ more$"
    with pytest.raises(ValueError, match=words):
        simulate(eight(), kind(4, 4), 16)


def holding(*extents, arena=None):
    """A policy whose requests get these extents, whatever is held, again and again."""

    class Holding(Policy):
        slots = 40

        def admit(self, request):
            self.held[request.request_id] = extents[request.request_id % len(extents)]

        def grow(self, request): ...

        def release(self, request):
            del self.held[request.request_id]

    policy = Holding()
    if arena:
        policy.arena = arena
    return policy


SIDE = "^policy Holding must hold extents side by side: that of request "


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (holding(Extent(0, 20, 20)), SIDE + "0 and that of request 1 overlap$"),
        (holding(Extent(0, 20, 20), Extent(19, 20, 20)), SIDE + "0 and that of request 1 overlap$"),
        (holding(Extent(35, 20, 20)), r"must hold extents of its 40 slots, not Extent\(start=35, size=20"),
        (holding(Extent(40, 12, 12)), "must hold extents of its 40 slots"),
        (holding(Extent(0, 12, 20)), "must hold extents of its 40 slots"),
        (holding(Extent(-5, 20, 20)), "start of an Extent of policy Holding must be a whole number of at least 0"),
        (holding(Extent(0, 20.5, 20)), "size of an Extent of policy Holding must be a whole number"),
        (holding(Extent(0, 20, None)), "requested of an Extent of policy Holding must be a whole number"),
        (holding(Extent(0, 20, 20), Extent(20, 20, 20), arena=Arena(40)), SIDE + "0 and a hole overlap$"),
        (holding((0, 20, 20)), r"held of policy Holding must map request 0 to its Extent, not to \(0, 20, 20\)"),
        (holding([0, 20, 20]), "must map request 0 to its Extent"),
        (holding(20), "must map request 0 to its Extent, not to 20"),
    ],
)
def test_extents_that_cannot_be(policy, words):
    with pytest.raises((TypeError, ValueError), match=words):
        simulate(eight()[:2], policy, 40)


def test_an_extent_moved_onto_another_is_seen():
    class MovesBack(MyCopies):
        def grow(self, request):
            super().grow(request)
            if request.request_id:
                self.held[request.request_id] = self.held[request.request_id]._replace(start=0)

    with pytest.raises(ValueError, match="policy MovesBack must hold extents side by side: that of request 0"):
        simulate(eight(), MovesBack(Arena(64)), 64)


@pytest.mark.parametrize("make", [lambda: MyBlocks(16, 4), lambda: MyExtents(Arena(64)), lambda: Oracle(Arena(64))])
@pytest.mark.parametrize(
    "returned", [lambda n: n + 5, lambda n: -1, lambda n: None, lambda n: 0.0, lambda n: True, str]
)
def test_an_odd_number_of_steps_is_told_at_once(make, returned):
    policy, asked = make(), []
    policy.grow_all = lambda steps: asked.append(steps) or returned(steps)
    words = rf"^what grow_all\(\d+\) of policy {type(policy).__name__} returns must be a whole number of at least 0"
    with pytest.raises((TypeError, ValueError), match=words):
        simulate(eight(), policy, 64)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("block_size", 0, "^block_size of policy MyExtents must be a whole number of at least 1 and at most 64, not 0"),
        ("block_size", 2.5, "^block_size of policy MyExtents must be a whole number of at least 1"),
        ("block_size", 65, "^block_size of policy MyExtents must be a whole number of at least 1 and at most 64"),
        ("block_size", "4", "^block_size of policy MyExtents"),
        ("held", [], r"^held of policy MyExtents must be a dict from request ids, not \[\]"),
        ("held", None, "^held of policy MyExtents must be a dict"),
        ("held", (), "^held of policy MyExtents must be a dict"),
        ("copied_tokens", None, "^copied_tokens of policy MyExtents must be a whole number"),
    ],
)
def test_an_odd_attribute_is_named_with_its_policy(name, value, words):
    policy = MyExtents(Arena(64))
    setattr(policy, name, value)
    with pytest.raises((TypeError, ValueError), match=words):
        simulate(eight(), policy, 64)


def test_no_two_policies_share_what_they_hold():
    one, other = MyBlocks(4, 4), MyBlocks(4, 4)
    one.admit(Request(0, 0.0, 4, 4))
    assert one.held == {0: 4} and other.held == {} and Log().wanted is not Log().wanted
