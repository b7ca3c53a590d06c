import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_simulator import PagedWithIds

from pagedkv.block_pool import OutOfBlocks
from pagedkv.simulation.arena import Arena, BuddyArena, Extent, OutOfMemory
from pagedkv.simulation.policies import GrowByCopy, MaxLength, Oracle, Paged, PowerOfTwo
from pagedkv.simulation.workload import Request


def request(prompt, output, request_id=0):
    return Request(request_id, 0.0, prompt, output)


@pytest.mark.parametrize(
    ("policy", "prompt", "output", "asked"),
    [
        (MaxLength, 10, 5, 2048),
        (PowerOfTwo, 100, 200, 100 + 256),
        (PowerOfTwo, 100, 256, 100 + 256),
        (PowerOfTwo, 100, 257, 100 + 512),
        (PowerOfTwo, 100, 1, 101),
        (PowerOfTwo, 100, 0, 100),
        (PowerOfTwo, 1500, 520, 2048),  # capped
        (Oracle, 100, 200, 300),
    ],
)
def test_what_each_policy_reserves(policy, prompt, output, asked):
    policy = policy(Arena(4096))
    policy.admit(request(prompt, output))
    assert policy.held[0] == Extent(0, asked, asked)
    policy.grow(request(prompt, output))
    assert policy.held[0].size == asked
    policy.release(request(prompt, output))
    assert policy.arena.total_free == 4096


def test_a_buddy_arena_rounds_what_the_policy_asks_for():
    policy = Oracle(BuddyArena(1024))
    policy.admit(request(100, 200))
    assert policy.held[0] == Extent(0, 512, 300)


def test_growth_by_copy_needs_the_old_and_the_new_extent_at_once():
    policy = GrowByCopy(Arena(14), initial=4, factor=2.0)
    policy.admit(request(2, 6))
    assert policy.held[0] == Extent(0, 4, 4)
    policy.grow(request(2, 6))
    policy.grow(request(2, 6))
    assert policy.copied_tokens == 0
    policy.grow(request(2, 6))  # the fifth token
    assert (policy.held[0], policy.copied_tokens) == (Extent(4, 8, 8), 4)
    for _ in range(3):
        policy.grow(request(2, 6))
    before = policy.arena.holes()
    with pytest.raises(OutOfMemory):
        policy.grow(request(2, 6))  # 14 more slots, while 8 are held
    assert (policy.copied_tokens, policy.held[0], policy.arena.holes()) == (4, Extent(4, 8, 8), before)


def test_growth_by_copy_admits_into_the_smallest_size_with_room():
    policy = GrowByCopy(Arena(1000), initial=10, factor=1.5)
    for i, prompt in enumerate((9, 10, 15, 22)):
        policy.admit(request(prompt, 1, i))
    assert [extent.size for extent in policy.held.values()] == [10, 15, 22, 33]


def test_paged_takes_a_block_when_the_last_is_full():
    policy = Paged(num_blocks=4, block_size=4)
    policy.admit(request(3, 10))
    free = [policy.num_free]
    for _ in range(9):
        policy.grow(request(3, 10))
        free.append(policy.num_free)
    assert free == [3, 3, 2, 2, 2, 2, 1, 1, 1, 1]
    assert policy.tokens(request(3, 10)) == 12
    policy.release(request(3, 10))
    assert policy.num_free == 4


def test_paged_growth_without_a_free_block_changes_nothing():
    policy = Paged(num_blocks=3, block_size=4, watermark=0.0)
    policy.admit(request(7, 3, 0))
    policy.admit(request(4, 3, 1))
    policy.grow(request(7, 3, 0))
    for _ in range(2):
        with pytest.raises(OutOfBlocks):
            policy.grow(request(4, 3, 1))
        assert (policy.num_free, policy.tokens(request(4, 3, 1))) == (0, 4)
    policy.release(request(7, 3, 0))
    policy.grow(request(4, 3, 1))
    assert (policy.num_free, policy.tokens(request(4, 3, 1))) == (1, 5)


def test_the_watermark_holds_back_new_requests_but_not_the_first():
    policy = Paged(num_blocks=10, block_size=1, watermark=0.2)
    policy.admit(request(9, 1, 0))  # nothing else runs
    policy.release(request(9, 1, 0))
    policy.admit(request(5, 1, 1))
    with pytest.raises(OutOfBlocks, match="4 blocks requested, 3 free"):
        policy.admit(request(4, 1, 2))
    policy.admit(request(3, 1, 2))
    assert policy.num_free == 2


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: MaxLength(Arena(64), 32), "request 7 needs 33 slots, max_seq_len is 32"),
        (lambda: PowerOfTwo(Arena(64), 32), "request 7 needs 33 slots, max_seq_len is 32"),
        (lambda: Oracle(BuddyArena(63)), "request 7 needs 33 slots in a row, the arena has at most 32 in a row"),
        (lambda: GrowByCopy(BuddyArena(63), 8), "request 7 needs 33 slots in a row, the arena has at most 32"),
        (lambda: Paged(2, 16), "request 7 needs 3 blocks of 16 slots, the pool has 2 in total"),
    ],
)
def test_a_request_that_can_never_fit_is_refused_with_both_numbers(policy, message):
    policy = policy()
    assert message in policy.refusal(request(23, 10, 7))
    assert policy.refusal(request(22, 10, 7)) is None
    with pytest.raises(ValueError, match=message):
        policy.admit(request(23, 10, 7))
    assert not policy.held


def test_a_policy_that_asks_for_too_little_is_told_so():
    class Hopeful(Oracle):
        def asked(self, request):
            return request.prompt_tokens

    with pytest.raises(ValueError, match="request 7 will store 33 tokens, only 23 slots are asked for"):
        Hopeful(Arena(64)).admit(request(23, 10, 7))


POLICIES = [
    lambda: MaxLength(Arena(64), 16),
    lambda: PowerOfTwo(Arena(64), 16),
    lambda: Oracle(Arena(64)),
    lambda: GrowByCopy(Arena(64), 4),
    lambda: Paged(16, 4),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_verbs_out_of_order_are_errors(policy):
    policy = policy()
    policy.admit(request(4, 4, 1))
    with pytest.raises(ValueError, match="request 1 is held already"):
        policy.admit(request(4, 4, 1))
    for verb in (policy.grow, policy.release):
        with pytest.raises(ValueError, match="request 2 is not held"):
            verb(request(4, 4, 2))
    policy.release(request(4, 4, 1))
    with pytest.raises(ValueError, match="request 1 is not held"):
        policy.release(request(4, 4, 1))
    policy.admit(request(8, 8, 1))  # all is free again


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaxLength(Arena(1000)), "max_seq_len must be .*at most 1000, not 2048"),
        (lambda: MaxLength(BuddyArena(1000), 513), "max_seq_len must be .*at most 512, not 513"),
        (lambda: MaxLength(Arena(1000), 0), "max_seq_len"),
        (lambda: MaxLength(Arena(1000), 10.0), "max_seq_len"),
        (lambda: Oracle(1000), "arena must be an Arena or a BuddyArena, not 1000"),
        (lambda: GrowByCopy(Arena(100), 101), "initial must be .*at most 100, not 101"),
        (lambda: GrowByCopy(Arena(100), 10, 1), "factor must be a finite number above 1, not 1"),
        (lambda: GrowByCopy(Arena(100), 10, float("nan")), "factor"),
        (lambda: Paged(0), "num_blocks"),
        (lambda: Paged(True), "num_blocks"),
        (lambda: Paged(4, 0), "block_size"),
        (lambda: Paged(4, 1.5), "block_size"),
        (lambda: Paged(4, 16, -0.1), "watermark must be a finite number of at least 0 and at most 1, not -0.1"),
        (lambda: Paged(4, 16, 10), "watermark"),
        (lambda: Paged(4, 16, "1%"), "watermark"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@given(data=st.data())
def test_counting_blocks_agrees_with_handing_them_out(data):
    block_size, num_blocks = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 20))
    counted, handed = Paged(num_blocks, block_size, 0.1), PagedWithIds(num_blocks, block_size, 0.1)
    held = {}
    for i in range(data.draw(st.integers(0, 30))):
        verb = data.draw(st.sampled_from(["admit", "grow", "grow_all", "release"])) if held else "admit"
        if verb == "grow_all":
            steps = data.draw(st.integers(0, 12))
            grown = counted.grow_all(steps)
            for _ in range(grown):
                for r in held.values():
                    handed.grow(r)
            if grown < steps:  # the step after the last does not fit
                needed = sum(handed.stored[j] == len(handed.held[j]) * block_size for j in held)
                assert needed > handed.pool.num_free
        else:
            r = (
                request(data.draw(st.integers(1, 25)), 0, i)
                if verb == "admit"
                else data.draw(st.sampled_from(list(held.values())))
            )
            if verb == "admit" and counted.refusal(r):
                assert handed.refusal(r)
                continue
            outcomes = []
            for policy in (counted, handed):
                try:
                    getattr(policy, verb)(r)
                    outcomes.append("done")
                except OutOfBlocks:
                    outcomes.append("full")
            assert outcomes[0] == outcomes[1]
            if outcomes == ["done", "done"]:
                if verb == "admit":
                    held[i] = r
                elif verb == "release":
                    del held[r.request_id]
        assert counted.num_free == handed.pool.num_free
        assert {j: counted.tokens(r) for j, r in held.items()} == handed.stored
