"""The block tables of sequences that share, as a grid: a row for each sequence, a column for each logical block."""

from collections.abc import Sequence

from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

SHARED, OWN = style.REQUESTS[0], style.REQUESTS[2]


def shared_tables(title: str, tables: Sequence[BlockTable], facts: Sequence[str] = (), names: Sequence[str] = ()) -> tuple[Canvas, str]:
    """Each box is an entry of a table and holds a block id; boxes of one block are joined. `facts` are lines of text below.

    Returns the picture and its words.
    """
    columns = max(len(table.blocks) for table in tables)
    left, width = 64, min(56, (style.WIDTH - 78) / columns)
    canvas = Canvas(style.WIDTH, 102 + 34 * len(tables) + 26 * len(facts))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    canvas.text(left, 54, "logical block:")
    for x, fill, words in ((left + 120, SHARED, "shared"), (left + 220, OWN, "its own")):
        canvas.rect(x, 46, 16, 16, fill)
        canvas.text(x + 24, 54, words)
    rows = [table.blocks for table in tables]
    numbered = width >= 30
    for column in range(columns):
        x, row = left + column * width, 0
        while row < len(rows):
            block = rows[row][column] if column < len(rows[row]) else None
            same = row + 1
            while same < len(rows) and column < len(rows[same]) and rows[same][column] == block:
                same += 1
            if block is not None:
                shared = tables[row].pool.ref_count(block) > 1
                label = block if numbered else None
                y, height = 76 + 34 * row, 34 * (same - row) - 4
                canvas.rect(x, y, width - 3, height, SHARED if shared else OWN, label=label, stroke=style.MUTED, tip=f"block {block}")
            row = same
    for row in range(len(rows)):
        canvas.text(left - 10, 91 + 34 * row, names[row] if names else row, anchor="end")
    for i, words in enumerate(facts):
        canvas.text(left, 100 + 34 * len(rows) + 26 * i, words, bold=i == 0)
    listed = "; ".join(f"{names[row] if names else row}: {blocks}" for row, blocks in enumerate(rows))
    return canvas, f"{title}: a grid of {len(rows)} block tables in which a shared block is one box. {listed}. {'. '.join(facts)}."
