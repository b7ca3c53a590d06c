"""The portraits of a pool, an arena and a run show what these hold: every slot once, the shares over time."""

import numpy as np
import pytest
from picture_rules import assert_legible, assert_to_scale, boxes, strokes, texts, widths

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.arena import arena_pieces, fragmented_arena, playground
from pagedkv.course.draw.pool import pool_and_tables
from pagedkv.course.draw.timeline import _column_means, shares_over_time, side_by_side, snapshot_pieces
from pagedkv.simulation.arena import Arena, BuddyArena, OutOfMemory
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


def test_arrows_have_the_colour_of_their_request():
    pool, (a, b) = tables(8, 4, 6, 11)
    blue, orange = (style.arrow_colour(style.request_colour(i)) for i in range(2))
    shown = {"A": a, "B": b}
    assert strokes(pool_and_tables("x", pool, shown)[0]) == {blue: 2, orange: 3}
    assert strokes(pool_and_tables("x", pool, shown, ("B", 0))[0]) == {blue: 2, orange: 2, style.HIGHLIGHT: 1}


def test_an_arrow_leads_from_each_entry_to_its_block():
    pool, grown = tables(40, 4, *[17] * 5)
    canvas, _ = pool_and_tables("x", pool, dict(zip("ABCDE", grown, strict=True)))
    entries = {(round(left + 16), top) for left, top, width, height in boxes(canvas) if width == 32}
    blocks = [box for box in boxes(canvas, edge=style.INK) if box[2] == 88]  # those that are held, by number
    ways = [shape["points"] for kind, shape in canvas.shapes if kind == "path"]
    assert {(round(way[0][0]), way[0][1] - 27) for way in ways} == entries and len(entries) == 25
    for x, y in (point for way in ways for point in way[3:-1:3]):
        assert y > 300 or all(abs(x - middle) > 17 for middle, _ in entries)  # between the entries of the rows below
    for left, top, width, _ in blocks:
        assert sum(left < way[-1][0] < left + width and way[-1][1] == top - 5 for way in ways) == 1
    assert_legible(canvas.svg("x"))


# An arena


def arena_with_holes():
    arena = Arena(128)
    extents = {number: arena.allocate(size) for number, size in enumerate((10, 40, 25, 20, 33))}
    arena.free(extents.pop(1))
    arena.free(extents.pop(3))
    return arena, extents


def test_an_arena_and_its_holes_are_drawn_to_scale():
    arena, extents = arena_with_holes()
    canvas = fragmented_arena(arena, extents, wanted=50)
    held = [widths(canvas, style.request_colour(number)) for number in extents]
    strip, hole_bars = (assert_to_scale(sum(held, []), [10, 25, 33]), widths(canvas, style.EXTERNAL))
    assert hole_bars[:2] == pytest.approx([40 * strip, 20 * strip])
    scale = assert_to_scale(hole_bars[2:], [40, 20, 40, 20])  # one by one, and all together
    (line,) = (shape["points"] for kind, shape in canvas.shapes if kind == "path")
    bars_from = min(left for left, top, *_ in boxes(canvas, style.EXTERNAL) if top > 150)
    assert line[0][0] == line[1][0] == pytest.approx(bars_from + 50 * scale)


@pytest.mark.parametrize("task", ["", "A task."])
def test_a_playground_is_drawn_to_scale(task):
    arena, extents = arena_with_holes()
    with pytest.raises(OutOfMemory) as refused:
        arena.allocate(50)
    canvas, alt = playground(arena, extents, "full", refused.value, task)
    scale = assert_to_scale([sum(widths(canvas, style.request_colour(number))) for number in extents], [10, 25, 33])
    assert scale == pytest.approx((style.WIDTH - 76) / 32)
    holes = [box for box in boxes(canvas, style.EXTERNAL) if box[1] > 250]
    (wanted,) = widths(canvas, edge=style.HIGHLIGHT)
    assert assert_to_scale([*(width for _, _, width, _ in holes), wanted], [40, 20, 50]) == pytest.approx(scale / 4)
    assert alt.endswith("Holes: 40, 20." + f" {task}".rstrip()) and (task in texts(canvas)) == bool(task)
    assert_legible(canvas.svg(alt))


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


def area(points) -> float:
    (x, y), (next_x, next_y) = np.array(points).T, np.roll(points, -1, axis=0).T
    return abs((x * next_y - next_x * y).sum()) / 2


def two_runs():
    requests = sample_requests("paper-sharegpt", 60)
    return {"long": simulate(requests, MaxLength(Arena(8192)), 8192), "short": simulate(requests, Paged(512), 8192)}


def test_areas_are_as_large_as_the_shares_and_runs_as_long_as_their_steps():
    runs = two_runs()
    canvas, alt = shares_over_time(runs, height=100)
    longest, per_step = runs["long"].num_steps, (style.WIDTH - 316) / runs["long"].num_steps
    outlines = [(shape["fill"], shape["points"]) for kind, shape in canvas.shapes if kind == "polygon"]
    for state, (fill, _) in style.STATES.items():
        drawn = [points for other, points in outlines if other == fill and len(points) > 4]
        present = [run for run in runs.values() if getattr(run, state).any()]
        for run, points in zip(present, drawn, strict=True):
            share = (getattr(run, state) * run.duration).sum() / run.capacity
            assert area(points) == pytest.approx(per_step * 100 * share, rel=0.02, abs=5)
            xs = [x for x, _ in points]
            assert max(xs) - min(xs) == pytest.approx(per_step * run.num_steps)
    assert {f"{name}: {run.num_steps:,} steps" for name, run in runs.items()} <= set(texts(canvas))
    assert f"short, {runs['short'].num_steps:,} steps: " in alt
    assert_legible(canvas.svg(alt))
    for shape in (
        shape for kind, shape in canvas.shapes if kind == "text" and shape["text"].replace(",", "").isdigit()
    ):
        assert shape["x"] == pytest.approx(66 + per_step * int(shape["text"].replace(",", "")))
    empty = [shape["points"][0][0] for kind, shape in canvas.shapes if kind == "path" and shape["dash"]]
    ends = [run.step[run.waiting > 0].max() for run in runs.values()]
    assert empty == pytest.approx([66 + per_step * end for end in ends], abs=per_step * longest / 50)


@pytest.mark.parametrize("step", [0, 100, 10**6])
def test_a_snapshot_is_drawn_to_scale_and_the_line_stands_at_the_step(step):
    runs = two_runs()
    canvas, alt = side_by_side([*runs.items()], step, "states")
    longest = max(run.num_steps for run in runs.values())
    for column, run in enumerate(runs.values()):
        left = 20 + column * (style.WIDTH - 80) / 2 + column * 40
        if step < run.num_steps:
            held = [box for box in boxes(canvas, style.TOKEN) if box[0] >= left - 1 and box[3] == 18]
            held = [box for box in held if box[0] < left + (style.WIDTH - 80) / 2]
            tokens = sum(snapshot.tokens for snapshot in run.snapshot(step))
            assert sum(width for _, _, width, _ in held) == pytest.approx(tokens * (style.WIDTH - 80) / 2 / 512)
        lines = [shape["points"][0][0] for kind, shape in canvas.shapes if kind == "path" and shape["line"] == 3]
        width = (style.WIDTH - 80) / 2 - 50
        assert lines[column] == pytest.approx(left + 50 + width * min(step, run.num_steps) / longest)
    assert_legible(canvas.svg(alt))


def test_columns_of_the_areas_keep_the_mean():
    run = simulate(sample_requests("paper-sharegpt", 60, rate=0.2), MaxLength(Arena(8192)), 8192)
    end = run.num_steps
    for state in style.STATES:
        means = _column_means(run, state, np.linspace(0, end, 101))[1:-1]
        assert means.mean() == pytest.approx((getattr(run, state) * run.duration).sum() / end / 8192)
