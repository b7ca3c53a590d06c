"""How long requests are when they end, next to the length that is reserved for each."""

from collections.abc import Mapping

import numpy as np

from pagedkv.course.draw import style


def lengths_against_reservation(totals: Mapping[str, np.ndarray], reserved: int):
    """One histogram for each named array of total lengths, in tokens, up to `reserved`. Returns a matplotlib figure and its words."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    fits = {name: lengths[lengths <= reserved] for name, lengths in totals.items()}
    with mpl.rc_context(style.matplotlib_settings()):
        figure = Figure((style.WIDTH / 96, 1.75 * len(totals) + 0.55), layout="constrained")
        for axes, (name, lengths) in zip(figure.subplots(len(totals), sharex=True, squeeze=False)[:, 0], totals.items(), strict=True):
            mean = fits[name].mean()
            axes.hist(fits[name], bins=np.linspace(0, reserved, 65), color=style.TOKEN)
            axes.axvline(mean, color=style.HIGHLIGHT, linewidth=3)
            axes.axvline(reserved, color=style.INTERNAL, linewidth=3)
            fit, filled = 100 * len(fits[name]) / len(lengths), 100 * mean / reserved
            axes.set_title(f"{name}: {fit:.0f} % of the requests fit, and fill {filled:.0f} % of {reserved:,} slots")
            beside = {"transform": axes.get_xaxis_transform(), "y": 0.86}
            axes.text(mean + reserved / 150, s="mean", color=style.HIGHLIGHT, **beside)
            axes.text(reserved * (1 - 1 / 150), s="reserved", ha="right", color=style.INTERNAL, **beside)
            axes.set(xlim=(0, 1.01 * reserved), yticks=[], ylabel="requests")
        axes.set_xlabel("prompt and output together, tokens")
    words = "; ".join(
        f"{name}: {len(chosen) / len(totals[name]):.0%} fit, their mean of {chosen.mean():,.0f} tokens fills {chosen.mean() / reserved:.0%}"
        for name, chosen in fits.items()
    )
    return figure, f"Histograms of total request lengths next to a line at the {reserved:,} slots that are reserved. {words}."
