"""The drawing base: colours that everyone can tell apart, two renderings of one list of shapes, files that do not
change.
"""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from picture_rules import assert_legible, assert_to_scale, boxes, crossings, heights, misused_hatches, widths

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.show import save, show
from pagedkv.course.draw.strip import Piece, draw_strip

SVG = "{http://www.w3.org/2000/svg}"
# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour, sight="normal"):
    """CIE L*a*b* (D65) of a colour as somebody with `sight` sees it."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHT[sight]) @ linear, 0, 1)
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ seen
        / [0.9505, 1, 1.089]
    )
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


STATES = [fill for fill, _ in style.STATES.values()]


@pytest.mark.parametrize("sight", SIGHT)
def test_states_of_memory_are_told_apart_by_everyone(sight):
    distances = [np.linalg.norm(lab(a, sight) - lab(b, sight)) for i, a in enumerate(STATES) for b in STATES[:i]]
    assert min(distances) > 25


def test_states_of_memory_are_told_apart_in_greyscale():
    lightness = sorted(lab(fill)[0] for fill in STATES)
    assert min(np.diff(lightness)) > 10
    hatches = [hatch for _, hatch in style.STATES.values() if hatch]
    assert len(set(hatches)) == len(hatches) == 3  # what is wasted


@pytest.mark.parametrize("fill", [*STATES, *style.REQUESTS, *map(style.mix, style.REQUESTS), style.BACKGROUND])
def test_text_on_every_fill_is_readable(fill):
    assert style.contrast(style.text_on(fill), fill) >= 4.5


@pytest.mark.parametrize("colour", [style.INK, style.MUTED, style.HIGHLIGHT])
def test_text_on_the_background_is_readable(colour):
    assert style.contrast(colour, style.BACKGROUND) >= 4.5


def test_neighbouring_requests_have_different_colours():
    assert len({style.request_colour(i) for i in range(8)}) == 8
    assert style.request_colour(8) == style.request_colour(0)


def canvas():
    picture = Canvas(300, 120)
    picture.rect(10, 10, 100, 30, style.INTERNAL, hatch="\\", label="r1 <&>", tip="a <tip>")
    picture.rect(120, 10, 100, 30, style.EXTERNAL, hatch="x", dash=True)
    picture.curve(20, 50, 100, 100)
    picture.curve(20, 50, 100, 100, bend="horizontal", arrow=False)
    picture.line(0, 0, 50, 50, arrow=True, dash=True)
    picture.text(150, 80, 'x_1 costs $5 "now" $', turn=True, anchor="middle", bold=True, mono=True)
    return picture


def test_svg_is_wellformed_and_says_what_it_shows():
    root = ElementTree.fromstring(canvas().svg('Two < three & "four". More.'))
    assert root.get("aria-label") == 'Two < three & "four". More.' and root.get("role") == "img"
    assert root.find(f"{SVG}title").text == 'Two < three & "four"'
    assert [text.text for text in root.iter(f"{SVG}text")] == ["r1 <&>", 'x_1 costs $5 "now" $']
    assert any(title.text == "a <tip>" for title in root.iter(f"{SVG}title"))


def test_svg_depends_on_the_shapes_alone():
    assert canvas().svg("words") == canvas().svg("words")


def test_hatching_belongs_to_one_picture():
    other = canvas()
    other.rect(0, 0, 5, 5)
    ids = [
        {p.get("id") for p in ElementTree.fromstring(c.svg("words")).iter(f"{SVG}pattern")} for c in (canvas(), other)
    ]
    assert len(ids[0]) == len(ids[1]) == 2 and not ids[0] & ids[1]
    assert all(f"url(#{name})" in canvas().svg("words") for name in ids[0])


def test_figure_holds_the_same_texts_and_is_unknown_to_pyplot():
    from matplotlib import pyplot

    figure = canvas().figure()
    assert [text.get_text() for text in figure.axes[0].texts] == ["r1 <&>", 'x_1 costs $5 "now" $']
    assert pyplot.get_fignums() == []


def test_small_text_and_unknown_hatching_are_errors():
    picture = Canvas(10, 10)
    with pytest.raises(ValueError, match="size must be at least 14"):
        picture.text(0, 0, "x", size=10)
    with pytest.raises(ValueError, match="hatch must be None or one of .*'o'"):
        picture.rect(0, 0, 1, 1, hatch="o")
    assert picture.shapes == []


def crossed(draw, cover=None):
    picture = Canvas(200, 100)
    draw(picture)
    if cover:
        picture.rect(*cover, style.BACKGROUND, stroke=None)
    picture.text(100, 50, "42", anchor="middle")
    return crossings(picture.svg("x"))


@pytest.mark.parametrize("arrow", [False, True])
def test_a_line_through_a_number_is_seen(arrow):
    through, past = [(60, 5), (60, 50), (140, 50)], [(60, 5), (80, 50), (80, 95)]
    assert crossed(lambda c: c.line(0, 0, 200, 100, arrow=arrow)) == ["42"]
    assert crossed(lambda c: c.curve(90, 0, 110, 100, arrow=arrow)) == ["42"]
    assert crossed(lambda c: c.curve(20, 0, 180, 30, arrow=arrow)) == []
    assert crossed(lambda c: c.curve(0, 20, 200, 80, bend="horizontal", arrow=arrow)) == ["42"]
    assert crossed(lambda c: c.route(through, arrow=arrow)) == ["42"]
    assert crossed(lambda c: c.route(past, arrow=arrow)) == []


def test_an_edge_through_a_number_is_seen_and_what_is_hidden_is_not():
    assert crossed(lambda c: c.rect(95, 40, 50, 20)) == ["42"]
    assert crossed(lambda c: c.rect(80, 40, 40, 20)) == []
    assert crossed(lambda c: c.line(0, 50, 200, 50), cover=(85, 40, 30, 20)) == []
    assert crossed(lambda c: c.line(0, 50, 200, 50), cover=(85, 40, 15, 20)) == ["42"]
    picture = Canvas(50, 50)
    picture.text(10, 20, "42")
    picture.line(0, 20, 50, 20)
    with pytest.raises(AssertionError, match="'crossed': ..42"):
        assert_legible(picture.svg("x"))


def test_a_hatch_with_another_meaning_is_seen():
    picture = Canvas(200, 100)
    for fill, hatch in [*style.STATES.values(), (style.mix(style.request_colour(3)), "/")]:
        picture.rect(0, 0, 50, 50, fill, hatch=hatch)
    assert misused_hatches(picture.svg("x")) == []
    picture.rect(0, 0, 50, 50, style.FREE, hatch="/")
    picture.rect(0, 0, 50, 50, style.EXTERNAL, hatch="\\")
    assert misused_hatches(picture.svg("x")) == [f"/ on {style.FREE}", f"\\ on {style.EXTERNAL}"]


def test_a_route_passes_its_points_and_is_drawn_alike():
    picture, points = Canvas(100, 100), [(10, 0), (40, 30), (40, 60), (10, 90)]
    picture.route(points)
    (_, path), (_, head) = picture.shapes
    assert path["points"][::3] == points and head["points"][0] == (10, 90)
    assert path["points"][4:6] == [(40, 45), (40, 45)]  # straight down
    drawn = picture.figure().axes[0].patches[0].get_path()
    assert drawn.vertices.tolist() == [list(point) for point in path["points"]] and set(drawn.codes[1:]) == {4}
    assert "C10,15 40,15 40,30 40,45 40,45 40,60 40,75 10,75 10,90" in picture.svg("x")


@pytest.mark.parametrize("fill", style.REQUESTS)
def test_arrows_of_a_request_are_seen_on_the_background(fill):
    assert style.contrast(style.arrow_colour(fill), style.BACKGROUND) >= 3


def test_pieces_of_a_strip_are_as_long_as_they_say():
    picture = Canvas(400, 100)
    pieces = [
        Piece(25, style.TOKEN),
        Piece(62.5, style.REQUESTS[0]),
        Piece(0, style.TOKEN),
        Piece(10, style.REQUESTS[1]),
    ]
    spans = draw_strip(picture, 40, 10, 200, 30, 100, pieces)
    assert assert_to_scale(widths(picture), [25, 62.5, 10]) == pytest.approx(2)
    assert set(heights(picture)) == {30}
    assert spans == [(40, 90), (90, 215), (215, 215), (215, 235)]
    assert [left for left, *_ in boxes(picture)] == [40, 90, 215]


@pytest.fixture
def displayed(monkeypatch):
    """What `show` hands to IPython: a list of (data, metadata)."""
    import IPython.display

    outputs = []
    monkeypatch.setattr(
        IPython.display, "display", lambda data, metadata=None, raw=False: outputs.append((data, metadata))
    )
    return outputs


def plot():
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4, 2))
    axes.plot([1, 2])
    return figure


@pytest.mark.parametrize("draw", [canvas, plot])
def test_show_displays_one_picture_with_words_and_closes_it(draw, displayed):
    from matplotlib import pyplot

    pyplot.close("all")
    for _ in range(25):  # matplotlib warns, which is an error here, when figures pile up
        picture = draw()
        assert show(picture, alt="A\n  line.") is None
    assert len(displayed) == 50 and pyplot.get_fignums() == []
    data, metadata = displayed[0]
    width = 300 if draw is canvas else 384
    assert metadata == {"image/png": {"alt": "A line.", "width": width}}
    assert data["text/plain"] == "[picture]" and set(data) == {"image/png", "text/plain"}
    assert displayed[0] == displayed[48]


def test_the_stored_picture_keeps_its_colours(tmp_path):
    from PIL import Image

    picture = Canvas(340, 40)
    fills = [*STATES, *style.REQUESTS]
    for i, fill in enumerate(fills):
        picture.rect(10 + 20 * i, 5, 20, 30, fill, label=i)
    save(picture, tmp_path / "a", "Swatches.")
    image = Image.open(tmp_path / "a.png").convert("RGB")
    assert image.size == (680, 80)
    assert [image.getpixel((2 * (10 + 20 * i + 3), 20)) for i in range(len(fills))] == [
        tuple(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill in fills
    ]
    assert image.getpixel((1, 1)) == (255, 255, 255)


@pytest.mark.parametrize("alt", ["", "  \n", None, 3])
def test_a_picture_without_words_is_an_error(alt, displayed, tmp_path):
    for call in (lambda: show(canvas(), alt=alt), lambda: save(canvas(), tmp_path / "x", alt)):
        with pytest.raises(ValueError, match="alt must say in words"):
            call()
    assert displayed == [] and list(tmp_path.iterdir()) == []


def test_the_words_fold_out_under_the_picture(displayed):
    show(canvas(), alt="1 < 2 slots.")
    data, _ = displayed[1]
    assert data["text/html"] == "<details><summary>The picture in words</summary>1 &lt; 2 slots.</details>"
    assert data["text/plain"] == "1 < 2 slots."


@pytest.mark.parametrize("draw", [canvas, plot])
def test_saving_twice_changes_no_byte(draw, tmp_path):
    for name in ("a", "b"):
        save(draw(), tmp_path / name, "A <line>.")
    for ending in (".svg", ".png"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    assert "<dc:date>" not in text
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == "A <line>." and root.find(f"{SVG}title").text in ("A <line>.", "A <line>")
