"""The portrait of a pool: its blocks, the block tables of its sequences, and an arrow for every entry."""

from collections.abc import Mapping, Sequence

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.sizing import ceil_div

ENTRY, GAP, ROW, BLOCK_ROW = 32, 12, 46, 72  # in the gaps run the arrows, past the entries and blocks between


def pool_and_tables(
    title: str,
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    picked: tuple[str, int] | None = None,
    say: str = "",
    note: str = "",
    names: Sequence[str] = (),
) -> tuple[Canvas, str]:
    """Tables above, pool below; each slot shows the position that it holds. A block with several owners is outlined
    twice, and has a band in the colour of each owner but the first.

    `picked` is (sequence, position): its entry, its slot and its address are set off. `say` is a line of text under the
    title, `note` is added to what is said about the pool, `names` fixes the order of the colours where tables come and
    go. Returns the picture and its words.
    """
    size = pool.block_size
    cell = 22 if size > 1 else 40
    block_width = cell * size + 14
    per_row = max((style.WIDTH - 14) // block_width, 1)
    y_pool = 106 + ROW * max(len(tables), 1) + 40
    canvas = Canvas(style.WIDTH, y_pool + BLOCK_ROW * ceil_div(pool.num_blocks, per_row) + 8)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    if say:
        canvas.text(14, 48, say)
    state = f"pool: {pool.num_blocks} blocks of {size}, {pool.num_free} free"
    canvas.text(style.WIDTH - 14, 48, state + note, anchor="end", bold=True)
    address = tables[picked[0]].translate(picked[1]) if picked else None

    def place(block):
        return 14 + block % per_row * block_width, y_pool + block // per_row * BLOCK_ROW

    words = {
        name: f"{name}: {table.num_tokens} token{'' if table.num_tokens == 1 else 's'}"
        for name, table in tables.items()
    }
    left = max([130, *(36 + 1.12 * style.text_width(said) for said in words.values())])  # bold is wider
    held: dict[int, list[tuple[str, range]]] = {}  # block -> the colour of each owner, and its positions there
    entries = []
    for row, (name, table) in enumerate(tables.items()):
        fill = style.request_colour([*(names or tables)].index(name))
        for logical, block in enumerate(table.blocks):
            on_path = picked is not None and (name, logical) == (picked[0], address.logical_block)
            entries.append((on_path, row, logical, block, fill))
            positions = range(logical * size, min(logical * size + size, table.num_tokens))
            held.setdefault(block, []).append((fill, positions))
    lanes: dict[int, list] = {}  # column of the pool -> the arrows that pass its first row, on the left of its blocks
    for entry in entries:
        if entry[3] >= per_row:
            lanes.setdefault(entry[3] % per_row, []).append(entry)
    for entry in sorted(entries):  # the picked one on top
        on_path, row, logical, block, fill = entry
        x, y, (end_x, end_y) = left + logical * (ENTRY + GAP), 82 + row * ROW, place(block)
        canvas.rect(x, y, ENTRY, 26, fill, label=block, bold=on_path, **_edge(on_path))
        way = [(x + ENTRY / 2, y + 27)]
        if row < len(tables) - 1:
            gap = x + ENTRY + GAP * (row + 1) / len(tables)
            way += [(gap, y + ROW - 2), (gap, 82 + ROW * (len(tables) - 1) + 28)]
        if block < per_row:
            way.append((end_x + cell * size / 2, end_y - 5))
        else:
            others = lanes[block % per_row]
            gap = end_x - 4 - 7 * (others.index(entry) + 0.5) / len(others)
            way += [(gap, y_pool - 12), (gap, end_y - 22), (end_x + cell / 2, end_y - 5)]
        colour = style.HIGHLIGHT if on_path else style.arrow_colour(fill)
        canvas.route(way, stroke=colour, line=2.5 if on_path else 1.2)
    for row, name in enumerate(tables):
        canvas.text(14, 95 + row * ROW, words[name], bold=picked is not None and name == picked[0])
    for block in range(pool.num_blocks):
        x, y = place(block)
        owners = held.get(block, [])
        filled = max((positions for _, positions in owners), key=len, default=())
        for offset in range(size):
            label = filled[offset] if offset < len(filled) else None
            tip = f"block {block}, offset {offset}, slot {block * size + offset}"
            colour = owners[0][0] if label is not None else style.FREE
            canvas.rect(x + offset * cell, y, cell, 26, colour, label=label, stroke=style.GRID, tip=tip)
        for other, (colour, positions) in enumerate(owners[1:]):
            height = 6 / (len(owners) - 1)
            canvas.rect(x, y + 20 + other * height, cell * len(positions), height, colour, stroke=None)
        canvas.rect(x, y, cell * size, 26, None, stroke=style.INK if owners else style.GRID, line=2)
        if len(owners) > 1:
            canvas.rect(x - 3, y - 3, cell * size + 6, 32, None, stroke=style.INK, line=1.5)
        number = f"{block}: {pool.ref_count(block)} owners" if pool.ref_count(block) > 1 else block
        canvas.text(x, y + 40, number, bold=len(owners) == 1, fill=style.INK if owners else style.MUTED)
    if picked:
        x, y = place(address.physical_block)
        canvas.rect(x + address.offset * cell, y, cell, 26, None, **_edge(True))
    listed = "; ".join(f"{words[name]} in blocks {table.blocks}" for name, table in tables.items()) or "no tables"
    way = (
        f" Token {picked[1]} of {picked[0]} is in block {address.physical_block}, offset {address.offset}."
        if picked
        else ""
    )
    return canvas, f"{title}. {say}{'. ' * bool(say)}Block tables and their {state}{note}. {listed}.{way}"


def _edge(on_path):
    return {"stroke": style.HIGHLIGHT, "line": 3} if on_path else {"stroke": style.MUTED}
