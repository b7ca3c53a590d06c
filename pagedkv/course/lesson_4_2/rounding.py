"""Errors against float64 over the number of tokens, one line for each way of computing."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style

LINES = ((style.TOKEN, "o"), (style.HIGHLIGHT, "s"), (style.INTERNAL, "D"), (style.MUTED, "^"), ("#117733", "v"))


def rounding_errors(lengths: Sequence[int], errors: Mapping[str, Sequence[float]]):
    """A matplotlib Figure: relative error of each name at each length, both axes logarithmic, names at the ends of the lines.

    Returns the picture and its words.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(style.matplotlib_settings()):
        figure = Figure(figsize=(style.WIDTH / 96, 4), layout="constrained")
        axes = figure.subplots()
        for (name, line), (colour, marker) in zip(errors.items(), LINES, strict=False):
            axes.plot(lengths, line, color=colour, marker=marker)
            axes.annotate(name, (lengths[-1], line[-1]), (10, -4), textcoords="offset points", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="relative error", title="Errors against float64")
        axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
        axes.minorticks_off()
        axes.set_xlim(lengths[0] / 1.3, lengths[-1] * 30)
    words = "; ".join(f"{name} from {line[0]:.0e} to {line[-1]:.0e}" for name, line in errors.items())
    return figure, f"Relative errors against float64 from {lengths[0]:,} to {lengths[-1]:,} tokens, on logarithmic axes. {words}."
