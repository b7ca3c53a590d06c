"""The picture of lesson 4.6: the items of a decode step as bars on the places of a card, over time."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches
from pagedkv.course.lesson_4_6 import schedule

LEFT, WIDTH, TOP, ROWS = 96, style.WIDTH - 126, 84, 396  # pixels
LONGEST, OTHERS = style.REQUESTS[1], style.REQUESTS[0]


def over_time(title: str, rows: Sequence[tuple[int, int, int, int]], places: int = schedule.PLACES):
    """`rows` (sequence, part, first, end) on `places`: a line for each place, a bar for each item; the longest sequence
    stands out where it is far longer than most. Returns the picture and its words.
    """
    run = schedule.run(rows, places)
    tokens = {seq: end for seq, _, _, end in rows}
    longest = max(tokens, key=tokens.get)
    stands_out = tokens[longest] > 3 * sum(tokens.values()) / len(tokens)
    canvas = Canvas(style.WIDTH, TOP + ROWS + 104)
    canvas.text(20, 22, title, size=style.TITLE, bold=True)
    swatches = [("an item", OTHERS, None), ("idle", style.FREE, None)]
    if stands_out:
        swatches.insert(0, (f"items of sequence {longest}: {tokens[longest]:,} tokens", LONGEST, None))
    draw_swatches(canvas, LEFT, 52, swatches)

    scale, step = WIDTH / max(1, run.time), ROWS / places
    canvas.rect(LEFT, TOP, WIDTH, ROWS, style.FREE, stroke=None)
    gap = min(1.0, step / 4)
    for place, start, end, item in run.bars:
        width = max(scale * (end - start) - gap, 0.5)
        fill = LONGEST if stands_out and rows[item][0] == longest else OTHERS
        canvas.rect(LEFT + scale * start, TOP + step * place, width, step - gap, fill, stroke=None)
    best = LEFT + scale * run.at_best
    canvas.line(best, TOP - 8, best, TOP + ROWS + 8, stroke=style.HIGHLIGHT, line=2, dash=True)
    canvas.text(LEFT - 10, TOP + 8, "place 0", anchor="end")
    canvas.text(LEFT - 10, TOP + ROWS - 8, f"place {places - 1}", anchor="end")

    y = TOP + ROWS + 22
    said = f"{run.at_best:,.0f} tokens, if nobody were idle"
    if best + style.text_width(said) < LEFT + WIDTH - 130:
        canvas.text(best, y, said, fill=style.HIGHLIGHT)
    else:
        canvas.text(min(best, LEFT + WIDTH - 130), y, said, fill=style.HIGHLIGHT, anchor="end")
    canvas.text(LEFT + WIDTH, y, f"{run.time:,} tokens", anchor="end", bold=True)
    waves = len(rows) / places
    facts = f"{len(rows):,} items for {places} places: {waves:.2f} waves. {100 * run.idle:.0f} % of the time is idle"
    facts += ", on paper."
    canvas.text(LEFT, y + 30, facts, bold=True)
    canvas.text(LEFT, y + 54, f"Partial results to merge: {_merged(rows)}.")
    words = (
        f"{title}. Bars over time, a line for each of {places} places. {facts} The last item ends after {run.time:,} "
        f"tokens; if nobody were idle, it would after {run.at_best:,.0f}. Partial results to merge: {_merged(rows)}."
    )
    return canvas, words


def _merged(rows) -> str:
    parts = sum(part >= 0 for _, part, _, _ in rows)
    if not parts:
        return "none"
    share = 100 * schedule.partial_bytes(rows) / schedule.kv_bytes([end - first for _, _, first, end in rows])
    return f"{parts:,}, {share:.1f} % of the bytes of K and V"
