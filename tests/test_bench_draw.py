"""The pictures of lesson 4.3: charts show the record's numbers, address arithmetic and pieces are right, source is found by markers."""

import random
from importlib.metadata import version

import numpy as np
import pytest
from svg_text import overlaps, text_boxes

from pagedkv.bench.recorded import FOLDER, recorded, results, source
from pagedkv.course.draw import measurements, style
from pagedkv.course.draw.show import save
from pagedkv.course.draw.source import changes, piece, show_changes, show_function, show_piece
from pagedkv.course.lesson_4_3 import widgets as split_kv
from pagedkv.course.lesson_4_3.kernel_figures import KERNEL_FIGURES
from pagedkv.course.lesson_4_3.packing import packed_heads
from pagedkv.course.lesson_4_3.pictures import sectors_of, touched_sectors
from pagedkv.course.lesson_4_3.splits import cut, splits_of_sequences


def entry(case, size, results, **rest):
    return {
        "case": case,
        "shape": f"shape of {case}",
        "kind": "decode",
        "bytes": size,
        "flops": 4 * size,
        "block_size": 16,
        "results": results,
    } | rest


def timing(share):
    return {"us": 10.0, "share": share, "gb_s": 4000 * share}


A = {"rung 0": timing(0.1), "rung 2": timing(0.4), "pagedkv": timing(0.6), "FlashInfer, x": timing(0.5), "FlashInfer, y": timing(0.3)}
D = {"rung 0": timing(0.05), "rung 2": timing(0.7), "pagedkv": timing(0.95), "SDPA, contiguous": timing(0.96)}
RECORD = {
    "provenance": {"gpu": "a card", "driver": "1", "torch": "2", "triton": "3", "date": "2026-01-02 03:04 UTC", "command": "python -m x"},
    "ceilings": [
        {"kind": "copy", "bytes": 10**7, "gb_s": 9e9},
        {"kind": "read", "bytes": 10**7, "gb_s": 2000.0},
        {"kind": "read", "bytes": 10**9, "gb_s": 4000.0},
        {"kind": "matmul", "tflop_s": 800.0},
    ],
    "cases": [
        entry("a", 10**7, A),
        entry("d", 10**9, D),
        entry("j1", 10**9, {"pagedkv": timing(0.93)}, block_size=1),
        entry("p", 10**8, {"pagedkv": {"us": 300.0, "gb_s": 300.0, "share": 0.1}}, kind="prefill", flops=10**11),
    ],
}


def points(figure, axes=0):
    return [tuple(map(float, xy)) for line in figure.axes[axes].lines for xy in zip(*line.get_data(), strict=True)]


def texts(figure):
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_reads_are_drawn_at_their_size_under_the_ceiling():
    figure, alt = measurements.share_of_reads(RECORD)
    assert {(10.0, 2.0), (1000.0, 4.0), (10.0, 2.4), (1000.0, 3.8)} <= {(x, round(y, 6)) for x, y in points(figure)}
    assert "d 3.80 TB/s of 1000 MB" in alt
    assert not any(y > 5 for _, y in points(figure))  # the copy ceiling is none of reading


def test_the_ladder_has_a_line_for_each_case_that_was_climbed():
    figure, alt = measurements.ladder(RECORD)
    assert points(figure) == [(0, 10), (2, 40), (3, 60), (0, 5), (2, 70), (3, 95)]
    assert "a: shape of a" in texts(figure) and "j1" not in texts(figure)
    assert "a (shape of a) 10 → 40 → 60; d (shape of d) 5 → 70 → 95" in alt


def test_peers_show_the_better_variant():
    figure, alt = measurements.peers(RECORD)
    drawn = points(figure)
    assert "a 60 / 50 / –; d 95 / – / 96; j1 93 / – / –." in alt
    assert (50.0, 0.0) in drawn and (30.0, 0.0) not in drawn and (96.0, 1.0) in drawn


def test_the_roofline_bends_where_the_ceilings_meet():
    figure, alt = measurements.roofline(RECORD, ("d", "p"))
    assert "d at 4 operations a byte 400 TFLOP/s; p at 1000 operations a byte 333 TFLOP/s" in alt
    assert (200.0, 800.0) in points(figure)  # 800 TFLOP/s over 4 TB/s
    assert (4.0, 400.0) in points(figure) and (1000.0, pytest.approx(333.333, rel=1e-4)) in points(figure)


def test_block_sizes_stand_beside_their_waste():
    figure, alt = measurements.block_sizes(RECORD, {1: 0.0, 16: 0.03})
    assert "1: 93 %, 16: 95 %" in alt and "1: 0.0 %, 16: 3.0 %" in alt
    assert points(figure) == [(0, 93), (1, 95)]
    assert texts(figure) == "0.0 3.0"


@pytest.mark.parametrize("name", KERNEL_FIGURES)
def test_the_stored_chart_is_what_the_recorded_run_gives(name, tmp_path):
    pinned = (FOLDER.parents[1] / "requirements.txt").read_text().split("matplotlib==")[1].split()[0]
    if version("matplotlib") != pinned:
        pytest.skip(f"the stored charts are drawn by matplotlib {pinned}")
    picture, alt = KERNEL_FIGURES[name]()
    save(picture, tmp_path / name, alt)
    stored = FOLDER.parent / f"{name}.svg"
    assert stored.read_bytes() == (tmp_path / f"{name}.svg").read_bytes()
    assert stored.with_suffix(".png").exists() and len(alt) > 80


@pytest.mark.parametrize("colour", measurements.CASE_COLOURS)
def test_the_names_of_cases_are_readable(colour):
    assert style.contrast(colour, style.BACKGROUND) >= 4.5


def test_labels_are_moved_apart_and_stay_below_the_top():
    places = measurements._spaced([99, 98, 10, 99], 6)
    assert all(b - a >= 6 for a, b in np.lib.stride_tricks.sliding_window_view(sorted(places), 2)) and max(places) <= 102
    assert places[2] == 10


def test_a_record_says_where_it_comes_from():
    assert source(RECORD) == "a card, driver 1, torch 2, Triton 3, 2026-01-02: python -m x"
    assert results(RECORD, "j1")["pagedkv"]["share"] == 0.93 and results(RECORD, "z") == {}
    with pytest.raises(FileNotFoundError, match="python -m pagedkv.bench --out"):
        recorded("nothing")


# addresses


@pytest.mark.parametrize(
    ("addresses", "width", "sectors"), [((0, 16), 16, {0}), ((31,), 2, {0, 1}), ((0, 4096), 2, {0, 128}), ((), 4, set())]
)
def test_sectors_are_those_that_hold_a_byte(addresses, width, sectors):
    assert sectors_of(addresses, width) == sectors


def test_the_picture_counts_bytes_wanted_and_fetched():
    canvas, alt = touched_sectors({"apart": ([0, 64, 128], 8), "together": (range(0, 64, 2), 2)})
    svg = canvas.svg("x")
    assert "apart: 24 bytes wanted, 3 sectors" in alt
    assert "24 bytes wanted, 3 sectors = 96 bytes fetched: 25 % of use" in svg
    assert "64 bytes wanted, 2 sectors = 64 bytes fetched: 100 % of use" in svg


# splits


def test_splits_cover_every_token_once_and_only_the_last_is_short():
    draw = random.Random(0)
    for _ in range(200):
        lengths = [draw.choice((0, 1, 63, 64, 65, draw.randint(0, 5000))) for _ in range(draw.randint(1, 9))]
        for length, splits in zip(lengths, cut(lengths, 64), strict=True):
            assert sum(splits) == length and len(splits) == max(1, -(-length // 64))
            assert set(splits[:-1]) <= {64} and splits[-1] <= 64


def test_the_picture_of_splits_counts_programs_and_what_is_merged():
    canvas, alt = splits_of_sequences([100, 20, 300, 0], split_tokens=50, kv_heads=8, multiprocessors=132)
    assert "80 programs for 132 multiprocessors: 52 of them idle." in alt  # (2 + 1 + 6 + 1) splits of 8 heads
    assert "8 partial results of 2 sequences are merged (hatched), for each of 8 KV heads." in canvas.svg("x")
    assert "Nothing is left to merge" in splits_of_sequences([20, 0], 50, 8, 4)[1]


def test_the_split_slider_is_legible_at_its_ends():
    for batch in split_kv.BATCHES:
        for tokens, heads in ((128, 32), (8192, 1)):
            svg = split_kv.picture(batch, tokens, heads)
            assert overlaps(text_boxes(svg)) == []
            assert all(x0 >= 0 and x1 <= style.WIDTH for x0, _, x1, _, _ in text_boxes(svg))
    split_kv.explorer()


def test_packing_counts_the_bytes():
    canvas, alt = packed_heads(4, 64, 128)
    assert "4 × 32 KiB read" in canvas.svg("x") and "32 KiB read, one product [4 × 128] · [128 × 64]" in alt


# source


MODULE = '''
@decorated
def one(x):
    """One."""
    z = 0  # start
    y = x + 1
    return y  # end


def two(x):
    """Two."""
    z = 0  # start
    y = x + 2
    return y  # end


def long(x):
    pass  # first
LINES
    return x
'''.replace("LINES", "    pass\n" * 39)


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "shown.py").write_text(MODULE, encoding="utf-8")  # cannot be imported: `decorated` is nothing
    monkeypatch.syspath_prepend(tmp_path)


def test_a_piece_is_found_by_its_first_and_last_line(module):
    assert piece("shown:one", "# start", "y = x") == ["z = 0  # start", "y = x + 1"]
    assert changes("shown:one", "shown:two") == ["⋮", "- y = x + 1", "+ y = x + 2", "⋮"]


@pytest.mark.parametrize(("first", "last"), [("nowhere", "y"), ("# start", "nowhere"), ("=", "y"), ("return", "# start")])
def test_a_marker_that_is_gone_is_an_error(module, first, last):
    with pytest.raises(ValueError, match="must have one line with"):
        piece("shown:one", first, last)


def test_a_function_that_is_gone_and_a_piece_longer_than_a_screen_are_errors(module):
    with pytest.raises(ValueError, match="has no 'three'"):
        piece("shown:three", "a", "b")
    with pytest.raises(ValueError, match="at most 30 lines, not 42"):
        piece("shown:long", "first", "return x")


def test_shown_code_has_a_fixed_width_on_a_page_without_styles(module, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    show_piece("shown:one", "# start", "y = x")
    show_changes("shown:one", "shown:two")
    show_function(entry)
    assert all("font-family:monospace" in output.data for output in shown)
    assert "```python\nz = 0  # start\ny = x + 1\n```" in shown[0].data and "```python\ndef entry(case" in shown[2].data
