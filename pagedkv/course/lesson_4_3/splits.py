"""Split-KV: the tokens of each sequence shared out over programs, and how many programs that gives a GPU to run."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

ROWS_SHOWN = 8  # sequences


def cut(lengths: Sequence[int], split_tokens: int) -> list[list[int]]:
    """The tokens in each split of each sequence. A sequence without tokens has one split, whose program writes zeros."""
    return [[min(split_tokens, length - start) for start in range(0, max(length, 1), split_tokens)] for length in lengths]


def splits_of_sequences(lengths: Sequence[int], split_tokens: int, kv_heads: int, multiprocessors: int) -> tuple[Canvas, str]:
    """A row for each of the first sequences, cut into splits; hatched ones are partial results, to be merged. And words."""
    sequences = cut(lengths, split_tokens)
    shown = sequences[:ROWS_SHOWN]
    canvas = Canvas(style.WIDTH, 118 + 40 * len(shown))
    left, scale = 150, (style.WIDTH - 170) / max(1, *lengths)
    programs = kv_heads * sum(map(len, sequences))
    canvas.text(20, 18, f"Splits of {split_tokens:,} tokens: {programs:,} programs", size=style.TITLE, bold=True)
    for row, tokens in enumerate(shown):
        y = 42 + 40 * row
        canvas.text(20, y + 14, f"{row}: {lengths[row]:,} tokens")
        x = float(left)
        for count in tokens:
            canvas.rect(x, y, max(scale * count, 2), 28, style.request_colour(row), hatch="/" if len(tokens) > 1 else None)
            x += scale * count
    y = 42 + 40 * len(shown)
    if len(sequences) > len(shown):
        canvas.text(20, y + 10, f"… and {len(sequences) - len(shown)} more sequences", fill=style.MUTED)
    partial = [tokens for tokens in sequences if len(tokens) > 1]
    of = "one sequence" if len(partial) == 1 else f"{len(partial)} sequences"
    merged = f"{sum(map(len, partial)):,} partial results of {of} are merged (hatched)" if partial else "Nothing is left to merge"
    idle = multiprocessors - programs
    work = f"{idle} of them idle" if idle > 0 else f"{programs / multiprocessors:.1f} for each"
    canvas.text(20, y + 36, f"{programs:,} programs for {multiprocessors} multiprocessors: {work}.")
    canvas.text(20, y + 60, f"{merged}, for each of {kv_heads} KV heads.")
    batch = "One sequence" if len(lengths) == 1 else f"{len(lengths)} sequences"
    alt = (
        f"{batch} of up to {max(lengths):,} tokens, drawn as bars and cut into splits of {split_tokens:,} tokens. With {kv_heads} KV heads "
        f"that is {programs:,} programs for {multiprocessors} multiprocessors: {work}. {merged}."
    )
    return canvas, alt
