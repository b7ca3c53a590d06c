"""The pictures of lesson 3.3: tables that share blocks, blocks saved beside the published savings, prompt tokens found
again.
"""

from collections.abc import Mapping, Sequence

from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

SHARED, OWN = style.REQUESTS[0], style.REQUESTS[2]


def shared_tables(
    title: str, tables: Sequence[BlockTable], facts: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[Canvas, str]:
    """Each box is an entry of a table and holds a block id; boxes of one block are joined. `facts` are lines of text
    below.

    Returns the picture and its words.
    """
    columns = max(len(table.blocks) for table in tables)
    left = max([64, *(30 + style.text_width(name) for name in names)])
    width = min(56, (style.WIDTH - left - 14) / columns)
    canvas = Canvas(style.WIDTH, 102 + 34 * len(tables) + 26 * len(facts))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    canvas.text(left, 54, "a column is a logical block, a number the block that holds it:")
    for x, fill, words in ((left + 520, SHARED, "shared"), (left + 610, OWN, "its own")):
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
                canvas.rect(
                    x,
                    y,
                    width - 3,
                    height,
                    SHARED if shared else OWN,
                    label=label,
                    stroke=style.MUTED,
                    tip=f"block {block}",
                )
            row = same
    for row in range(len(rows)):
        canvas.text(left - 10, 91 + 34 * row, names[row] if names else row, anchor="end")
    for i, words in enumerate(facts):
        canvas.text(left, 100 + 34 * len(rows) + 26 * i, words, bold=i == 0)
    listed = "; ".join(f"{names[row] if names else row}: {blocks}" for row, blocks in enumerate(rows))
    return (
        canvas,
        f"{title}: a grid of {len(rows)} block tables in which a shared block is one box. {listed}. "
        f"{'. '.join(facts)}.",
    )


MEASURED, PUBLISHED = style.REQUESTS[0], style.MUTED


def savings(title: str, groups: Mapping[str, Mapping[int, tuple[float, float]]]) -> tuple[Canvas, str]:
    """`groups` maps a heading to {number of sequences: (measured %, published %)}, in per cent of the blocks without
    sharing.

    Returns the picture and its words.
    """
    left, scale = 140, (style.WIDTH - 140 - 100) / 80
    canvas = Canvas(style.WIDTH, 74 + sum(46 + 50 * len(group) for group in groups.values()))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    for x, fill, words in ((left, MEASURED, "measured here"), (left + 180, PUBLISHED, "published")):
        canvas.rect(x, 46, 16, 16, fill)
        canvas.text(x + 24, 54, words)
    y = 74
    for heading, group in groups.items():
        canvas.text(14, y + 20, heading, bold=True)
        y += 38
        canvas.line(left, y - 2, left, y + 50 * len(group) - 6, stroke=style.INK)
        for n, bars in group.items():
            canvas.text(left - 12, y + 20, f"{n} sequences", anchor="end")
            for row, (percent, fill) in enumerate(zip(bars, (MEASURED, PUBLISHED), strict=True)):
                top = y + 21 * row
                canvas.rect(left, top, percent * scale, 20, fill, stroke=None)
                canvas.text(left + percent * scale + 8, top + 10, f"{percent:.1f} %")
            y += 50
        y += 8
    words = "; ".join(
        f"{heading}: "
        + ", ".join(f"{n} sequences {measured:.1f} and {published} %" for n, (measured, published) in group.items())
        for heading, group in groups.items()
    )
    return canvas, f"{title}: pairs of bars, measured and published. {words}."


CACHED, COMPUTED = style.REQUESTS[0], style.REQUESTS[2]


def reuse(title: str, rows: Sequence[tuple[str, int, int]]) -> tuple[Canvas, str]:
    """`rows` are (label, tokens from the cache, tokens computed); bars are drawn to one scale.

    Returns the picture and its words.
    """
    left, width = 150, style.WIDTH - 150 - 190
    canvas = Canvas(style.WIDTH, 82 + 40 * len(rows))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    for x, fill, words in ((left, CACHED, "from the cache"), (left + 180, COMPUTED, "computed")):
        canvas.rect(x, 46, 16, 16, fill)
        canvas.text(x + 24, 54, words)
    scale = width / max(1, *(cached + computed for _, cached, computed in rows))
    for row, (label, cached, computed) in enumerate(rows):
        x, y = left, 78 + 40 * row
        canvas.text(left - 12, y + 15, label, anchor="end")
        for tokens, fill in ((cached, CACHED), (computed, COMPUTED)):
            if tokens:
                words = f"{tokens:,}"
                label = words if tokens * scale > style.text_width(words) + 8 else None
                canvas.rect(
                    x, y, tokens * scale, 30, fill, label=label, stroke=style.MUTED, tip=style.counted(tokens, "token")
                )
            x += tokens * scale
        total = cached + computed
        canvas.text(x + 8, y + 15, f"{cached / max(total, 1):.0%} of {total:,} cached")
    words = "; ".join(f"{label}: {cached:,} from the cache, {computed:,} computed" for label, cached, computed in rows)
    return canvas, f"{title}. {words}."
