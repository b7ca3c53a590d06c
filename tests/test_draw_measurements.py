"""The charts of a recorded run show the record's numbers, in colours and at places where they can be read."""

import numpy as np
import pytest

from pagedkv.bench.report import recorded, results, source
from pagedkv.course.draw import measurements, style


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


A = {
    "rung 0": timing(0.1),
    "rung 2": timing(0.4),
    "pagedkv": timing(0.6),
    "FlashInfer, x": timing(0.5),
    "FlashInfer, y": timing(0.3),
}
D = {"rung 0": timing(0.05), "rung 2": timing(0.7), "pagedkv": timing(0.95), "SDPA, contiguous": timing(0.96)}
RECORD = {
    "provenance": {
        "gpu": "a card",
        "driver": "1",
        "torch": "2",
        "triton": "3",
        "date": "2026-01-02 03:04 UTC",
        "command": "python -m x",
    },
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
    assert [bar.get_height() for bar in figure.axes[1].patches] == [0, 3.0]
    assert [text.get_position()[1] for text in figure.axes[1].texts] == [0, 3.0]


@pytest.mark.parametrize("colour", measurements.CASE_COLOURS)
def test_the_names_of_cases_are_readable(colour):
    assert style.contrast(colour, style.BACKGROUND) >= 4.5


def test_labels_are_moved_apart_and_stay_below_the_top():
    places = measurements._spaced([99, 98, 10, 99], 6)
    assert (
        all(b - a >= 6 for a, b in np.lib.stride_tricks.sliding_window_view(sorted(places), 2)) and max(places) <= 102
    )
    assert places[2] == 10


def test_a_record_says_where_it_comes_from():
    assert source(RECORD) == "a card, driver 1, torch 2, Triton 3, 2026-01-02: python -m x"
    assert results(RECORD, "j1")["pagedkv"]["share"] == 0.93 and results(RECORD, "z") == {}
    with pytest.raises(FileNotFoundError, match="python -m pagedkv.bench --out"):
        recorded("nothing")
