"""The pictures of lesson 4.5: what fills a multiprocessor, and how full its last wave is; and charts of the recorded
runs.
"""

from collections.abc import Callable

import numpy as np

from pagedkv.bench.report import recorded
from pagedkv.course.draw import measurements, style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lesson_4_5.exercises import PROGRAMS, SHARED, WARPS, _by_registers, _by_shared, programs
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import ceil_div

LEFT, BAR, ROW = 160, 560, 62
TOP = 340  # µs: the chart's upper end
NAMED = {(64, 4, 2): (0.08, 262), (64, 4, 3): (1.5, 262), (64, 4, 4): (2.1, 215)}  # settings named: where, in the chart


def multiprocessor(registers: int, shared: int, warps: int) -> tuple[Canvas, str]:
    """Registers, shared memory and warps of one multiprocessor as bars, filled with programs until each is full: light
    where another bar was full before. And words.
    """
    most = {
        "registers": (_by_registers(registers, warps), 65_536 / max(1, ceil_div(registers, 8) * 8 * 32 * warps)),
        "shared memory": (_by_shared(shared), SHARED / (ceil_div(shared + 1024, 128) * 128)),
        "warps": (WARPS // warps, WARPS / warps),
    }
    together = programs(registers, shared, warps)
    canvas = Canvas(style.WIDTH, 44 + ROW * len(most) + 34)
    title = f"{style.counted(warps, 'warp')}, {registers} registers a thread, {shared:,} bytes of shared memory"
    canvas.text(20, 20, title, size=style.TITLE, bold=True)
    for row, (name, (fit, room)) in enumerate(most.items()):
        y = 48 + ROW * row
        canvas.text(20, y + 17, name)
        canvas.rect(LEFT, y, BAR, 34, style.FREE)
        for program in range(fit):
            fill = style.RESERVED if program < together else style.mix(style.RESERVED, share=0.7)
            canvas.rect(LEFT + BAR * program / room, y, BAR / room, 34, fill)
        canvas.text(LEFT + BAR + 12, y + 17, f"{fit} fit", bold=fit == together)
    words = f"{style.counted(together, 'program')} at once"
    below = f"Dark: {words}, {together * warps} of {WARPS} warps. Light: more would fit, if nothing else were full."
    canvas.text(20, 48 + ROW * len(most) + 8, below)
    fits = ", ".join(f"{name} for {style.counted(fit, 'program')}" for name, (fit, _) in most.items())
    return canvas, f"A multiprocessor and programs of {title}: {fits}. So {words} (never more than {PROGRAMS})."


def _named(tile: int, warps: int, stages: int) -> str:
    return f"tile {tile}, {style.counted(warps, 'warp')}, {style.counted(stages, 'stage')}"


def waves(record: dict, case: str, work: int, multiprocessors: int = 132):
    """Each recorded setting of a case: µs over the waves that `work` programs run in, a cross where registers spill."""
    points = []
    for row in record["settings"][case]:
        at_once = programs(row["registers"], row["shared"], row["num_warps"])
        setting = (row["tile"], row["num_warps"], row["num_stages"])
        points.append((work / (multiprocessors * at_once), row["us"], row["spilled"], setting))
    above = {}  # waves -> the times that the chart has no room for, and whether each is crossed
    paper = {"facecolor": style.BACKGROUND, "edgecolor": "none", "pad": 1}  # no line runs through words
    with measurements._axes(height=4.2) as (figure, axes):
        for waves_, us, spilled, setting in points:
            colour = style.HIGHLIGHT if spilled else style.TOKEN
            if us > TOP:
                above.setdefault(waves_, []).append((us, "× " if spilled else ""))
                continue
            axes.plot(waves_, us, "x" if spilled else "o", color=colour, alpha=0.75)
            if setting in NAMED:
                words = _named(*setting)
                look = {"arrowprops": {"arrowstyle": "->", "color": style.MUTED}, "va": "center", "bbox": paper}
                axes.annotate(f"{words}:\n{us:.0f} µs", (waves_, us), NAMED[setting], **look)
        for waves_, times in above.items():  # off the chart: an arrow, and the numbers
            words = ", ".join(f"{cross}{us:.0f}" for us, cross in sorted(times)) + " µs"
            look = {"arrowprops": {"arrowstyle": "->", "color": style.HIGHLIGHT}, "ha": "center", "va": "top"}
            look["bbox"] = paper
            axes.annotate(words, (waves_, TOP), (waves_, TOP - 16), color=style.HIGHLIGHT, **look)
        for whole in range(1, 5):
            axes.axvline(whole, color=style.GRID, linewidth=1, zorder=0)
        axes.set(xlim=(0, 4.6), ylim=(90, TOP), xlabel="waves: programs of the launch / programs that run at once")
        axes.set(ylabel="µs", title=f"Case {case} under every setting (crosses: registers spill)")
    said = "; ".join(f"{_named(*setting)}: {x:.2f} waves, {us:.0f} µs" for x, us, _, setting in points)
    return figure, f"µs over waves for {len(points)} settings of case {case}. {said}."


def speed_and_waste():
    """Speed against waste. A request that runs has every length from its prompt to its end."""
    lengths = np.concatenate(
        [np.arange(r.prompt_tokens, r.total_tokens) for r in sample_requests("paper-sharegpt", 2000, seed=0)]
    )
    waste = {size: 1 - lengths.sum() / (ceil_div(lengths, size) * size).sum() for size in (1, 16, 32, 64, 128)}
    return measurements.block_sizes(recorded(), waste)


FIGURES: dict[str, Callable[[], tuple]] = {
    "kernel_peers": lambda: measurements.peers(recorded()),
    "kernel_block_sizes": speed_and_waste,
}
