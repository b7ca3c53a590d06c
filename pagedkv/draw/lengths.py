"""How long requests are when they end, next to the length that is reserved for each."""

from collections.abc import Mapping

import numpy as np

from pagedkv.draw import style


def lengths_against_reservation(totals: Mapping[str, np.ndarray], reserved: int):
    """One histogram for each named array of total lengths, in tokens, up to `reserved`. Returns a matplotlib figure."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(style.matplotlib_settings()):
        figure = Figure((style.WIDTH / 96, 1.75 * len(totals) + 0.55), layout="constrained")
        for axes, (name, lengths) in zip(figure.subplots(len(totals), sharex=True, squeeze=False)[:, 0], totals.items(), strict=True):
            fits = lengths[lengths <= reserved]
            axes.hist(fits, bins=np.linspace(0, reserved, 65), color=style.TOKEN)
            axes.axvline(fits.mean(), color=style.HIGHLIGHT, linewidth=3)
            axes.axvline(reserved, color=style.INTERNAL, linewidth=3)
            fit, filled = 100 * len(fits) / len(lengths), 100 * fits.mean() / reserved
            axes.set_title(f"{name}: {fit:.0f} % of the requests fit, and fill {filled:.0f} % of {reserved:,} slots")
            axes.text(fits.mean() + reserved / 150, 0.86, "mean", transform=axes.get_xaxis_transform(), color=style.HIGHLIGHT)
            axes.set(xlim=(0, 1.01 * reserved), yticks=[], ylabel="requests")
        axes.set_xlabel("prompt and output together, tokens")
    return figure
