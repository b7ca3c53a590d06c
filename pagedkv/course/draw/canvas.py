"""A drawing as a list of rectangles, polygons, lines, curves and texts, in CSS pixels from the top left corner.

`svg()` renders it in well under a millisecond a shape and needs no matplotlib: what a slider redraws. `figure()`
renders the same list as a matplotlib figure: what a notebook stores. Both look alike and depend on nothing but the
list.
"""

import math
import zlib
from html import escape
from itertools import pairwise

from pagedkv.course.draw import style

HATCHES = {
    "/": [(0, 8, 8, 0)],
    "\\": [(0, 0, 8, 8)],
    "x": [(0, 8, 8, 0), (0, 0, 8, 8)],
}  # lines in a tile of 8 x 8 pixels


class Canvas:
    """A picture of `width` x `height` CSS pixels.

    Every method adds one shape on top of those before; none returns anything.
    """

    def __init__(self, width: float = style.WIDTH, height: float = 200):
        self.width, self.height = width, height
        self.shapes: list[tuple[str, dict]] = []

    def rect(
        self,
        x,
        y,
        width,
        height,
        fill=style.FREE,
        *,
        stroke=style.INK,
        line=1.0,
        hatch=None,
        dash=False,
        label=None,
        size=style.TEXT,
        mono=False,
        bold=False,
        tip=None,
    ):
        """A rectangle; `label` is centred in it, in ink or white; `tip` appears under the mouse in an SVG.

        No fill or stroke where None.
        """
        self.polygon(_box(x, y, width, height), fill, stroke=stroke, line=line, hatch=hatch, dash=dash, tip=tip)
        if label is not None:
            background = fill or style.BACKGROUND
            if hatch:  # letters are not read through hatching
                space = min(width - 4, style.text_width(str(label), size, mono) + 6)
                self.polygon(
                    _box(x + width / 2 - space / 2, y + height / 2 - size * 0.65, space, size * 1.3),
                    background,
                    stroke=None,
                )
            ink = style.text_on(background)
            self.text(x + width / 2, y + height / 2, label, size=size, anchor="middle", mono=mono, bold=bold, fill=ink)

    def polygon(self, points, fill=style.FREE, *, stroke=style.INK, line=1.0, hatch=None, dash=False, tip=None):
        r"""A closed polygon through `points`, pairs (x, y). `hatch` is None, "/", "\" or "x"."""
        if hatch is not None and hatch not in HATCHES:
            raise ValueError(f"hatch must be None or one of {', '.join(map(repr, HATCHES))}, not {hatch!r}")
        self._add("polygon", points=list(points), fill=fill, stroke=stroke, line=line, hatch=hatch, dash=dash, tip=tip)

    def text(self, x, y, text, *, size=style.TEXT, anchor="start", fill=style.INK, bold=False, mono=False, turn=False):
        """One line of text, its middle at height `y`; anchor "start", "middle" or "end"; `turn` reads upwards."""
        if size < style.TEXT:
            raise ValueError(f"size must be at least {style.TEXT}, the text size of a notebook, not {size}")
        self._add(
            "text", x=x, y=y, text=str(text), size=size, anchor=anchor, fill=fill, bold=bold, mono=mono, turn=turn
        )

    def line(self, x0, y0, x1, y1, *, stroke=style.INK, line=1.5, dash=False, arrow=False):
        """A straight line; `arrow` puts a head at its end."""
        self._path([(x0, y0), (x1, y1)], stroke, line, dash, arrow)

    def curve(self, x0, y0, x1, y1, *, bend="vertical", stroke=style.INK, line=1.5, dash=False, arrow=True):
        """An S-shaped curve that leaves and arrives in the direction `bend`, "vertical" or "horizontal"."""
        if bend == "vertical":
            middle = [(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2)]
        else:
            middle = [((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1)]
        self._path([(x0, y0), *middle, (x1, y1)], stroke, line, dash, arrow)

    def route(self, points, *, stroke=style.INK, line=1.5, dash=False, arrow=True):
        """Vertical S-shaped curves through `points`, pairs (x, y): straight down between two of the same x."""
        path = [points[0]]
        for (x0, y0), (x1, y1) in pairwise(points):
            path += [(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2), (x1, y1)]
        self._path(path, stroke, line, dash, arrow)

    def _path(self, points, stroke, line, dash, arrow):
        self._add("path", points=points, stroke=stroke, line=line, dash=dash)
        if arrow:
            self.polygon(_arrow_head(points, 6 + 2 * line), stroke, stroke=None)

    def _add(self, kind: str, **shape):
        self.shapes.append((kind, shape))

    def svg(self, alt: str) -> str:
        """The picture as an SVG element that scales down with its container; `alt` says in words what it shows."""
        patterns: dict[tuple[str, str | None], int] = {}  # (hatch, fill) -> number
        drawing = "".join(_SVG[kind](patterns, **shape) for kind, shape in self.shapes)
        # Ids are the picture's own: a pattern defined in a hidden element of the same page would not be painted.
        salt = f"p{zlib.crc32(drawing.encode()):08x}"
        defs = "".join(_svg_pattern(f"{salt}-{i}", *key) for key, i in patterns.items())
        width, height = _n(self.width), _n(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(alt)}" '
            f'width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" style="max-width:100%;height:auto;background:{style.BACKGROUND}" '
            f'font-family="{style.FONTS}"><title>{escape(alt.split(". ")[0].rstrip("."))}</title><defs>{defs}</defs>'
            f'<rect width="100%" height="100%" fill="{style.BACKGROUND}"/>'
            f"{drawing.replace('url(#@', f'url(#{salt}-')}</svg>"
        )

    def figure(self):
        """The picture as a matplotlib Figure that pyplot does not know of, 96 pixels to the inch."""
        from pagedkv.course.draw.raster import figure_of

        return figure_of(self)


def _box(x, y, width, height):
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _arrow_head(points, length):
    (x0, y0), (x1, y1) = points[-2], points[-1]
    angle = math.atan2(y1 - y0, x1 - x0)
    sides = [(x1 - length * math.cos(angle + side), y1 - length * math.sin(angle + side)) for side in (0.4, -0.4)]
    return [(x1, y1), *sides]


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _svg_points(points) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _svg_dash(line) -> str:
    return f' stroke-dasharray="{_n(5 * line)} {_n(4 * line)}"'


def _svg_polygon(patterns, points, fill, stroke, line, hatch, dash, tip) -> str:
    if hatch:
        fill = f"url(#@{patterns.setdefault((hatch, fill), len(patterns))})"
    edge = f' stroke="{stroke}" stroke-width="{_n(line)}"' + (_svg_dash(line) if dash else "") if stroke else ""
    head = f'<polygon points="{_svg_points(points)}" fill="{fill or "none"}"{edge}'
    return f"{head}/>" if tip is None else f"{head}><title>{escape(str(tip))}</title></polygon>"


def _svg_pattern(name, hatch, fill) -> str:
    lines = "".join(f'<path d="M{a} {b}L{c} {d}"/>' for a, b, c, d in HATCHES[hatch])
    return (
        f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8" fill="{fill or "none"}"/>'
        f'<g stroke="{style.hatch_colour(fill)}" stroke-linecap="square">{lines}</g></pattern>'
    )


def _svg_text(patterns, x, y, text, size, anchor, fill, bold, mono, turn) -> str:
    # The baseline stands a third of the size below the middle: the same in every browser, unlike dominant-baseline.
    turned = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turn else ""
    look = (' font-weight="bold"' if bold else "") + (f' font-family="{style.MONO}"' if mono else "")
    place = f'x="{_n(x)}" y="{_n(y + 0.35 * size)}" font-size="{_n(size)}" text-anchor="{anchor}"'
    return f'<text {place} fill="{fill}"{look}{turned} xml:space="preserve">{escape(text)}</text>'


def _svg_path(patterns, points, stroke, line, dash) -> str:
    first, *rest = points
    path = f"M{_svg_points([first])}{'L' if len(points) == 2 else 'C'}{_svg_points(rest)}"
    dashes = _svg_dash(line) if dash else ""
    return f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="{_n(line)}"{dashes}/>'


_SVG = {"polygon": _svg_polygon, "text": _svg_text, "path": _svg_path}
