"""The stored figures are those that the lessons draw, with words, and no other file lies beside them."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from picture_rules import assert_legible, chart_crossings

from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.show import save
from pagedkv.course.lessons import all_figures

ROOT = Path(__file__).parents[1]
STORED = ROOT / "figures"
FIGURES = all_figures()


@pytest.fixture(scope="module", params=FIGURES)
def figure(request):
    return request.param, *FIGURES[request.param]()


def test_every_stored_file_is_a_figure_of_a_lesson():
    assert FIGURES
    for kind in ("svg", "png"):
        assert {path.stem for path in STORED.glob(f"*.{kind}")} == set(FIGURES)


@pytest.mark.thorough
def test_the_stored_figure_is_what_the_code_draws(figure, tmp_path):
    name, picture, alt = figure
    pinned = (ROOT / "requirements.txt").read_text().split("matplotlib==")[1].split()[0]
    if isinstance(picture, Canvas):
        assert (STORED / f"{name}.svg").read_text() == picture.svg(alt) + "\n"
    elif version("matplotlib") != pinned:
        pytest.skip(f"the stored charts are drawn by matplotlib {pinned}")
    save(picture, tmp_path / name, alt)
    assert (tmp_path / f"{name}.svg").read_bytes() == (STORED / f"{name}.svg").read_bytes()
    assert (STORED / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    once = (tmp_path / f"{name}.png").read_bytes()
    save(picture, tmp_path / name, alt)
    assert (tmp_path / f"{name}.png").read_bytes() == once


def test_the_figure_has_words(figure):
    name, picture, alt = figure
    assert 80 < len(alt) < 700 and re.search(r"\d", alt) and alt.endswith(".")


def test_the_figure_is_legible(figure):
    name, picture, alt = figure
    if isinstance(picture, Canvas):
        assert_legible(picture.svg(alt))
    else:
        assert chart_crossings(picture) == []
