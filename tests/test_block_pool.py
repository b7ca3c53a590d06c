from itertools import combinations

import pytest

from pagedkv.block_pool import BlockPool, OutOfBlocks


def state(pool):
    return pool.num_free, [pool.ref_count(block_id) for block_id in range(pool.num_blocks)]


def test_blocks_are_handed_out_once_and_come_back():
    pool = BlockPool(4)
    first, second = pool.allocate(3), pool.allocate(1)
    assert sorted(first + second) == [0, 1, 2, 3]
    assert pool.num_free == 0
    pool.free(first)
    assert pool.num_free == 3
    assert sorted(pool.allocate(3)) == sorted(first)
    pool.check([first, second])


def test_block_0_first_and_the_last_freed_is_reused_first():
    pool = BlockPool(4)
    assert pool.allocate(4) == [0, 1, 2, 3]
    pool.free([1, 3])
    assert pool.allocate(2) == [3, 1]


def test_allocation_is_all_or_nothing():
    pool = BlockPool(3, 4)
    held = pool.allocate(2)
    with pytest.raises(OutOfBlocks, match="2 blocks requested, 1 free") as error:
        pool.allocate(2)
    assert (error.value.requested, error.value.free) == (2, 1)
    assert pool.num_free == 1
    assert pool.allocate(1) not in ([block] for block in held)
    assert BlockPool(3).allocate(3) == [0, 1, 2]
    assert pool.allocate(0) == []


def test_a_shared_block_is_free_after_its_last_owner():
    pool = BlockPool(2)
    [block] = pool.allocate(1)
    pool.share([block])
    assert pool.ref_count(block) == 2
    pool.free([block])
    assert (pool.ref_count(block), pool.num_free) == (1, 1)
    pool.free([block])
    assert (pool.ref_count(block), pool.num_free) == (0, 2)


@pytest.mark.parametrize("method", ["free", "share"])
@pytest.mark.parametrize("bad", [[2], [0, 2], [0, 0], [4], [-1], [99, 0]])
def test_free_blocks_repeated_and_unknown_ids_are_refused(method, bad):
    pool = BlockPool(4)
    pool.allocate(2)
    pool.share([0])
    before = state(pool)
    with pytest.raises(ValueError, match="ids"):
        getattr(pool, method)(bad)
    assert state(pool) == before


@pytest.mark.parametrize("bad", [[1.0], [True], ["0"], [None], [[0]], [0, 1.0], 0, None])
def test_ids_must_be_whole_numbers(bad):
    pool = BlockPool(4)
    pool.allocate(2)
    with pytest.raises(TypeError, match="ids"):
        pool.free(bad)
    assert pool.num_free == 2


def test_double_free_changes_nothing():
    pool = BlockPool(4)
    ids = pool.allocate(2)
    pool.free(ids)
    for again in (ids, [ids[0], ids[0]]):
        with pytest.raises(ValueError, match=f"block {ids[0]}"):
            pool.free(again)
    assert pool.num_free == 4
    assert sorted(pool.allocate(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("bad", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError), (None, TypeError)]
)
def test_allocate_wants_a_whole_number(bad, error):
    pool = BlockPool(4)
    with pytest.raises(error, match="n must be a whole number"):
        pool.allocate(bad)
    assert pool.num_free == 4


@pytest.mark.parametrize("bad", [(0,), (4, 0), (-1,)])
def test_a_pool_needs_blocks_and_slots(bad):
    with pytest.raises(ValueError, match="num_blocks|block_size"):
        BlockPool(*bad)


def test_numpy_integers_are_block_ids():
    import numpy as np

    pool = BlockPool(4)
    pool.allocate(2)
    pool.free(np.array([0, 1]))
    assert sorted(pool.allocate(4)) == [0, 1, 2, 3]


def test_kept_blocks_go_last_least_recently_freed_first_and_are_told_about():
    pool, lost = BlockPool(4), []
    pool.allocate(4)
    for block in (0, 1, 2):
        pool.keep(block, lost.append)
    pool.free([2, 0, 3, 1])
    assert pool.num_free == 4
    pool.share([2])  # revived: no longer free, content still known
    pool.free([2])  # now used most recently
    pool.check([])
    assert (pool.allocate(1), lost) == ([3], [])
    assert (pool.allocate(2), lost) == ([0, 1], [0, 1])
    assert (pool.allocate(1), lost) == ([2], [0, 1, 2])


def test_forgotten_content_makes_a_block_blank():
    pool, lost = BlockPool(2), []
    pool.allocate(2)
    pool.keep(0, lost.append)
    pool.free([0, 1])
    pool.forget(0)
    pool.forget(0)
    assert lost == [0]
    pool.check([])
    with pytest.raises(ValueError, match="block 0, which is free"):
        pool.share([0])
    with pytest.raises(ValueError, match="block_id 0 is free"):
        pool.keep(0, lost.append)


BREAK = {
    "has 1 references and is in the free list": lambda pool: pool._blank.append(0),
    "not in the free list once": lambda pool: pool._blank.pop(),
    "block 1 has -1 references": lambda pool: pool._refs.__setitem__(1, -1),
    "waits among the wrong ones": lambda pool: pool._kept.__setitem__(pool._blank[0], print),
    "no blocks of this pool": lambda pool: pool._blank.append(7),
    "block 0 has 2 references and 1 owners": lambda pool: pool.share([0]),
    "block 0 has 0 references and 1 owners": lambda pool: pool.free([0]),
}


@pytest.mark.parametrize("message", BREAK)
def test_check_says_which_invariant_is_broken(message):
    pool = BlockPool(4)
    owner = pool.allocate(2)
    pool.check([owner])
    BREAK[message](pool)
    with pytest.raises(AssertionError, match=message):
        pool.check([owner])


def test_check_without_owners_sees_the_free_list_only():
    pool = BlockPool(4)
    pool.allocate(2)
    pool.check()
    with pytest.raises(AssertionError, match="block 0 has 1 references and 0 owners"):
        pool.check([])
    with pytest.raises(AssertionError, match=r"the owners name \[4\], which are no blocks of this pool"):
        pool.check([[0, 1], [4]])


def test_every_way_to_free_gives_the_whole_pool_back():
    for size in range(5):
        for freed in combinations(range(4), size):
            pool = BlockPool(4)
            pool.allocate(4)
            pool.free(freed)
            pool.free(set(range(4)) - set(freed))
            assert sorted(pool.allocate(4)) == [0, 1, 2, 3]
