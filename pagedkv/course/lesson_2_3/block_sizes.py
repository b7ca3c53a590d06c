"""The last block's waste: the share of the pool that holds tokens, for each block size, on several workloads."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas


def token_share_by_block_size(shares: Mapping[str, Mapping[int, float]]) -> tuple[Canvas, str]:
    """`shares` maps a workload to {block size: share of token states, from 0 to 1}; one group of bars for each workload.

    Returns the picture and its words.
    """
    height, base, left = 150, 222, 66
    canvas = Canvas(style.WIDTH, 272)
    canvas.text(20, 24, "Slots that hold tokens, % of the pool, by block size", size=style.TITLE, bold=True)
    for percent in (0, 50, 100):
        y = base - height * percent / 100
        canvas.line(left, y, style.WIDTH - 20, y, stroke=style.GRID, line=1)
        canvas.text(left - 8, y, f"{percent} %", anchor="end", fill=style.MUTED)
    group = (style.WIDTH - 20 - left) / len(shares)
    for column, (workload, by_size) in enumerate(shares.items()):
        pitch, x = (group - 24) / len(by_size), left + 12 + column * group
        for i, (block_size, share) in enumerate(by_size.items()):
            top = base - height * share
            canvas.rect(x + i * pitch + 3, top, pitch - 6, height * share, style.TOKEN)
            canvas.text(x + (i + 0.5) * pitch, top - 11, f"{100 * share:.0f}", anchor="middle")
            canvas.text(x + (i + 0.5) * pitch, base + 14, f"{block_size}", anchor="middle")
        canvas.text(x, base + 38, f"block size, {workload}", fill=style.MUTED)
    words = "; ".join(
        f"{name}: {', '.join(f'{share:.0%} at {size}' for size, share in by_size.items())}" for name, by_size in shares.items()
    )
    return canvas, f"Bars of the share of slots that hold tokens, by block size. {words}."
