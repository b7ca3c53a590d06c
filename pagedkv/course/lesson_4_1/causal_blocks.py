"""The causal mask of a prefill, query by key, cut into tiles of queries and blocks of keys: which pairs need a mask, which are not read."""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.sizing import ceil_div

KINDS = {
    "whole": ("every pair is seen", style.REQUESTS[0]),
    "mask": ("needs a mask", style.REQUESTS[1]),
    "skip": ("not read", style.FREE),
}
LEFT, TOP, CELL = 150, 74, 16


def kind_of(first_query: int, last_query: int, logical: int, block_size: int) -> str:
    """How queries at these positions, first to last, meet a logical block: "whole", "mask" or "skip"."""
    if last_query < logical * block_size:
        return "skip"
    return "whole" if first_query >= (logical + 1) * block_size - 1 else "mask"


def causal_blocks(num_queries: int, num_tokens: int, block_size: int, tile: int) -> tuple[Canvas, str]:
    """`num_queries` queries, the last of `num_tokens` tokens, `tile` at a time; a dot where a query sees a key.

    Returns the picture and its words.
    """
    num_blocks = ceil_div(num_tokens, block_size)
    canvas = Canvas(style.WIDTH, TOP + CELL * num_queries + 40)
    first, met = num_tokens - num_queries, []
    title = f"{num_queries} queries over {num_tokens} keys: tiles of {tile} queries, blocks of {block_size} keys"
    canvas.text(14, 20, title, size=style.TITLE, bold=True)
    for logical in range(num_blocks):
        canvas.text(LEFT + CELL * block_size * (logical + 0.5), TOP - 16, f"block {logical}", anchor="middle", bold=True)
    for start in range(0, num_queries, tile):
        end = min(num_queries, start + tile)
        y = TOP + CELL * start
        canvas.text(LEFT - 8, y + CELL * (end - start) / 2, f"at {first + start} to {first + end - 1}", anchor="end")
        kinds = [kind_of(first + start, first + end - 1, logical, block_size) for logical in range(num_blocks)]
        met.append(f"queries {first + start} to {first + end - 1}: {', '.join(KINDS[kind][0] for kind in kinds)}")
        for logical, kind in enumerate(kinds):
            fill = KINDS[kind][1]
            canvas.rect(LEFT + CELL * block_size * logical, y, CELL * block_size, CELL * (end - start), fill, line=2)
    for row in range(num_queries):
        for p in range(first + row + 1):
            canvas.rect(LEFT + CELL * (p + 0.3), TOP + CELL * (row + 0.3), CELL * 0.4, CELL * 0.4, style.INK, stroke=None)
    x, y = LEFT, TOP + CELL * num_queries + 22
    for name, fill in KINDS.values():
        canvas.rect(x, y - 8, 16, 16, fill)
        canvas.text(x + 22, y, name)
        x += 46 + style.text_width(name)
    return canvas, f"{title}, with a dot where a query sees a key. Block by block, {'; '.join(met)}."
