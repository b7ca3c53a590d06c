"""The price of a reserve: for each admission watermark the share of the pool that holds tokens, and how often requests are preempted."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.timeline import draw_shares
from pagedkv.simulation.timeline import Timeline


def watermark_bars(runs: Mapping[float, Timeline], chosen: float) -> tuple[Canvas, str]:
    """Bars for every watermark in `runs`, that of `chosen` filled, and the shares over time of its run.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 510)
    used = {mark: 100 * run.shares()["token_states"] for mark, run in runs.items()}
    preempted = {mark: 100 * run.preemptions.sum() / len(run.finished) for mark, run in runs.items()}
    title = f"{100 * chosen:g} % kept free: {used[chosen]:.1f} % token states, {preempted[chosen]:.0f} preemptions per 100 requests"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    _bars(canvas, 20, "token states, % of the pool", used, 100, chosen)
    _bars(canvas, style.WIDTH / 2 + 10, "preemptions per 100 requests", preempted, max(*preempted.values(), 1), chosen)
    canvas.text(20, 290, f"the run at {100 * chosen:g} %", bold=True)
    draw_shares(canvas, 66, 330, style.WIDTH - 316, 140, runs[chosen])
    words = "; ".join(f"{100 * mark:g} %: {used[mark]:.1f} % and {preempted[mark]:.0f}" for mark in runs)
    alt = f"Token states and preemptions per 100 requests for each share of the pool that is kept free at admission. {words}."
    return canvas, f"{alt} Below, the run at {100 * chosen:g} % over time."


def _bars(canvas: Canvas, x, name, values: Mapping[float, float], top, chosen) -> None:
    canvas.text(x, 56, name, bold=True)
    pitch, base, height = (style.WIDTH / 2 - 30) / len(values), 228, 130
    for i, (mark, value) in enumerate(values.items()):
        left, size = x + i * pitch, height * value / top
        canvas.rect(left + 4, base - size, pitch - 8, size, style.TOKEN if mark == chosen else style.mix(style.TOKEN, share=0.75))
        canvas.text(left + pitch / 2, base - size - 12, f"{value:.1f}", anchor="middle", bold=mark == chosen)
        canvas.text(left + pitch / 2, base + 14, f"{100 * mark:g} %", anchor="middle", bold=mark == chosen)
    canvas.line(x, base, x + pitch * len(values), base)
    canvas.text(x, base + 36, "kept free at admission", fill=style.MUTED)
