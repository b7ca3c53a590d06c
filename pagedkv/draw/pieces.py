"""Split-KV as the decode kernel does it: all tiles of a batch laid end to end and cut into equal pieces, one for each program."""

from collections.abc import Sequence
from dataclasses import dataclass

from pagedkv.draw import style
from pagedkv.draw.canvas import Canvas


@dataclass(frozen=True)
class Part:
    """The tiles [first, last) of one sequence that one program works on; `whole` if the sequence needs no merge."""

    piece: int
    sequence: int
    first: int
    last: int
    whole: bool


def cut(lengths: Sequence[int], tile: int, num_pieces: int) -> list[Part]:
    """Lay ceil(length / tile) tiles of each sequence on a line, at least one each, and cut it into `num_pieces` pieces of equal size."""
    tiles = [max(1, -(-length // tile)) for length in lengths]
    size = -(-sum(tiles) // num_pieces)
    parts, start = [], 0
    for sequence, count in enumerate(tiles):
        for piece in range(start // size, (start + count - 1) // size + 1):
            first, last = max(start, piece * size) - start, min(start + count, (piece + 1) * size) - start
            parts.append(Part(piece, sequence, first, last, (first, last) == (0, count)))
        start += count
    return parts


def line_of_pieces(lengths: Sequence[int], tile: int, num_pieces: int) -> Canvas:
    """The sequences as a line of tiles, and under it the pieces; hatched parts are partial results that the merge puts together."""
    parts = cut(lengths, tile, num_pieces)
    total = sum(part.last - part.first for part in parts)
    canvas, width = Canvas(style.WIDTH, 220), (style.WIDTH - 40) / total
    title = f"{len(lengths)} sequences, {total} tiles of {tile} tokens, {num_pieces} programs per KV head"
    canvas.text(20, 18, title, size=style.TITLE, bold=True)
    x = 20.0
    for sequence, length in enumerate(lengths):
        span = width * sum(part.last - part.first for part in parts if part.sequence == sequence)
        label = f"{sequence}: {length}" if style.text_width(f"{sequence}: {length}") < span else str(sequence) if span > 14 else None
        canvas.rect(x, 48, span, 34, style.request_colour(sequence), label=label)
        x += span
    x = 20.0
    for part in parts:
        span = width * (part.last - part.first)
        canvas.rect(x, 112, span, 34, style.request_colour(part.sequence), hatch=None if part.whole else "/")
        x += span
    size = -(-total // num_pieces)
    for piece in range(-(-total // size)):
        left, right = 20 + width * piece * size, 20 + width * min(total, (piece + 1) * size)
        canvas.rect(left, 106, right - left, 46, None, stroke=style.INK, line=2.5)
        if right - left > 20:
            canvas.text((left + right) / 2, 168, f"program {piece}" if right - left > 90 else piece, anchor="middle")
    merged = len({part.sequence for part in parts if not part.whole})
    partial = sum(not part.whole for part in parts)
    of = "one sequence" if merged == 1 else f"{merged} sequences"
    words = f"Hatched: {partial} partial results of {of}, which the merge puts together." if partial else "Nothing is left to merge."
    canvas.text(20, 204, words)
    return canvas
