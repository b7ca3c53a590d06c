"""A stretch of memory as one bar, to scale: the pieces of a reservation or the extents of an arena, by address."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas


@dataclass(frozen=True)
class Piece:
    """`size` slots of one colour; `label` is written where it fits, `tip` appears under the mouse."""

    size: float
    fill: str
    hatch: str | None = None
    label: str | None = None
    tip: str | None = None


def state_piece(state: str, size: float, label: str | None = None) -> Piece:
    """A piece in the colour of a state of memory: a key of STATES."""
    fill, hatch = style.STATES[state]
    return Piece(size, fill, hatch, label, f"{style.STATE_NAMES[state]}: {label or f'{size:,}'}")


def draw_strip(canvas: Canvas, x, y, width, height, total, pieces) -> list[tuple[float, float]]:
    """Draw `pieces` one after the other from the left; `total` slots are `width` pixels.

    Returns (left, right) of each piece.
    """
    spans, left = [], x
    for piece in pieces:
        size = piece.size * width / total
        label = piece.label if piece.label is not None and style.text_width(piece.label) <= size - 4 else None
        if size > 0:
            canvas.rect(left, y, size, height, piece.fill, hatch=piece.hatch, label=label, tip=piece.tip)
        spans.append((left, left + size))
        left += size
    return spans


def draw_legend(canvas: Canvas, x, y, names: Mapping[str, str] = style.STATE_NAMES, by_request: bool = False) -> None:
    """A row of swatches from `x` on, at height `y`, for the states in `names`; `by_request` shows a request's colour
    and its tint.
    """
    of_request = {"token_states": style.REQUESTS[0], "reserved": style.mix(style.REQUESTS[0])} if by_request else {}
    looks = {state: (of_request.get(state, fill), hatch) for state, (fill, hatch) in style.STATES.items()}
    draw_swatches(canvas, x, y, [(name, *looks[state]) for state, name in names.items()], 40)


def draw_swatches(canvas: Canvas, x, y, swatches: Iterable[tuple[str, str, str | None]], gap=46) -> float:
    """A row of (words, fill, hatch) from `x` on, at height `y`; words and square take `gap` pixels more than the words.

    Returns where the next would stand.
    """
    for words, fill, hatch in swatches:
        canvas.rect(x, y - 8, 16, 16, fill, hatch=hatch)
        canvas.text(x + 22, y, words)
        x += gap + style.text_width(words)
    return x


def bracket(canvas: Canvas, left, right, y, text, *, up=True, colour=style.INK, anchor="middle"):
    """A bracket over (or, with `up` false, under) the span from `left` to `right`, and `text` beyond it."""
    tick = 6 if up else -6
    canvas.line(left, y + tick, left, y, stroke=colour)
    canvas.line(left, y, right, y, stroke=colour)
    canvas.line(right, y, right, y + tick, stroke=colour)
    at = {"start": left, "middle": (left + right) / 2, "end": right}[anchor]
    canvas.text(at, y - 2 * tick, text, anchor=anchor, fill=colour)
