"""The portraits of a pool, an arena and a run show what these hold: every slot once, the shares over time."""

import numpy as np
import pytest
from picture_rules import assert_legible, texts

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.arena import arena_pieces
from pagedkv.course.draw.pool import pool_and_tables
from pagedkv.course.draw.timeline import _column_means, snapshot_pieces
from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.policies import GrowByCopy, MaxLength, Paged, PowerOfTwo
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests

# A pool


def tables(num_blocks, block_size, *lengths):
    pool = BlockPool(num_blocks, block_size)
    grown = [BlockTable(pool) for _ in lengths]
    for table, length in zip(grown, lengths, strict=True):
        table.append(length)
    return pool, grown


def pools():
    pool, (a, b) = tables(8, 4, 10, 3)
    c = a.fork()
    c.append(2)
    yield "pool", pool_and_tables("A pool", pool, {"A": a, "B": b, "C": c}, ("C", 11), "a line")
    yield "large blocks", pool_and_tables("A pool", pool := BlockPool(6, 16), {"A": BlockTable(pool)})
    pool, (table,) = tables(12, 1, 7)
    yield "blocks of one", pool_and_tables("A pool", pool, {"A": table})


POOLS = dict(pools())


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_is_legible(name):
    canvas, alt = POOLS[name]
    assert_legible(canvas.svg(alt))


def test_a_shared_block_says_so():
    pool, (a,) = tables(8, 4, 6)
    said = texts(pool_and_tables("x", pool, {"A": a, "B": a.fork()})[0])
    assert [text for text in said if "owners" in text] == ["0: 2 owners", "1: 2 owners"]


def test_a_sequence_keeps_its_colour_when_another_goes():
    pool, (a, b) = tables(8, 4, 6, 3)

    def fills(**shown):
        shapes = pool_and_tables("x", pool, shown, names="ABC")[0].shapes
        return {shape["fill"] for kind, shape in shapes if kind == "polygon"}

    assert style.request_colour(1) in fills(A=a, B=b) & fills(B=b)
    assert style.request_colour(0) not in fills(B=b)


def test_the_words_say_what_the_picture_shows():
    pool, (a, b) = tables(8, 4, 6, 3)
    words = pool_and_tables("x", pool, {"A": a, "B": b}, ("A", 5))[1]
    assert "A: 6 tokens in blocks [0, 1]; B: 3 tokens in blocks [2]. Token 5 of A is in block 1, offset 1." in words


# An arena


def test_pieces_of_an_arena_cover_every_slot_once():
    for arena in (Arena(100), BuddyArena(100)):
        extents = {number: arena.allocate(size) for number, size in enumerate((10, 7, 20))}
        arena.free(extents.pop(1))
        pieces = arena_pieces(arena, extents)
        assert sum(piece.size for piece in pieces) == 100
        assert {piece.label for piece in pieces if piece.fill in style.REQUESTS} == {"r0", "r2"}
        assert sum(piece.size for piece in pieces if piece.fill in style.REQUESTS) == 30


def test_a_hole_that_is_too_small_for_the_next_is_waste_another_is_free():
    arena = Arena(100)
    extents = {number: arena.allocate(size) for number, size in enumerate((10, 7, 20, 60))}
    for number in (0, 2):
        arena.free(extents.pop(number))
    fills = [piece.fill for piece in arena_pieces(arena, extents, wanted=11) if piece.tip.startswith("hole")]
    assert fills == [style.EXTERNAL, style.FREE, style.EXTERNAL]
    assert {piece.fill for piece in arena_pieces(arena, extents)} == {style.FREE, *map(style.request_colour, (1, 3))}


# A run


@pytest.mark.parametrize(
    "policy",
    [
        lambda: MaxLength(Arena(8000)),
        lambda: PowerOfTwo(BuddyArena(8100)),
        lambda: GrowByCopy(Arena(8192)),
        lambda: Paged(510),
    ],
)
def test_pieces_of_a_snapshot_cover_every_slot_and_agree_with_the_timeline(policy):
    run = simulate(sample_requests("paper-sharegpt", 40), policy(), 8192)
    for step in np.linspace(0, run.step[-1], 9).astype(int).tolist():
        sizes = dict.fromkeys((*style.STATE_NAMES.values(), "rounding"), 0)
        pieces = snapshot_pieces(run, step, "states")
        assert sum(piece.size for piece in pieces) == 8192
        for piece in pieces:
            name = piece.tip.split(":")[0].split(", ")[-1]
            sizes[name] += piece.size
            assert name == "rounding" or (piece.fill, piece.hatch) == style.STATES[name.replace(" ", "_")]
        sizes["external"] += sizes.pop("rounding")
        point = run.step.searchsorted(step)
        assert list(sizes.values()) == [getattr(run, state)[point] for state in style.STATES]


def test_columns_of_the_areas_keep_the_mean():
    run = simulate(sample_requests("paper-sharegpt", 60, rate=0.2), MaxLength(Arena(8192)), 8192)
    end = run.num_steps
    for state in style.STATES:
        means = _column_means(run, state, np.linspace(0, end, 101))[1:-1]
        assert means.mean() == pytest.approx((getattr(run, state) * run.duration).sum() / end / 8192)
