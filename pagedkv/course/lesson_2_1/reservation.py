"""Contiguous reservations: a pool cut into spans of the maximum length, and one span over the life of its request."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, bracket, draw_strip, state_piece

LEFT, WIDTH = 20, style.WIDTH - 40


def pool_of_reservations(capacity: int, max_seq_len: int, lengths: Sequence[tuple[int, int]], zoom: int = 0) -> Canvas:
    """A pool of `capacity` slots that holds one reservation per (prompt, output) length, and below it reservation `zoom` enlarged."""
    canvas = Canvas(style.WIDTH, 320)
    rest = capacity - max_seq_len * len(lengths)
    title = f"{capacity:,} slots hold {len(lengths)} reservations of {max_seq_len:,} slots, however few are used"
    canvas.text(LEFT, 24, title, size=style.TITLE, bold=True)

    pieces = []
    for prompt, output in lengths:
        pieces += [state_piece("token_states", prompt + output), state_piece("internal", max_seq_len - prompt - output)]
    spans = draw_strip(canvas, LEFT, 84, WIDTH, 44, capacity, [*pieces, Piece(rest, *style.STATES["external"])])
    for request in range(len(lengths)):
        begin, end = spans[2 * request][0], spans[2 * request + 1][1]
        canvas.rect(begin, 84, end - begin, 44, None, line=2)
        canvas.text((begin + end) / 2, 68, f"request {request}", anchor="middle")
    canvas.text(LEFT + WIDTH, 48, f"{rest:,} slots left:", anchor="end")
    canvas.text(LEFT + WIDTH, 68, "too few", anchor="end")

    begin, end = spans[2 * zoom][0], spans[2 * zoom + 1][1]
    canvas.polygon([(begin, 130), (end, 130), (LEFT + WIDTH, 194), (LEFT, 194)], style.FREE, stroke=None)
    canvas.text(style.WIDTH / 2, 178, f"request {zoom}: one unbroken span, kept until the request ends", anchor="middle")
    prompt, output = lengths[zoom]
    idle = max_seq_len - prompt - output
    parts = draw_strip(canvas, LEFT, 194, WIDTH, 56, max_seq_len, [
        state_piece("token_states", prompt, "prompt"),
        state_piece("token_states", output, "output"),
        state_piece("internal", idle, f"{idle:,} slots never used"),
    ])
    canvas.line(parts[1][0], 194, parts[1][0], 250, stroke=style.BACKGROUND, line=2)
    captions = (f"{prompt}", f"{output} tokens", f"{_percent(idle, max_seq_len)} of the reservation")
    for (begin, end), words in zip(parts, captions, strict=True):
        bracket(canvas, begin + 2, end - 2, 264, words, up=False)
    canvas.text(LEFT, 304, f"slot {zoom * max_seq_len:,}", fill=style.MUTED)
    canvas.text(LEFT + WIDTH, 304, f"slot {(zoom + 1) * max_seq_len - 1:,}", anchor="end", fill=style.MUTED)
    return canvas


def life_of_a_reservation(prompt: int, output: int, max_seq_len: int = 2048) -> Canvas:
    """One reservation after the prompt, half-way and at the end: reserved slots turn into token states, internal waste stays."""
    canvas = Canvas(style.WIDTH, 325)
    idle = max_seq_len - prompt - output
    title = f"{max_seq_len:,} slots reserved, {prompt + output:,} used: {idle:,} slots wait for tokens that never come"
    canvas.text(LEFT, 24, title, size=style.TITLE, bold=True)
    moments = {"after the prompt": 0, "half-way": output // 2, "at the end": output}
    for row, (name, generated) in enumerate(moments.items()):
        y = 84 + 90 * row
        tokens, reserved = prompt + generated, output - generated
        spans = draw_strip(canvas, LEFT + 150, y, WIDTH - 150, 40, max_seq_len, [
            state_piece("token_states", tokens),
            state_piece("reserved", reserved),
            state_piece("internal", idle, f"{idle:,} internal: {_percent(idle, max_seq_len)}"),
        ])
        canvas.text(LEFT, y + 20, name, bold=True)
        canvas.text(LEFT + 150, y - 14, f"{tokens} token states" + (f" + {reserved} reserved for later" if reserved else ""))
        canvas.rect(spans[0][0], y, WIDTH - 150, 40, None, line=2)
    return canvas


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
