"""The stored figures are those that the code draws, with words; and every picture keeps its text inside its frame."""

import re
from pathlib import Path

import numpy as np
import pytest
from svg_text import overlaps, text_boxes

from pagedkv.course.draw import style
from pagedkv.course.draw.arena import arena_pieces
from pagedkv.course.draw.show import save
from pagedkv.course.draw.snapshot import snapshot_pieces
from pagedkv.course.draw.timeline import _column_means
from pagedkv.course.lesson_2_1.pictures import in_words
from pagedkv.course.lesson_2_2.pictures import FIGURES
from pagedkv.course.lesson_2_2.published import PUBLISHED
from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.policies import MaxLength, Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests

STORED = Path(__file__).parents[1] / "figures"


@pytest.fixture(scope="module", params=FIGURES)
def figure(request):
    return request.param, *FIGURES[request.param]()


def test_the_stored_figure_is_what_the_code_draws(figure, tmp_path):
    name, canvas, alt = figure
    assert (STORED / f"{name}.svg").read_text() == canvas.svg(alt) + "\n"
    save(canvas, tmp_path / name, alt)
    assert (tmp_path / f"{name}.svg").read_bytes() == (STORED / f"{name}.svg").read_bytes()
    assert (STORED / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    once = (tmp_path / f"{name}.png").read_bytes()
    save(canvas, tmp_path / name, alt)
    assert (tmp_path / f"{name}.png").read_bytes() == once


def test_the_figure_has_words(figure):
    name, canvas, alt = figure
    assert 80 < len(alt) < 700 and re.search(r"\d", alt) and alt.endswith(".")


def test_no_text_leaves_the_figure_and_no_two_overlap(figure):
    name, canvas, alt = figure
    boxes = text_boxes(canvas.svg(alt))
    for x0, y0, x1, y1, text in boxes:
        assert x0 >= 0 and y0 >= 0 and x1 <= canvas.width and y1 <= canvas.height, text
    assert overlaps(boxes) == []


def test_pieces_of_an_arena_cover_every_slot_once():
    for arena in (Arena(100), BuddyArena(100)):
        extents = {number: arena.allocate(size) for number, size in enumerate((10, 7, 20))}
        arena.free(extents.pop(1))
        pieces = arena_pieces(arena, extents)
        assert sum(piece.size for piece in pieces) == 100
        assert {piece.label for piece in pieces if piece.fill in style.REQUESTS} == {"r0", "r2"}
        assert sum(piece.size for piece in pieces if piece.fill in style.REQUESTS) == 30


@pytest.mark.parametrize("policy", [lambda: MaxLength(Arena(8192)), lambda: Paged(512)])
def test_pieces_of_a_snapshot_cover_every_slot_and_agree_with_the_timeline(policy):
    run = simulate(sample_requests("paper-sharegpt", 40), policy(), 8192)
    for step in np.linspace(0, run.step[-1], 9).astype(int).tolist():
        sizes = dict.fromkeys(("token states", "reserved", "internal"), 0)
        pieces = snapshot_pieces(run, step, "states")
        assert sum(piece.size for piece in pieces) == 8192
        for piece in pieces:
            name = piece.tip.split(":")[0].split(", ")[-1]
            if name in sizes:
                sizes[name] += piece.size
        point = run.step.searchsorted(step)
        assert list(sizes.values()) == [run.token_states[point], run.reserved[point], run.internal[point]]


def test_columns_of_the_areas_keep_the_mean():
    run = simulate(sample_requests("paper-sharegpt", 60, rate=0.2), MaxLength(Arena(8192)), 8192)
    end = run.num_steps
    for state in style.STATES:
        means = _column_means(run, state, np.linspace(0, end, 101))[1:-1]
        assert means.mean() == pytest.approx((getattr(run, state) * run.duration).sum() / end / 8192)


def test_published_shares_are_whole():
    for name, shares in PUBLISHED.items():
        assert sum(shares.values()) == pytest.approx(100 if name != "vLLM" else 96.3, abs=0.2)


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (819_200, "800 KiB"), (2048 * 819_200, "1.56 GiB"), (2**40, "1 TiB"),
     (2**60, "1,048,576 TiB")],
)
def test_bytes_in_words(num_bytes, words):
    assert in_words(num_bytes) == words
