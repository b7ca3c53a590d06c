"""Grouped-query attention in a kernel: a program per query head reads each K tile again, packed heads read it once."""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas


def packed_heads(group: int, tile: int, head_dim: int, dtype_bytes: int = 2) -> tuple[Canvas, str]:
    """`group` query heads over one tile of `tile` tokens of their KV head, one by one and packed into one product; and words."""
    canvas = Canvas(style.WIDTH, 92 + 40 * group)
    kib = tile * head_dim * dtype_bytes * 2 / 1024
    middle = style.WIDTH / 2
    canvas.text(20, 20, "A program for each query head", size=style.TITLE, bold=True)
    canvas.text(middle + 20, 20, "A program for each KV head", size=style.TITLE, bold=True)
    bottom = 48 + 40 * group
    for head in range(group):
        y = 48 + 40 * head
        canvas.rect(20, y, 90, 28, style.request_colour(head), label=f"q head {head}")
        canvas.line(114, y + 14, 156, y + 14, arrow=True)
        canvas.rect(160, y, 236, 28, style.TOKEN, label=f"K and V tile, {kib:.0f} KiB")
        canvas.rect(middle + 20, y, 90, 28, style.request_colour(head), label=f"q head {head}")
    canvas.line(middle + 114, 42 + 20 * group, middle + 156, 42 + 20 * group, arrow=True)
    canvas.rect(middle + 160, 48, 236, 40 * group - 12, style.TOKEN, label=f"K and V tile, {kib:.0f} KiB")
    one_by_one = f"{group} × {kib:.0f} KiB read, {group} products of a vector with a matrix"
    packed = f"{kib:.0f} KiB read, one product [{group} × {head_dim}] · [{head_dim} × {tile}]"
    canvas.text(20, bottom + 16, one_by_one)
    canvas.text(middle + 20, bottom + 16, packed)
    alt = (
        f"Left, a program for each of {group} query heads, each with a K and V tile of its own: {one_by_one}. Right, the query heads "
        f"beside one tile that they share: {packed}."
    )
    return canvas, alt
