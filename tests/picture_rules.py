"""The rules of every picture: its text stays inside, no two texts overlap, no line runs through one, a hatch has one
meaning, and what is drawn of a number is as long as the number says.

Texts are measured where they stand in the SVG; a curve is followed from pixel to pixel.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from itertools import pairwise
from math import isclose

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import HATCHES

SVG = "{http://www.w3.org/2000/svg}"


def text_boxes(svg):
    """(left, top, right, bottom, text) of every level text, measured with the font's own metrics."""
    boxes = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if element.get("transform") or not element.text:
            continue
        size = float(element.get("font-size"))
        family = "DejaVu Sans Mono" if "Mono" in element.get("font-family", "") else "DejaVu Sans"
        font = FontProperties(family=family, weight=element.get("font-weight", "normal"), size=size)
        width, _, _ = text_to_path.get_text_width_height_descent(element.text, font, False)
        left = float(element.get("x")) - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
        baseline = float(element.get("y"))
        boxes.append((left, baseline - 0.75 * size, left + width, baseline + 0.2 * size, element.text))
    return boxes


def overlaps(boxes):
    """The pairs of texts that overlap."""
    return [
        (a[4], b[4])
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


def points_of(shape) -> np.ndarray:
    """Points (x, y) on a line, on curves or on the edge of a polygon, at most a pixel apart."""
    way = shape.get("d") or shape.get("points")
    corners = np.array(re.findall(r"[-.\d]+", way), float).reshape(-1, 2)
    if shape.tag == f"{SVG}polygon":
        corners = np.concatenate([corners, corners[:1]])
    step = 3 if "C" in way else 1  # corners from one end of a curve or line to the next
    return np.concatenate([_along(*corners[i : i + step + 1]) for i in range(0, len(corners) - 1, step)])


def _along(*corners) -> np.ndarray:
    length = sum(np.abs(b - a).sum() for a, b in pairwise(corners))
    t = np.linspace(0, 1, 2 + int(length))[:, None]
    while len(corners) > 1:  # de Casteljau
        corners = [a + (b - a) * t for a, b in pairwise(corners)]
    return corners[0]


def crossings(svg: str) -> list[str]:
    """The texts that a line, a curve or an edge runs through, unless a filled shape that is drawn later hides it."""
    shapes = [  # in the order in which they are drawn; the lines of a pattern have no width of their own
        shape for shape in ElementTree.fromstring(svg).iter() if shape.get("stroke-width") or shape.get("points")
    ]
    written, crossed = text_boxes(svg), []
    edges = np.array([box[:4] for box in written]).reshape(-1, 4).T
    for order, shape in enumerate(shapes):
        if not (reach := float(shape.get("stroke-width", 0)) / 2):
            continue
        left, top, right, bottom = edges - [[reach], [reach], [-reach], [-reach]]
        points = points_of(shape)
        (x0, y0), (x1, y1) = points.min(0), points.max(0)
        for i in np.flatnonzero((left < x1) & (right > x0) & (top < y1) & (bottom > y0)):
            x, y = points.T
            inside = points[(x > left[i]) & (x < right[i]) & (y > top[i]) & (y < bottom[i])]
            for later in shapes[order + 1 :] if len(inside) else []:
                if later.tag == f"{SVG}polygon" and later.get("fill") != "none":
                    outline = np.array(re.findall(r"[-.\d]+", later.get("points")), float).reshape(-1, 2)
                    inside = inside[~Path(outline).contains_points(inside)]
            if len(inside):
                crossed.append(written[i][4])
    return crossed


MEANINGS = {  # hatch -> the fills that it may lie on; a request's tint is what it has reserved
    "/": {style.RESERVED, *map(style.mix, style.REQUESTS)},
    "\\": {style.INTERNAL},
    "x": {style.EXTERNAL},
}


def misused_hatches(svg: str) -> list[str]:
    """The fills of hatched shapes whose hatch means something else."""
    named = {"".join(f"M{a} {b}L{c} {d}" for a, b, c, d in lines): name for name, lines in HATCHES.items()}
    found = []
    for pattern in ElementTree.fromstring(svg).iter(f"{SVG}pattern"):
        fill = pattern.find(f"{SVG}rect").get("fill")
        hatch = named["".join(path.get("d") for path in pattern.iter(f"{SVG}path"))]
        found += [f"{hatch} on {fill}"] if fill not in MEANINGS[hatch] else []
    return found


THINGS = "blocks|bytes|items|KV heads|partial results|preemptions|programs|slots|stages|steps|tokens|warps"
ONE_OF_MANY = re.compile(rf"(?<![\d.,])\b1 (?:{THINGS})\b")


def assert_legible(svg: str) -> None:
    """No text leaves the picture, no two overlap, no line runs through one, a hatch has its one meaning, and one thing
    is no plural.
    """
    root, written = ElementTree.fromstring(svg), text_boxes(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    faults = {
        "outside": [box[4] for box in written if box[0] < 0 or box[1] < 0 or box[2] > width or box[3] > height],
        "overlapping": overlaps(written),
        "crossed": crossings(svg),
        "misused": misused_hatches(svg),
        "plural": ONE_OF_MANY.findall("\n".join([root.get("aria-label", ""), *root.itertext()])),
    }
    assert not any(faults.values()), faults


def texts(canvas) -> list[str]:
    """All texts of a canvas, in the order in which they were drawn."""
    return [shape["text"] for kind, shape in canvas.shapes if kind == "text"]


def boxes(canvas, fill=None, edge=None) -> list[tuple[float, float, float, float]]:
    """(left, top, width, height) of the polygons of that fill or edge, as drawn; without the
    swatches of a legend, and what is laid under letters on a hatch.
    """
    found = []
    for kind, shape in canvas.shapes:
        if kind == "polygon" and fill in (None, shape["fill"]) and edge in (None, shape["stroke"]):
            xs, ys = zip(*shape["points"], strict=True)
            found.append((min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)))
    return [box for box in found if box[2:] != (16, 16) and not isclose(box[3], 1.3 * style.TEXT)]


def widths(canvas, fill=None, edge=None) -> list[float]:
    return [width for _, _, width, _ in boxes(canvas, fill, edge)]


def heights(canvas, fill=None, edge=None) -> list[float]:
    return [height for *_, height in boxes(canvas, fill, edge)]


def assert_to_scale(lengths, numbers) -> float:
    """Each length is its number times one scale, which is returned: 62.5 is drawn 2.5 times as long as 25."""
    lengths, numbers = np.array(lengths, float), np.array(numbers, float)
    assert lengths.shape == numbers.shape and lengths.sum() > 0
    scale = lengths.sum() / numbers.sum()
    np.testing.assert_allclose(lengths, scale * numbers, rtol=1e-6, atol=1e-9)
    return scale


def strokes(canvas) -> Counter:
    """How many lines and curves of each colour there are."""
    return Counter(shape["stroke"] for kind, shape in canvas.shapes if kind == "path")


def chart_crossings(figure) -> list[str]:
    """The level texts inside the axes of a matplotlib figure that a line or gridline runs through."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    crossed = []
    for axes in figure.axes:
        written = [text for text in axes.texts if text.get_text() and text.get_rotation() == 0]
        grid = [line for line in (*axes.get_xgridlines(), *axes.get_ygridlines()) if line.get_visible()]
        drawn = [line for line in axes.lines if line.get_linestyle() != "None"]
        for line in (*grid, *drawn):
            corners = line.get_transform().transform(line.get_xydata())
            points = np.concatenate([_along(*ends) for ends in pairwise(corners)] or [np.empty((0, 2))])
            for text in written:
                box = text.get_window_extent()
                if ((points > (box.x0, box.y0)) & (points < (box.x1, box.y1))).all(1).any():
                    crossed.append(text.get_text())
    return crossed
