"""The charts of lesson 2.1: how K and V grow, and how long requests get against what is reserved for them."""

from collections.abc import Mapping

import numpy as np

from pagedkv.course.draw import style
from pagedkv.sizing import KVShape


def growth(shapes: Mapping[str, KVShape], longest: int, most: int):
    """What a text of up to `longest` tokens has had computed and read, what its K and V take, and what those of up to
    `most` requests of that length take: straight lines and one curve.

    Returns a matplotlib figure and its words.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    tokens, requests = np.linspace(0, longest, 65), np.arange(most + 1)
    pairs = tokens * (tokens + 1) / 2 / 1e6
    colours = dict(zip(shapes, (style.TOKEN, style.HIGHLIGHT), strict=False))
    one = {name: shape.bytes_for(longest) / 2**30 for name, shape in shapes.items()}
    panels = [
        (
            "K and V of tokens, millions",
            tokens,
            {"read, or computed\nwithout a cache": pairs, "computed\nwith a cache": tokens / 1e6},
        ),
        ("one request, GiB", tokens, {name: size * tokens / longest for name, size in one.items()}),
        (f"requests of {longest:,}, GiB", requests, {name: size * requests for name, size in one.items()}),
    ]
    with mpl.rc_context(style.matplotlib_settings()):
        figure = Figure((style.WIDTH / 96, 2.9), layout="constrained")
        for axes, (title, x, lines) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            top = max(y[-1] for y in lines.values())
            for order, (name, y) in enumerate(lines.items()):
                colour = colours.get(name, (style.TOKEN, style.HIGHLIGHT)[order])
                axes.plot(x, y, color=colour, linewidth=3)
                lifted = y[-1] / 2 + 0.2 * top if order == 0 else y[len(y) * 5 // 8] + 0.1 * top
                axes.text(
                    *((0.04 * x[-1], lifted) if order == 0 else (0.99 * x[-1], lifted)),
                    name,
                    color=colour,
                    ha="right" if order else "left",
                    va="center",
                )
            axes.set(xlim=(0, x[-1]), ylim=(0, 1.04 * top), title=title)
            axes.set_xlabel("tokens of the text" if x is tokens else "requests that run")
            axes.set_xticks([0, x[-1] // 2, x[-1]])
    sizes = "; ".join(
        f"{name}: {size:.2f} GiB for one request, {size * most:.1f} for {most}" for name, size in one.items()
    )
    return figure, (
        f"Three charts. Up to {longest:,} tokens, what is computed with a cache grows along a straight line; what is "
        f"read, and what is computed without one, along a parabola, to {pairs[-1]:.1f} million. K and V of one request "
        f"grow in proportion to its tokens, those of requests of {longest:,} tokens to their number. {sizes}."
    )


def lengths_against_reservation(totals: Mapping[str, np.ndarray], max_seq_len: int):
    """One histogram for each named array of total lengths, in tokens, up to `max_seq_len`.

    Returns a matplotlib figure and its words.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    fits = {name: lengths[lengths <= max_seq_len] for name, lengths in totals.items()}
    with mpl.rc_context(style.matplotlib_settings()):
        figure = Figure((style.WIDTH / 96, 1.75 * len(totals) + 0.55), layout="constrained")
        for axes, (name, lengths) in zip(
            figure.subplots(len(totals), sharex=True, squeeze=False)[:, 0], totals.items(), strict=True
        ):
            mean = fits[name].mean()
            axes.hist(fits[name], bins=np.linspace(0, max_seq_len, 65), color=style.TOKEN)
            axes.axvline(mean, color=style.HIGHLIGHT, linewidth=3)
            axes.axvline(max_seq_len, color=style.INTERNAL, linewidth=3)
            fit, filled = 100 * len(fits[name]) / len(lengths), 100 * mean / max_seq_len
            axes.set_title(f"{name}: {fit:.0f} % of the requests fit, and fill {filled:.0f} % of {max_seq_len:,} slots")
            beside = {"transform": axes.get_xaxis_transform(), "y": 0.86}
            axes.text(mean + max_seq_len / 150, s="mean", color=style.HIGHLIGHT, **beside)
            axes.text(max_seq_len * (1 - 1 / 150), s="a reservation ends", ha="right", color=style.INTERNAL, **beside)
            axes.set(xlim=(0, 1.01 * max_seq_len), yticks=[], ylabel="requests")
        axes.set_xlabel("prompt and output together, tokens")
    words = "; ".join(
        f"{name}: {len(chosen) / len(totals[name]):.0%} fit, their mean of {chosen.mean():,.0f} tokens fills "
        f"{chosen.mean() / max_seq_len:.0%}"
        for name, chosen in fits.items()
    )
    return (
        figure,
        f"Histograms of total request lengths next to a line at the {max_seq_len:,} slots of a reservation. {words}.",
    )
