"""The same policy on different allocators: the share of the pool in each state, with what is external split into rounding and holes."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, draw_strip, state_piece
from pagedkv.simulation.timeline import Timeline


def shares_by_allocator(runs: Mapping[str, Timeline], title: str) -> tuple[Canvas, str]:
    """A strip of 100 % for each named run: means over the steps at which a request waits. Returns the picture and its words."""
    left, bar, gap = 236, 34, 18
    canvas = Canvas(style.WIDTH, 92 + len(runs) * (bar + gap))
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    for row, (name, run) in enumerate(runs.items()):
        y = 60 + row * (bar + gap)
        shares = {state: 100 * share for state, share in run.shares().items()}
        rounding = rounding_share(run)
        canvas.text(left - 12, y + bar / 2, name, anchor="end")
        pieces = [state_piece(state, shares[state], f"{shares[state]:.1f}") for state in ("token_states", "reserved", "internal")]
        holes = shares["external"] - rounding
        pieces.append(Piece(rounding, *style.STATES["external"], f"rounding {rounding:.1f}"))
        pieces.append(Piece(holes, style.EXTERNAL, None, f"holes {holes:.1f}" if holes > 12 else f"{holes:.1f}"))
        draw_strip(canvas, left, y, style.WIDTH - left - 20, bar, 100, pieces)
    x, y = left, canvas.height - 16
    for state in ("token_states", "reserved", "internal"):
        fill, hatch = style.STATES[state]
        canvas.rect(x, y - 8, 16, 16, fill, hatch=hatch)
        canvas.text(x + 22, y, style.STATE_NAMES[state])
        x += 44 + style.text_width(style.STATE_NAMES[state])
    canvas.text(x, y, "external = rounding + holes; all in %", fill=style.MUTED)
    words = "; ".join(
        f"{name}: {run.shares()['external']:.1%} external, of which rounding is {rounding_share(run):.1f} %" for name, run in runs.items()
    )
    return canvas, f"{title}. Strips of the shares of the pool. {words}."


def rounding_share(run: Timeline) -> float:
    """Per cent of the pool that the allocator's rounding takes while a request waits."""
    return 100 * float(run.rounding[run.waiting > 0].mean()) / run.capacity
