"""Renders a Canvas with matplotlib, shape by shape: the stored pictures need no browser."""

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path

from pagedkv.course.draw import style

POINTS = 0.75  # per CSS pixel


def figure_of(canvas) -> Figure:
    """A Figure of the canvas's size at 96 pixels to the inch."""
    with rc_context(style.matplotlib_settings()):
        figure = Figure(figsize=(canvas.width / 96, canvas.height / 96), dpi=96)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, canvas.width)
        axes.set_ylim(canvas.height, 0)
        axes.axis("off")
        for order, (kind, shape) in enumerate(canvas.shapes):
            _DRAW[kind](axes, order, **shape)
    return figure


def _polygon(axes, order, points, fill, stroke, line, hatch, dash, tip):
    if fill:
        axes.add_patch(Polygon(points, facecolor=fill, linewidth=0, zorder=order))
    if hatch:
        axes.add_patch(
            Polygon(
                points, facecolor="none", edgecolor=style.hatch_colour(fill), linewidth=0, hatch=hatch * 4, zorder=order
            )
        )
    if stroke:
        axes.add_patch(
            Polygon(
                points,
                facecolor="none",
                edgecolor=stroke,
                linewidth=line * POINTS,
                joinstyle="miter",
                zorder=order,
                linestyle=(0, (5, 4)) if dash else "-",
            )
        )


def _text(axes, order, x, y, text, size, anchor, fill, bold, mono, turn):
    shift = 0.35 * size  # from the middle to the baseline, as in the SVG
    x, y = (x + shift, y) if turn else (x, y + shift)
    axes.text(
        x,
        y,
        text,
        size=size * POINTS,
        color=fill,
        weight="bold" if bold else "normal",
        zorder=order,
        parse_math=False,
        family="DejaVu Sans Mono" if mono else "DejaVu Sans",
        rotation=90 if turn else 0,
        rotation_mode="anchor",
        ha={"start": "left", "middle": "center", "end": "right"}[anchor],
        va="baseline",
    )


def _path(axes, order, points, stroke, line, dash):
    codes = [Path.MOVETO] + [Path.LINETO if len(points) == 2 else Path.CURVE4] * (len(points) - 1)
    axes.add_patch(
        PathPatch(
            Path(points, codes),
            facecolor="none",
            edgecolor=stroke,
            linewidth=line * POINTS,
            linestyle=(0, (5, 4)) if dash else "-",
            zorder=order,
        )
    )


_DRAW = {"polygon": _polygon, "text": _text, "path": _path}
