"""The portrait of a bench record: charts, in which everything comes from that record.

Each function returns a matplotlib Figure that pyplot does not know of, and the words for those who cannot see it. Ours
has one colour everywhere, each peer its own and a marker too.
"""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager

from pagedkv.course.draw import style

OURS, SDPA, FLASHINFER = "pagedkv", "SDPA, contiguous", "FlashInfer"
LOOKS = {  # the start of an implementation's name -> (label, colour, marker)
    OURS: ("this package", style.TOKEN, "o"),
    FLASHINFER: ("FlashInfer, best variant", style.HIGHLIGHT, "D"),
    SDPA: ("PyTorch, contiguous K/V", style.MUTED, "|"),
}
RUNGS = {
    "rung 0": "0: a block\na step",
    "rung 1": "1: a tile\nof blocks",
    "rung 2": "2: heads of a\ngroup packed",
    OURS: "3: split-KV,\nsettings",
}
CASE_COLOURS = ("#332288", "#117733", "#882255", "#555555", "#7A5E00", "#AA3377", "#004488")  # dark enough to write in
LEADER = {"arrowstyle": "-", "linewidth": 0.8, "shrinkA": 2, "shrinkB": 0, "relpos": (0, 0.5)}  # label to point


def share_of_reads(record: dict, cases: Sequence[str] = ("a", "c", "d", "e", "g", "i", "l32")):
    """Bytes read per second by size: the read ceiling as a line, some decode cases as points under it."""
    entries = [entry for entry in _decodes(record) if entry["case"] in cases]
    with _axes(height=4.2) as (figure, axes):
        reads = [entry for entry in record["ceilings"] if entry["kind"] == "read"]
        axes.plot([_mb(e) for e in reads], [e["gb_s"] / 1e3 for e in reads], color=style.MUTED, linewidth=2)
        end = (_mb(reads[-1]), reads[-1]["gb_s"] / 1e3)
        axes.annotate("read ceiling", end, (-4, 8), textcoords="offset points", ha="right", color=style.MUTED)
        for entry in entries:
            rate = entry["results"][OURS]["gb_s"] / 1e3
            axes.plot(_mb(entry), rate, marker="o", color=style.TOKEN)
            axes.annotate(entry["case"], (_mb(entry), rate), (6, -10), textcoords="offset points", color=style.TOKEN)
        axes.set(xscale="log", ylim=0, title="How fast K and V are read, by their size")
        axes.set(xlabel="K and V that are visible, MB", ylabel="TB/s")
        axes.set_xticks(ticks := [20, 50, 100, 200, 500, 1000, 2000], [f"{tick:,}" for tick in ticks])
        axes.set_xticks([], minor=True)
    points = ", ".join(f"{e['case']} {e['results'][OURS]['gb_s'] / 1e3:.2f} TB/s of {_mb(e):.0f} MB" for e in entries)
    alt = (
        f"TB read per second over MB of K and V. The read ceiling rises from {reads[0]['gb_s'] / 1e3:.2f} TB/s at "
        f"{_mb(reads[0]):.0f} MB to {end[1]:.2f} at {end[0]:.0f} MB. Under it the decode cases: {points}."
    )
    return figure, alt


def ladder(record: dict, rungs: Mapping[str, str] = RUNGS):
    """The share of the read ceiling that each rung reaches, a line for each case.

    `rungs`: implementation -> label, in order.
    """
    climbed = [entry for entry in _decodes(record) if len(set(rungs) & set(entry["results"])) > 1][: len(CASE_COLOURS)]
    lines = [
        [(i, 100 * e["results"][name]["share"]) for i, name in enumerate(rungs) if name in e["results"]]
        for e in climbed
    ]
    with _axes(height=4.2) as (figure, axes):
        places = _spaced([steps[-1][1] for steps in lines], 6)
        for steps, at, entry, colour in zip(lines, places, climbed, CASE_COLOURS, strict=False):
            axes.plot(*zip(*steps, strict=True), marker="o", color=colour)
            axes.annotate(
                f"{entry['case']}: {entry['shape']}",
                (len(rungs) - 0.96, steps[-1][1]),
                (len(rungs) - 0.75, at),
                color=colour,
                va="center",
                arrowprops=LEADER | {"color": colour},
            )
        axes.set(
            ylim=(0, 104),
            xlim=(-0.2, len(rungs) + 1.0),
            ylabel="% of the read ceiling",
            title="What each rung of the ladder brings",
        )
        axes.set_xticks(range(len(rungs)), rungs.values())
    climbs = "; ".join(
        f"{e['case']} ({e['shape']}) " + " → ".join(f"{share:.0f}" for _, share in steps)
        for e, steps in zip(climbed, lines, strict=True)
    )
    return figure, f"The share of the read ceiling, in percent, that each rung reaches, a line for each case: {climbs}."


def peers(record: dict):
    """For each decode case the share of the read ceiling that this package, FlashInfer and contiguous K/V reach."""
    entries, labelled, words = _decodes(record), set(), []
    with _axes(height=1.4 + 0.32 * len(entries)) as (figure, axes):
        for row, entry in enumerate(entries):
            axes.axhline(row, color=style.GRID, linewidth=0.6, zorder=0)
            reached = {name: _best_share(entry, name) for name in LOOKS}
            words.append(
                f"{entry['case']} " + " / ".join("–" if share is None else f"{share:.0f}" for share in reached.values())
            )
            for name, share in reached.items():
                label, colour, marker = LOOKS[name]
                if share is not None:
                    size = 11 if marker == "|" else 7
                    shown = None if label in labelled else label
                    labelled.add(label)
                    axes.plot(
                        share, row, marker, color=colour, markersize=size, markeredgewidth=2, linestyle="", label=shown
                    )
        axes.set_yticks(range(len(entries)), [f"{entry['case']}: {entry['shape']}" for entry in entries])
        axes.invert_yaxis()
        axes.set(xlabel="% of the read ceiling at that size", xlim=(0, 101))
        figure.legend(loc="outside upper right", ncols=3, frameon=False)
    names = " / ".join(label for label, _, _ in LOOKS.values())
    return figure, f"Percent of the read ceiling in each decode case, {names}: {'; '.join(words)}."


def roofline(record: dict, cases: Sequence[str] = ("a", "d", "h", "i", "p")):
    """Operations per second over operations per byte, both on log scales, under the two ceilings of the card."""
    rate = max(entry["gb_s"] for entry in record["ceilings"] if entry["kind"] == "read") / 1e3  # TB/s
    peak = next(entry["tflop_s"] for entry in record["ceilings"] if entry["kind"] == "matmul")
    ridge, words = peak / rate, []
    with _axes(height=4.2) as (figure, axes):
        axes.plot([0.5, ridge, 4096], [0.5 * rate, peak, peak], color=style.MUTED, linewidth=2)
        axes.text(1.1, 1.1 * rate * 1.35, f"{rate:.2f} TB/s read", rotation=38, color=style.MUTED)
        axes.text(ridge * 1.3, peak * 1.12, f"{peak:.0f} TFLOP/s, matrix product", color=style.MUTED)
        for entry in (entry for entry in record["cases"] if entry["case"] in cases and OURS in entry["results"]):
            intensity, reached = entry["flops"] / entry["bytes"], entry["flops"] / entry["results"][OURS]["us"] / 1e6
            left = intensity > ridge
            place = {
                "xytext": (-8 if left else 8, -4),
                "textcoords": "offset points",
                "ha": "right" if left else "left",
            }
            axes.plot(intensity, reached, "o", color=style.TOKEN)
            axes.annotate(f"{entry['case']}: {entry['shape']}", (intensity, reached), color=style.TOKEN, **place)
            words.append(f"{entry['case']} at {intensity:.0f} operations a byte {reached:.0f} TFLOP/s")
        title = f"The roofline of one {record['provenance'].get('gpu', 'GPU')}"
        axes.set(xscale="log", yscale="log", xlim=(0.5, 4096), ylim=(0.5, peak * 2), title=title)
        axes.set(xlabel="operations per byte of K and V", ylabel="TFLOP/s")
    alt = (
        f"A roofline on log scales: a line rising with {rate:.2f} TB/s up to {ridge:.0f} operations a byte, flat at "
        f"{peak:.0f} TFLOP/s from there. Under it {'; '.join(words)}."
    )
    return figure, alt


def block_sizes(record: dict, waste: Mapping[int, float]):
    """Block size against speed and against waste.

    `waste`: block size -> share of the slots in use that hold no token, from 0 to 1.
    """
    speed = {
        entry["block_size"]: 100 * entry["results"][OURS]["share"]
        for entry in sorted(_decodes(record), key=lambda entry: entry["block_size"])
        if entry["case"] in ("d", "j1", "j32", "j64", "j128")
    }
    with _axes(height=3.6, columns=2) as (figure, (left, right)):
        left.plot(range(len(speed)), list(speed.values()), marker="o", color=style.TOKEN)
        left.set(
            ylim=(0, 104), ylabel="% of the read ceiling", xlabel="block size, tokens", title="Speed: 64 × 2048 tokens"
        )
        left.set_xticks(range(len(speed)), list(speed))
        look = {"color": style.INTERNAL, "hatch": "\\\\", "edgecolor": style.BACKGROUND}
        right.bar(range(len(waste)), [100 * share for share in waste.values()], **look)
        for i, share in enumerate(waste.values()):
            right.text(i, 100 * share, f"{100 * share:.1f}", ha="center", va="bottom")
        right.set(ylabel="% of the slots in use", xlabel="block size, tokens", title="Waste: chat requests")
        right.set_xticks(range(len(waste)), list(waste))
    speeds = ", ".join(f"{size}: {share:.0f} %" for size, share in speed.items())
    wastes = ", ".join(f"{size}: {100 * share:.1f} %" for size, share in waste.items())
    return (
        figure,
        f"Two charts over the block size. Share of the read ceiling: {speeds}. Share of the slots in use without a "
        f"token: {wastes}.",
    )


def _decodes(record: dict) -> list[dict]:
    return [entry for entry in record["cases"] if entry["kind"] == "decode" and OURS in entry["results"]]


def _best_share(entry: dict, name: str) -> float | None:
    """The largest share in percent of the implementations whose name starts with `name`."""
    return max(
        (100 * timing["share"] for other, timing in entry["results"].items() if other.startswith(name)), default=None
    )


def _mb(entry: dict) -> float:
    return entry["bytes"] / 1e6


def _spaced(values: Sequence[float], least: float, highest: float = 102) -> list[float]:
    """The values moved up until they stand `least` apart, then down again from `highest`, in the order given."""
    order = sorted(range(len(values)), key=values.__getitem__)
    places, low, high = list(values), float("-inf"), highest
    for i in order:
        places[i] = low = max(values[i], low + least)
    for i in reversed(order):
        places[i] = min(places[i], high)
        high = places[i] - least
    return places


@contextmanager
def _axes(height: float, columns: int = 1):
    """A figure in the course's style and its axes; height in inches of 96 pixels."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(style.matplotlib_settings()):
        figure = Figure(figsize=(style.WIDTH / 96, height), layout="constrained")
        yield figure, figure.subplots(1, columns)
