"""The figure that made the case for paging, beside two simulations: with one fitted parameter, and with none."""

from collections.abc import Mapping, Sequence
from functools import cache

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_legend, draw_strip, state_piece
from pagedkv.simulation.experiment import CAPACITY, MAX_SEQ_LEN, POLICIES
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests

# Percent of the KV memory, OPT-13B on ShareGPT (Kwon et al., SOSP 2023, Figure 2). Its Orca is the authors' own, on a
# buddy allocator. Its "external fragmentation & others" is what is external and free here.
PUBLISHED = {
    "Orca (Max)": {"token_states": 20.4, "reserved": 13.3, "internal": 57.3, "external and free": 8.9},
    "Orca (Pow2)": {"token_states": 26.8, "reserved": 17.9, "internal": 13.6, "external and free": 41.6},
    "Orca (Oracle)": {"token_states": 38.2, "reserved": 25.2, "internal": 0.0, "external and free": 36.6},
    "vLLM": {"token_states": 96.3},  # the paper does not divide the rest
}


def published() -> tuple[Canvas, str]:
    """Figure 2 of the PagedAttention paper, and means over five seeds of 600 saturated requests each: with lengths
    fitted to the paper's, and with those of a trace, where nothing is fitted.
    """
    policies = {
        "Orca (Max)": "max length, buddy",
        "Orca (Pow2)": "power of two, buddy",
        "Orca (Oracle)": "oracle, buddy",
        "vLLM": "paged",
    }
    simulated = {
        name: [_mean_shares(policy, workload) for workload in ("paper-sharegpt", "azure-conv")]
        for name, policy in policies.items()
    }
    words = []
    for name, bars in PUBLISHED.items():
        fitted, traced = (_as_published(shares) for shares in simulated[name])
        parts = [f"{part} {value} and {fitted[part]:.1f} ({traced[part]:.1f})" for part, value in bars.items()]
        words.append(f"{name} {', '.join(parts)}".replace("token_states", "token states"))
    alt = (
        "Shares of the KV memory in percent, as stacked bars: published, and simulated with lengths fitted to the "
        f"paper's; in brackets with azure-conv's lengths, where nothing is fitted. {'; '.join(words)}."
    )
    return _published_and_simulated(simulated), alt


@cache
def _mean_shares(policy: str, workload: str) -> dict[str, float]:
    """Mean shares in per cent, over five seeds."""
    shares = []
    for seed in range(5):
        short = [r for r in sample_requests(workload, 1000, seed=seed) if r.total_tokens <= MAX_SEQ_LEN][:600]
        shares.append(simulate(short, POLICIES[policy](CAPACITY), CAPACITY).shares())
    return {state: 100 * sum(share[state] for share in shares) / len(shares) for state in shares[0]}


def _as_published(shares: Mapping[str, float]) -> dict[str, float]:
    return {**shares, "external and free": shares["external"] + shares["free"]}


def _published_and_simulated(simulated: Mapping[str, Sequence[Mapping[str, float]]]) -> Canvas:
    """`simulated` maps the names of PUBLISHED to the five shares, in per cent, of two simulated runs."""
    left, width, bar, row = 290, style.WIDTH - 310, 30, 122
    canvas = Canvas(style.WIDTH, 106 + row * len(PUBLISHED))
    canvas.text(20, 24, "How the KV memory is used, in %: published and simulated", size=style.TITLE, bold=True)
    draw_legend(canvas, left, 56)
    sources = ("published", "fitted lengths", "azure-conv")
    for i, (name, shares) in enumerate(PUBLISHED.items()):
        y = 84 + row * i
        canvas.text(20, y + 1.5 * bar + 4, name, bold=True)
        bars = ({state.split(" and")[0]: share for state, share in shares.items()}, *simulated[name])
        for place, (source, values) in enumerate(zip(sources, bars, strict=True)):
            top = y + place * (bar + 4)
            canvas.text(left - 10, top + bar / 2, source, anchor="end")
            pieces = [state_piece(state, value, f"{value:.1f}") for state, value in values.items()]
            draw_strip(canvas, left, top, width, bar, 100, pieces)
    note = "The published bars count what is free as external."
    canvas.text(left, canvas.height - 18, note, fill=style.MUTED)
    return canvas
