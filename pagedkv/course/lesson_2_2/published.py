"""Figure 2 of the PagedAttention paper, its published bars next to those that a simulation measured."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_legend, draw_strip, state_piece

# Percent of the KV memory, OPT-13B on ShareGPT (Kwon et al., SOSP 2023, Figure 2). Its Orca is the authors' own, on a buddy allocator.
PUBLISHED = {
    "Orca (Max)": {"token_states": 20.4, "reserved": 13.3, "internal": 57.3, "external": 8.9},
    "Orca (Pow2)": {"token_states": 26.8, "reserved": 17.9, "internal": 13.6, "external": 41.6},
    "Orca (Oracle)": {"token_states": 38.2, "reserved": 25.2, "internal": 0.0, "external": 36.6},
    "vLLM": {"token_states": 96.3},  # the paper does not divide the rest
}


def published_and_measured(measured: Mapping[str, Mapping[str, float]]) -> Canvas:
    """`measured` maps the names of PUBLISHED to the four shares, from 0 to 1, of a simulated run."""
    left, width, bar = 236, style.WIDTH - 256, 30
    canvas = Canvas(style.WIDTH, 74 + 92 * len(PUBLISHED))
    canvas.text(20, 24, "How the KV memory is used, in %: published and measured here", size=style.TITLE, bold=True)
    draw_legend(canvas, left, 56)
    for row, (name, shares) in enumerate(PUBLISHED.items()):
        y = 84 + 92 * row
        canvas.text(20, y + bar + 2, name, bold=True)
        for source, values, top in (("published", shares, y), ("measured", {s: 100 * v for s, v in measured[name].items()}, y + bar + 4)):
            canvas.text(left - 10, top + bar / 2, source, anchor="end")
            pieces = [state_piece(state, value, f"{value:.1f}") for state, value in values.items()]
            draw_strip(canvas, left, top, width, bar, 100, pieces)
    return canvas
