"""The pictures of lesson 4.4: sectors that a load touches, heads packed into a product, splits; and the charts of the
recorded run.
"""

from collections.abc import Callable, Mapping, Sequence

from pagedkv.bench.report import recorded
from pagedkv.course.draw import measurements, style
from pagedkv.course.draw.canvas import Canvas

SECTOR = 32  # bytes: the least that a GPU fetches
SHOWN = 32  # sectors in a row


def sectors_of(addresses: Sequence[int], width: int) -> set[int]:
    """The numbers of the sectors that hold any of the `width` bytes at each address."""
    return {sector for address in addresses for sector in range(address // SECTOR, (address + width - 1) // SECTOR + 1)}


def touched_sectors(loads: Mapping[str, tuple[Sequence[int], int]]) -> tuple[Canvas, str]:
    """For each load, (the addresses of its threads, bytes per thread): the sectors it fetches, filled as far as wanted;
    and words.
    """
    said = []
    bottom = 24 + 92 * len(loads)
    canvas = Canvas(style.WIDTH, bottom + 26)
    cell = (style.WIDTH - 40) / SHOWN
    for row, (name, (addresses, width)) in enumerate(loads.items()):
        y = 24 + 92 * row
        sectors = sorted(sectors_of(addresses, width))
        wanted = len({byte for address in addresses for byte in range(address, address + width)})
        fetched = SECTOR * len(sectors)
        canvas.text(20, y, name, bold=True)
        words = (
            f"{wanted} bytes wanted, {len(sectors)} sectors = {fetched} bytes fetched: {100 * wanted / fetched:.0f} "
            "% of use"
        )
        canvas.text(style.WIDTH - 20, y, words, anchor="end")
        said.append(f"{name}: {words}")
        for place, sector in enumerate(sectors[:SHOWN]):
            x = 20 + place * cell
            canvas.rect(x, y + 20, cell, 34, style.FREE)
            for low, high in _runs(addresses, width, sector):
                canvas.rect(x + cell * low / SECTOR, y + 20, cell * (high - low) / SECTOR, 34, style.TOKEN, stroke=None)
            if place and sector != sectors[place - 1] + 1:  # a gap in memory
                canvas.line(x, y + 14, x, y + 60, stroke=style.HIGHLIGHT, line=3)
    canvas.line(22, bottom - 10, 22, bottom + 14, stroke=style.HIGHLIGHT, line=3)
    canvas.text(32, bottom + 2, "in between lies other memory, which is not fetched")
    return (
        canvas,
        f"The sectors of {SECTOR} bytes that one load of a warp touches, filled where wanted. {'; '.join(said)}.",
    )


def _runs(addresses: Sequence[int], width: int, sector: int) -> list[tuple[int, int]]:
    """The wanted bytes inside a sector as (start, end), neighbours joined."""
    start, runs = sector * SECTOR, []
    for address in sorted(addresses):
        low, high = max(address - start, 0), min(address + width - start, SECTOR)
        if low < high and runs and low <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(high, runs[-1][1]))
        elif low < high:
            runs.append((low, high))
    return runs


def packed_heads(group: int, tile: int, head_dim: int, dtype_bytes: int = 2) -> tuple[Canvas, str]:
    """`group` query heads over one tile of `tile` tokens of their KV head, one by one and packed into one product; and
    words.
    """
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
        f"Left, a program for each of {group} query heads, each with a K and V tile of its own: {one_by_one}. Right, "
        f"the query heads beside one tile that they share: {packed}."
    )
    return canvas, alt


ROWS_SHOWN = 8  # sequences


def cut(lengths: Sequence[int], split_tokens: int) -> list[list[int]]:
    """The tokens in each split of each sequence. One without tokens has one split, whose program writes zeros."""
    return [
        [min(split_tokens, length - start) for start in range(0, max(length, 1), split_tokens)] for length in lengths
    ]


def splits_of_sequences(
    lengths: Sequence[int], split_tokens: int, kv_heads: int, multiprocessors: int
) -> tuple[Canvas, str]:
    """A row for each of the first sequences, cut into splits, light and dark in turn: partial results, to be merged.

    And words.
    """
    sequences = cut(lengths, split_tokens)
    shown = sequences[:ROWS_SHOWN]
    canvas = Canvas(style.WIDTH, 118 + 40 * len(shown))
    left, scale = 150, (style.WIDTH - 170) / max(1, *lengths)
    programs = kv_heads * sum(map(len, sequences))
    many, heads = style.counted(programs, "program"), style.counted(kv_heads, "KV head")
    canvas.text(20, 18, f"Splits of {split_tokens:,} tokens: {many}", size=style.TITLE, bold=True)
    for row, tokens in enumerate(shown):
        y = 42 + 40 * row
        canvas.text(20, y + 14, f"{row}: {lengths[row]:,} tokens")
        x = float(left)
        fill = style.request_colour(row)
        for split, count in enumerate(tokens):
            canvas.rect(x, y, max(scale * count, 2), 28, style.mix(fill, share=0.6) if split % 2 else fill)
            x += scale * count
    y = 42 + 40 * len(shown)
    if len(sequences) > len(shown):
        canvas.text(20, y + 10, f"… and {len(sequences) - len(shown)} more sequences", fill=style.MUTED)
    partial = [tokens for tokens in sequences if len(tokens) > 1]
    of = "one sequence" if len(partial) == 1 else f"{len(partial)} sequences"
    merged = (
        f"{sum(map(len, partial)):,} partial results of {of} are merged (dark, light, dark, …), for each of {heads}"
        if partial
        else "Nothing is left to merge"
    )
    idle = multiprocessors - programs
    work = f"{idle} of them idle" if idle > 0 else f"{programs / multiprocessors:.1f} for each"
    canvas.text(20, y + 36, f"{many} for {multiprocessors} multiprocessors: {work}.")
    canvas.text(20, y + 60, f"{merged}.")
    batch = "One sequence" if len(lengths) == 1 else f"{len(lengths)} sequences"
    alt = (
        f"{batch} of up to {max(lengths):,} tokens, drawn as bars and cut into splits of {split_tokens:,} tokens. "
        f"With {heads} that is {many} for {multiprocessors} multiprocessors: {work}. "
        f"{merged}."
    )
    return canvas, alt


FIGURES: dict[str, Callable[[], tuple]] = {
    "kernel_roofline": lambda: measurements.roofline(recorded()),
    "kernel_reads": lambda: measurements.share_of_reads(recorded()),
    "kernel_ladder": lambda: measurements.ladder(recorded()),
}
