"""The rules of every picture: its text stays inside and no two texts overlap.

Texts are measured where they stand in the SVG.
"""

import xml.etree.ElementTree as ElementTree

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

SVG = "{http://www.w3.org/2000/svg}"


def text_boxes(svg):
    """(left, top, right, bottom, text) of every level text, measured with the font's own metrics."""
    boxes = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if element.get("transform"):
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


def assert_legible(svg: str) -> None:
    """No text leaves the picture, and no two overlap."""
    root, boxes = ElementTree.fromstring(svg), text_boxes(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    assert [
        text for left, top, right, bottom, text in boxes if left < 0 or top < 0 or right > width or bottom > height
    ] == []
    assert overlaps(boxes) == []


def texts(canvas) -> list[str]:
    """All texts of a canvas, in the order in which they were drawn."""
    return [shape["text"] for kind, shape in canvas.shapes if kind == "text"]
