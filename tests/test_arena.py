import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedkv.simulation.arena import Arena, BuddyArena, Extent, OutOfMemory


def state(arena):
    return arena.holes(), arena.total_free, arena.largest_hole


def test_holes_merge_and_total_free_is_not_the_largest_hole():
    arena = Arena(10)
    a, b, c = arena.allocate(3), arena.allocate(4), arena.allocate(3)
    assert (a, b, c) == (Extent(0, 3, 3), Extent(3, 4, 4), Extent(7, 3, 3))
    arena.free(a)
    arena.free(c)
    assert (arena.total_free, arena.largest_hole) == (6, 3)
    with pytest.raises(OutOfMemory, match="4 slots requested, 6 free, the largest hole has 3: fragmentation") as caught:
        arena.allocate(4)
    assert (caught.value.requested, caught.value.total_free, caught.value.largest_hole, caught.value.fragmented) == (
        4,
        6,
        3,
        True,
    )
    arena.free(b)
    assert arena.holes() == [Extent(0, 10)]
    assert arena.allocate(10).start == 0
    with pytest.raises(OutOfMemory, match="1 slot requested, 0 free, the largest hole has 0: too little memory"):
        arena.allocate(1)


@pytest.mark.parametrize(("fit", "start"), [("first", 0), ("best", 6)])
def test_first_fit_takes_the_lowest_hole_and_best_fit_the_smallest(fit, start):
    arena = Arena(9, fit)
    large, _, small = arena.allocate(5), arena.allocate(1), arena.allocate(3)
    arena.free(large)
    arena.free(small)
    assert arena.holes() == [Extent(0, 5), Extent(6, 3)]
    assert arena.allocate(3) == Extent(start, 3, 3)


def test_best_fit_takes_the_lowest_of_equal_holes():
    arena = Arena(7, "best")
    first, _, second = arena.allocate(3), arena.allocate(1), arena.allocate(3)
    arena.free(second)
    arena.free(first)
    assert arena.allocate(2).start == 0


def test_a_buddy_arena_rounds_up_and_joins_only_buddies():
    arena = BuddyArena(16)
    a, b, c, d = (arena.allocate(n) for n in (3, 4, 4, 4))
    assert (a, b, c, d) == (Extent(0, 4, 3), Extent(4, 4, 4), Extent(8, 4, 4), Extent(12, 4, 4))
    arena.free(b)
    arena.free(c)
    assert arena.holes() == [Extent(4, 4), Extent(8, 4)]  # neighbours, but not two halves of one block
    with pytest.raises(OutOfMemory):
        arena.allocate(5)
    arena.free(a)
    assert arena.holes() == [Extent(0, 8), Extent(8, 4)]
    arena.free(d)
    assert arena.holes() == [Extent(0, 16)]


def test_a_capacity_that_is_no_power_of_two_splits_into_descending_powers():
    assert [hole.size for hole in BuddyArena(15_728).holes()] == [8192, 4096, 2048, 1024, 256, 64, 32, 16]
    arena = BuddyArena(6)
    assert (arena.total_free, arena.largest_hole) == (6, 4)
    with pytest.raises(OutOfMemory, match="fragmentation"):
        arena.allocate(5)


BAD_SIZES = [
    (0, ValueError),
    (-1, ValueError),
    (1.5, TypeError),
    (True, TypeError),
    ("2", TypeError),
    (None, TypeError),
]


@pytest.mark.parametrize("kind", [Arena, BuddyArena])
@pytest.mark.parametrize(("value", "error"), [*BAD_SIZES, (10**30, ValueError)])
def test_a_bad_capacity_is_named(kind, value, error):
    with pytest.raises(error, match=f"capacity must be a whole number of at least 1.*{value!r}"):
        kind(value)


@pytest.mark.parametrize("fit", ["worst", "", None, 1])
def test_an_unknown_fit_is_named(fit):
    with pytest.raises(ValueError, match=f"fit must be one of 'first', 'best', not {fit!r}"):
        Arena(10, fit)


@pytest.mark.parametrize("kind", [Arena, BuddyArena])
@pytest.mark.parametrize(("value", "error"), [*BAD_SIZES, (10**30, OutOfMemory)])
def test_a_bad_request_changes_nothing(kind, value, error):
    arena = kind(10)
    arena.allocate(3)
    before = state(arena)
    with pytest.raises(error, match=re.escape(str(value))):
        arena.allocate(value)
    assert state(arena) == before


@pytest.mark.parametrize("kind", [Arena, BuddyArena])
def test_freeing_what_is_not_out_changes_nothing(kind):
    arena = kind(16)
    kept, freed = arena.allocate(3), arena.allocate(5)
    arena.free(freed)
    before = state(arena)
    stranger = kind(16).allocate(2)
    longer = kept._replace(size=kept.size + 1)
    for wrong in (freed, stranger, longer, Extent(3, 2, 2), Extent(99, 1, 1), Extent(-1, 1, 1), arena.holes()[0]):
        with pytest.raises(ValueError, match="extent must be one that is allocated now"):
            arena.free(wrong)
        assert state(arena) == before
    for wrong in (None, 0, (0, 3, 3), "0"):
        with pytest.raises(TypeError, match="extent must be an Extent"):
            arena.free(wrong)
        assert state(arena) == before
    arena.free(kept)
    assert arena.total_free == 16


# Random sequences against a plain model: a list with one owner (or None) per slot.


def plain_holes(slots):
    holes, start = [], None
    for i, owner in enumerate([*slots, "end"]):
        if owner is None and start is None:
            start = i
        elif owner is not None and start is not None:
            holes.append(Extent(start, i - start))
            start = None
    return holes


def plain_buddy_holes(slots, start=0, size=None):
    """Halve until a part is all free or a single slot.

    A whole that is no power of two first falls into descending powers.
    """
    if size is None:
        sizes = [1 << order for order in reversed(range(len(slots).bit_length())) if len(slots) >> order & 1]
        return [hole for i, size in enumerate(sizes) for hole in plain_buddy_holes(slots, sum(sizes[:i]), size)]
    if all(owner is None for owner in slots[start : start + size]):
        return [Extent(start, size)]
    half = size // 2
    return plain_buddy_holes(slots, start, half) + plain_buddy_holes(slots, start + half, half) if half else []


MODELS = {
    "first": (lambda capacity: Arena(capacity), plain_holes, lambda n: n, lambda hole: hole.start),
    "best": (lambda capacity: Arena(capacity, "best"), plain_holes, lambda n: n, lambda hole: (hole.size, hole.start)),
    "buddy": (BuddyArena, plain_buddy_holes, lambda n: 1 << (n - 1).bit_length(), lambda hole: (hole.size, hole.start)),
}


@pytest.mark.parametrize("kind", MODELS)
@given(data=st.data())
def test_any_sequence_agrees_with_a_plain_model(kind, data):
    make, holes, rounded, preference = MODELS[kind]
    capacity = data.draw(st.integers(1, 70))
    arena, slots, held = make(capacity), [None] * capacity, []
    for step in range(data.draw(st.integers(0, 40))):
        if held and data.draw(st.booleans()):
            extent = held.pop(data.draw(st.integers(0, len(held) - 1)))
            arena.free(extent)
            slots[extent.start : extent.start + extent.size] = [None] * extent.size
        else:
            n = data.draw(st.integers(1, capacity + 2))
            fitting = [hole for hole in holes(slots) if hole.size >= rounded(n)]
            if fitting:
                extent = arena.allocate(n)
                assert extent == Extent(min(fitting, key=preference).start, rounded(n), n)
                assert slots[extent.start : extent.start + extent.size] == [None] * extent.size
                slots[extent.start : extent.start + extent.size] = [step] * extent.size
                held.append(extent)
            else:
                with pytest.raises(OutOfMemory):
                    arena.allocate(n)
        assert arena.holes() == holes(slots)
        assert arena.total_free == slots.count(None)
        assert arena.largest_hole == max((hole.size for hole in holes(slots)), default=0)
