import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_simulator import FIELDS, PagedWithIds, simulate_plainly

from pagedkv.simulation.arena import Arena, BuddyArena, Extent
from pagedkv.simulation.policies import GrowByCopy, MaxLength, Oracle, Paged, Policy, PowerOfTwo
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.timeline import SHARES
from pagedkv.simulation.workload import Request, sample_requests

CAPACITY = 3000
POLICIES = {  # name: (the policy, what the plain simulator runs in its place)
    "max": (lambda: MaxLength(BuddyArena(CAPACITY), 1024), None),
    "pow2 buddy": (lambda: PowerOfTwo(BuddyArena(CAPACITY), 1024), None),
    "pow2 first fit": (lambda: PowerOfTwo(Arena(CAPACITY), 1024), None),
    "oracle best fit": (lambda: Oracle(Arena(CAPACITY, "best")), None),
    "copy": (lambda: GrowByCopy(Arena(CAPACITY), 64, 1.5), None),
    "copy buddy": (lambda: GrowByCopy(BuddyArena(CAPACITY), 64, 2.0), None),
    "paged": (lambda: Paged(187), lambda: PagedWithIds(187)),
    "paged, 10 % kept free": (lambda: Paged(46, 64, 0.1), lambda: PagedWithIds(46, 64, 0.1)),
}


def requests_of(*lengths, arrivals=None):
    return [Request(i, arrivals[i] if arrivals else 0.0, prompt, output) for i, (prompt, output) in enumerate(lengths)]


def assert_same(timeline, plain):
    rows, refused, finished = plain
    for field in FIELDS:
        by_step = np.repeat(getattr(timeline, field), timeline.duration)
        if field in ("preemptions", "copied_tokens"):  # events of a point's first step
            by_step[np.isin(np.arange(len(by_step)), timeline.step, invert=True)] = 0
        np.testing.assert_array_equal(by_step, rows[field], err_msg=field)
    assert set(timeline.refused) == refused
    assert timeline.finished == finished


def assert_accounted(timeline):
    parts = [
        getattr(timeline, name) for name in (*SHARES, "rounding", "running", "waiting", "preemptions", "copied_tokens")
    ]
    assert all((part >= 0).all() for part in parts)
    np.testing.assert_array_equal(sum(parts[: len(SHARES)]), timeline.capacity)
    assert (timeline.rounding <= timeline.external).all()
    assert sum(timeline.shares().values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("rate", [None, 6, 0.5])
def test_the_timeline_is_that_of_the_plain_simulation(name, rate):
    make, plain = POLICIES[name]
    requests = sample_requests("paper-sharegpt", 150, rate, seed=5)
    timeline = simulate(requests, make(), CAPACITY)
    assert_accounted(timeline)
    assert_same(timeline, simulate_plainly(requests, (plain or make)(), CAPACITY))
    assert len(timeline.finished) + len(timeline.refused) == 150


@settings(deadline=None)
@given(data=st.data())
def test_any_small_run_is_that_of_the_plain_simulation(data):
    capacity = data.draw(st.integers(1, 60))
    lengths = data.draw(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=12))
    arrivals = sorted(data.draw(st.lists(st.integers(0, 60), min_size=len(lengths), max_size=len(lengths))))
    requests = requests_of(*lengths, arrivals=[0.04 * step for step in arrivals])
    block_size, watermark = data.draw(st.integers(1, min(capacity, 5))), data.draw(st.sampled_from([0.0, 0.2, 1.0]))
    kind = data.draw(st.sampled_from([Arena, lambda capacity: Arena(capacity, "best"), BuddyArena]))
    foreign = data.draw(st.integers(0, kind(capacity).largest_request // 3))
    longest = kind(capacity).largest_request

    def arena(capacity):
        """An arena in which somebody else holds a few slots."""
        arena = kind(capacity)
        if foreign:
            arena.allocate(foreign)
        return arena

    initial, factor = data.draw(st.integers(1, longest)), data.draw(st.sampled_from([1.01, 1.5, 2, 3.7]))
    for make, plain in (
        (lambda: MaxLength(arena(capacity), (longest + 1) // 2), None),
        (lambda: PowerOfTwo(arena(capacity), longest), None),
        (lambda: Oracle(arena(capacity)), None),
        (lambda: GrowByCopy(arena(capacity), initial, factor), None),
        (
            lambda: Paged(capacity // block_size, block_size, watermark),
            lambda: PagedWithIds(capacity // block_size, block_size, watermark),
        ),
    ):
        policy, expected = make(), simulate_plainly(requests, (plain or make)(), capacity)
        if not expected[2]:
            with pytest.raises(ValueError, match="requests must hold one that fits"):
                simulate(requests, policy, capacity)
            continue
        timeline = simulate(requests, policy, capacity)
        assert_accounted(timeline)
        assert_same(timeline, expected)
        assert not policy.held
        assert_map_agrees(timeline)


def assert_map_agrees(timeline):
    """The memory map adds up to the arrays at every step, no slot is held twice, and what holds a token stays where it
    is.
    """
    tables = {}
    for point, step in enumerate(timeline.step.tolist()):
        pieces = timeline.snapshot(step)
        ends = [piece.start + sum(piece[2:]) for piece in pieces]
        assert all(end <= piece.start for end, piece in zip(ends, pieces[1:], strict=False))
        assert not ends or ends[-1] <= timeline.capacity
        for i, field in enumerate(("token_states", "reserved", "internal", "rounding"), 2):
            assert sum(piece[i] for piece in pieces) == getattr(timeline, field)[point]
        assert len({piece.request_id for piece in pieces}) == timeline.running[point]
        holes = timeline.holes(step)
        assert sum(hole.size for hole in holes if hole.usable) == timeline.free[point]
        covered = sorted(
            [(p.start, p.start + sum(p[2:])) for p in pieces] + [(h.start, h.start + h.size) for h in holes]
        )
        assert all(end <= start for (_, end), (start, _) in zip(covered, covered[1:], strict=False))
        held = {}
        for piece in pieces:
            held.setdefault(piece.request_id, set()).add(piece.start)
        if timeline.block_size and not timeline.preemptions[point]:
            for request_id in held.keys() & tables.keys():
                assert tables[request_id] <= held[request_id]
        tables = held


def test_a_run_by_hand():
    timeline = simulate(requests_of((2, 2), (1, 2), (1, 0)), Paged(4, 2, watermark=0), 9)
    np.testing.assert_array_equal(timeline.running, [3, 2, 2])
    np.testing.assert_array_equal(timeline.token_states, [2 + 1 + 1, 3 + 2, 4 + 3])
    np.testing.assert_array_equal(timeline.reserved, [0 + 1 + 0, 1 + 0, 0])
    np.testing.assert_array_equal(timeline.internal, [0 + 0 + 1, 0, 1])
    np.testing.assert_array_equal(timeline.free, [2, 2, 0])
    np.testing.assert_array_equal(timeline.external, [1, 1, 1])  # the slot that no block has
    assert timeline.finished == {0: 2, 1: 2, 2: 0}
    assert timeline.snapshot(1)[:2] == [(0, 0, 2, 0, 0, 0), (1, 2, 2, 0, 0, 0)]


def test_the_latest_is_preempted_first_and_computes_its_tokens_again():
    timeline = simulate(requests_of((4, 4), (2, 6), (3, 1)), Paged(4, 2, watermark=0), 8)
    # Request 0 needs its third block at step 1, request 1 its second: one is free, so 1 goes back; it has
    # stored two tokens and sampled a third, and waits for two blocks.
    np.testing.assert_array_equal(timeline.preemptions[:3], [0, 1, 0])
    np.testing.assert_array_equal(timeline.running[:3], [2, 1, 1])
    np.testing.assert_array_equal(timeline.waiting[:3], [1, 2, 2])
    assert {piece.request_id for piece in timeline.snapshot(2)} == {0}  # not request 2 either, which came later
    assert set(timeline.finished) == {0, 1, 2}


@pytest.mark.parametrize(("watermark", "preemptions", "steps"), [(0.0, 1, 57), (0.5, 0, 72)])
def test_two_that_outgrow_the_pool_take_turns_or_wait(watermark, preemptions, steps):
    timeline = simulate(requests_of((34, 35), (34, 35)), Paged(7, 16, watermark), 7 * 16)
    assert (timeline.preemptions.sum(), timeline.num_steps) == (preemptions, steps)


def test_many_preemptions_still_beat_one_request_after_the_other():
    policy, one_by_one = Paged(9, 16, 0.0), Paged(9, 16, 1.0)
    timeline = simulate(requests_of(*[(8, 120)] * 40), policy, 9 * 16)
    assert (timeline.preemptions.sum(), timeline.num_steps, policy.num_free) == (107, 3042, 9)
    assert simulate(requests_of(*[(8, 120)] * 40), one_by_one, 9 * 16).num_steps == 4840


def test_holes_are_free_while_nobody_waits_and_external_while_they_are_too_small_for_the_head():
    # Requests 0, 1 and 2 hold 5, 4 and 4 slots; 1 leaves after step 0, 2 after step 2; 3 wants 6 in a row.
    timeline = simulate(requests_of((2, 3), (4, 0), (2, 2), (5, 1)), Oracle(Arena(14)), 14)
    np.testing.assert_array_equal(timeline.waiting, [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(timeline.external, [1, 5, 5, 0, 0])
    np.testing.assert_array_equal(timeline.free, [0, 0, 0, 3, 8])
    assert timeline.holes(1) == [(5, 4, False), (13, 1, False)]


def test_a_hole_that_could_take_a_preempted_request_is_free():
    # At step 2 request 0 wants 8 slots in a row; 1 goes back for that, and could have the 4 that 0 leaves, not the 3.
    timeline = simulate(requests_of((3, 8), (1, 9)), GrowByCopy(Arena(15), 4, 2.0), 15)
    assert (timeline.preemptions[2], timeline.running[2], timeline.waiting[2]) == (1, 1, 1)
    assert timeline.holes(2) == [(0, 4, True), (12, 3, False)]
    assert (timeline.free[2], timeline.external[2]) == (4, 3)


def test_every_free_block_is_free_those_too_that_the_watermark_keeps():
    timeline = simulate(requests_of((4, 4), (8, 8), (8, 1)), Paged(8, 4, 0.5), 34)
    np.testing.assert_array_equal(timeline.waiting[:2], [1, 1])
    np.testing.assert_array_equal(timeline.free[:2], [20, 12])  # blocks that request 2 may not have yet
    assert set(timeline.external.tolist()) == {2}  # 34 slots are 8 blocks and 2 that no block has


def test_a_request_larger_than_the_pool_is_refused_and_the_others_go_on():
    requests = requests_of((17, 1), (3, 2))
    policy = Paged(num_blocks=4, block_size=4)
    timeline = simulate(requests, policy, 16)
    assert timeline.refused == {0: "request 0 needs 5 blocks of 4 slots, the pool has 4 in total"}
    assert timeline.finished == {1: 2}
    assert policy.num_free == 4


def test_a_request_that_would_outgrow_the_pool_alone_is_refused_at_once():
    with pytest.raises(ValueError, match="request 0 needs 3 blocks of 4 slots, the pool has 2 in total"):
        simulate(requests_of((8, 4)), Paged(num_blocks=2, block_size=4), 8)
    assert simulate(requests_of((4, 4)), Paged(num_blocks=2, block_size=4), 8).finished == {0: 4}


def test_a_request_alone_never_livelocks_when_it_cannot_be_copied():
    timeline = simulate(requests_of((8, 40)), GrowByCopy(Arena(48), 8, 2.0), 48)
    assert set(timeline.finished) == {0}
    assert (
        timeline.preemptions.sum() == 1
    )  # 32 slots cannot become 48 beside themselves, so the tokens are computed again


def test_a_head_that_does_not_fit_an_idle_arena_is_refused_after_waiting():
    arena = Arena(10)
    arena.allocate(4)  # somebody else's
    timeline = simulate(requests_of((7, 1), (3, 2)), Oracle(arena), 10)
    assert "request 0 does not fit an idle pool: 8 slots requested, 6 free" in timeline.refused[0]
    assert timeline.finished == {1: 2}


def test_a_request_that_gave_up_does_not_disturb_the_next():
    arena = Arena(12)
    arena.allocate(4)  # somebody else's
    policy = GrowByCopy(arena, 2, 2.0)  # request 0 will want 8 slots in a row beside its 4, then alone, then 12
    requests = requests_of((2, 8), (2, 3), arrivals=[0.0, 0.28])
    timeline = simulate(requests, policy, 12)
    assert "request 0 does not fit an idle pool" in timeline.refused[0]
    again = Arena(12)
    again.allocate(4)
    assert_same(timeline, simulate_plainly(requests, GrowByCopy(again, 2, 2.0), 12))


def test_requests_wait_for_their_arrival_and_an_idle_gap_is_one_point():
    timeline = simulate(requests_of((2, 1), (2, 1), arrivals=[0.04, 1e6]), Oracle(Arena(8)), 8)
    np.testing.assert_array_equal(timeline.step, [0, 1, 2, 3, 25_000_000, 25_000_001])
    np.testing.assert_array_equal(timeline.duration, [1, 1, 1, 25_000_000 - 3, 1, 1])
    np.testing.assert_array_equal(timeline.token_states, [0, 2, 3, 0, 2, 3])
    assert timeline.num_steps == 25_000_002
    assert timeline.snapshot(20_000_000) == []
    assert timeline.snapshot(25_000_001) == [(1, 0, 3, 0, 0, 0)]


def test_admission_is_first_come_first_served_even_when_a_later_one_would_fit():
    timeline = simulate(requests_of((4, 3), (5, 1), (1, 1)), Oracle(Arena(8)), 8)
    np.testing.assert_array_equal(timeline.running, [1, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(timeline.waiting, [2, 2, 2, 2, 0, 0])


def test_shares_count_only_the_steps_at_which_a_request_waits():
    timeline = simulate(requests_of((4, 3), (5, 1), (1, 1)), Oracle(Arena(8)), 8)
    assert timeline.shares() == {
        "token_states": (4 + 5 + 6 + 7) / 32,
        "reserved": (3 + 2 + 1) / 32,
        "internal": 0,
        "external": 4 / 32,
        "free": 0,
    }
    alone = simulate(requests_of((4, 0)), Oracle(Arena(8)), 8)  # nobody ever waits: all steps at which one runs
    assert alone.shares() == {"token_states": 0.5, "reserved": 0, "internal": 0, "external": 0, "free": 0.5}


def test_growth_by_copy_counts_what_it_copies():
    policy = GrowByCopy(Arena(64), 4, 2.0)
    timeline = simulate(requests_of((4, 12)), policy, 64)
    assert [piece.start for step in (0, 4, 5, 12) for piece in timeline.snapshot(step)] == [0, 0, 8, 8]
    np.testing.assert_array_equal(np.flatnonzero(timeline.copied_tokens), [5])
    assert timeline.copied_tokens.sum() == policy.copied_tokens == 8
    assert timeline.preemptions.sum() == 0


def test_a_policy_with_three_verbs_of_its_own_will_do():
    class Fixed(Policy):
        slots = 30

        def admit(self, request):
            self.held[request.request_id] = Extent(10 * request.request_id, 10, 10)

        def grow(self, request):
            pass

        def release(self, request):
            del self.held[request.request_id]

    timeline = simulate(requests_of((2, 3), (4, 5), (1, 1)), Fixed(), 30)
    assert_accounted(timeline)
    np.testing.assert_array_equal(timeline.token_states[:2], [2 + 4 + 1, 3 + 5 + 2])
    np.testing.assert_array_equal(timeline.internal[:2], [5 + 1 + 8, 5 + 1 + 8])


GOOD = requests_of((4, 4), (4, 4))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], Oracle(Arena(8)), 8), {}, "requests must hold one that fits the policy's 8 slots: there is none"),
        ((requests_of((9, 9)), Oracle(Arena(8)), 8), {}, "requests must hold one that fits .*request 0 needs 18 slots"),
        (([*GOOD, GOOD[0]], Oracle(Arena(8)), 8), {}, "requests must have different ids, not 0 twice"),
        (
            (requests_of((1, 1), (1, 1), arrivals=[2.0, 1.0]), Oracle(Arena(8)), 8),
            {},
            "requests must be in order of arrival: request 1",
        ),
        (([(0, 0.0, 4, 4)], Oracle(Arena(8)), 8), {}, "requests must hold Request objects"),
        ((GOOD, Oracle(Arena(8)), 7), {}, "capacity must be .*at least 8.*not 7"),
        ((GOOD, Oracle(Arena(8)), 8.0), {}, "capacity must be"),
        ((GOOD, Oracle(Arena(8)), True), {}, "capacity must be"),
        ((GOOD, Oracle(Arena(8)), 10**30), {}, "capacity must be"),
        ((GOOD, Oracle(Arena(8)), 8), {"step_s": 0}, "step_s must be a finite number of at least 1e-06, not 0"),
        ((requests_of((1, 2**31 - 1)), Paged(2**30, 2), 2**31), {}, "requests must be done within 10,000,000 steps"),
        ((GOOD, Oracle(Arena(8)), 8), {"step_s": float("nan")}, "step_s must be"),
        ((GOOD, "oracle", 8), {}, "policy must be a Policy, not 'oracle'"),
    ],
)
def test_bad_arguments_are_named(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        simulate(*arguments, **options)


def test_a_policy_that_holds_requests_cannot_start_a_run():
    policy = Oracle(Arena(20))
    policy.admit(Request(7, 0.0, 4, 4))
    with pytest.raises(ValueError, match=r"policy must hold no request at the start, not \[7\]"):
        simulate(GOOD, policy, 20)


@pytest.mark.parametrize("step", [-1, 9, 2.0, True, None])
def test_a_snapshot_needs_a_step_of_the_run(step):
    with pytest.raises((ValueError, TypeError), match="step must be a whole number of at least 0 and at most 4"):
        simulate(GOOD, Oracle(Arena(16)), 16).snapshot(step)


def test_progress_is_reported_when_asked_for(capsys):
    simulate(GOOD, Oracle(Arena(8)), 8)
    assert capsys.readouterr().err == ""
    simulate(GOOD, Oracle(Arena(8)), 8, progress=True)
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["max", "pow2 buddy", "oracle best fit", "paged"])
def test_it_advances_from_event_to_event(name):
    """The policy is asked once an event, not once a step or a token; 2,000 requests all wait at the start."""
    policy, asked = POLICIES[name][0](), []
    policy.grow_all = lambda steps, grow_all=policy.grow_all: asked.append(steps) or grow_all(steps)
    timeline = simulate(sample_requests("paper-sharegpt", 2000), policy, CAPACITY)
    events = 2 * (
        2000 + int(timeline.preemptions.sum())
    )  # each request enters and leaves, once more for each preemption
    assert len(asked) <= 2 * events and timeline.num_steps > 10 * 2000


def test_what_the_head_of_the_queue_wants_of_an_arena():
    requests = requests_of((40, 10), (40, 20), (60, 5))
    timeline = simulate(requests, Oracle(Arena(120)), 120)
    waits = timeline.waiting > 0
    assert set(timeline.wanted[waits]) == {65} and set(timeline.wanted[~waits]) == {0}
    assert waits.sum() == 21  # the hole of the first is 10 slots short, beside the 10 at the end
    paged = simulate(requests, Paged(6, 16), 120)
    assert paged.waiting.any() and not paged.wanted.any()
