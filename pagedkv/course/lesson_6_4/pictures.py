"""The pictures of lesson 6.4: what is free for an admission, a table behind a window, and blocks held over a life."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches

USED, FOUND, BLANK = style.REQUESTS[1], style.REQUESTS[0], style.FREE
LEFT = 80


def admission(title: str, used: int, found: int, blank: int, new: int) -> tuple[Canvas, str]:
    """A pool of blocks in use, free ones in which the beginning of a prompt is found, and other free ones; below, the
    `new` blocks that the prompt needs besides.

    Returns the picture and its words.
    """
    count = used + found + blank
    width = min(64, (style.WIDTH - 40) / max(count, found + new))
    canvas = Canvas(style.WIDTH, 236)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    swatches = [
        ("in use", USED, None),
        ("free, and found: the prompt's own beginning", FOUND, None),
        ("free", BLANK, None),
    ]
    draw_swatches(canvas, 20, 54, swatches)
    fills = [USED] * used + [FOUND] * found + [BLANK] * blank
    canvas.text(20, 88, f"the pool: {found + blank} of {count} blocks are free")
    for i, fill in enumerate(fills):
        canvas.rect(20 + i * width, 102, width - 4, 34, fill, stroke=style.MUTED)
    canvas.text(20, 162, f"the request: {found} found, {new} more needed, {blank} left to take them from")
    for i in range(found + new):
        here = i < found
        label = "found" if here else "new" if i < found + min(new, blank) else "?"
        fill = FOUND if here else BLANK if label == "new" else style.BACKGROUND
        canvas.rect(20 + i * width, 176, width - 4, 34, fill, label=label, stroke=style.MUTED, dash=label == "?")
    verdict = "fits" if new <= blank else f"lacks {new - blank}"
    alt = (
        f"{title}: a row of {count} blocks, {used} in use, {found} free that hold the prompt's beginning, {blank} "
        f"others free. Below, the request's {found + new} blocks: {found} found, {new} more needed. It {verdict}."
    )
    return canvas, alt


LINES = (style.TOKEN, style.HIGHLIGHT)


def held(
    title: str, lines: Mapping[str, Sequence[int]], what: str = "blocks", along: str = "tokens of the sequence"
) -> tuple[Canvas, str]:
    """What is held after each token or step, a line for each of up to two ways; names stand at their ends.

    Returns the picture and its words.
    """
    length, most = len(next(iter(lines.values()))), max(map(max, lines.values()))
    top, height, width = 62, 170, style.WIDTH - LEFT - 190
    canvas = Canvas(style.WIDTH, top + height + 52)
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    canvas.line(LEFT, top + height, LEFT + width, top + height, stroke=style.MUTED)
    for number in (0, most):
        canvas.text(LEFT - 8, top + height * (1 - number / most), number, anchor="end", fill=style.MUTED)
    for share in (0, 0.5, 1):
        canvas.text(LEFT + width * share, top + height + 18, f"{length * share:g}", anchor="middle", fill=style.MUTED)
    canvas.text(LEFT + width / 2, top + height + 40, along, anchor="middle", fill=style.MUTED)
    canvas.text(LEFT, top - 16, what, fill=style.MUTED)
    ends = []
    for (name, numbers), colour in zip(lines.items(), LINES, strict=False):
        x, y = LEFT, top + height * (1 - numbers[0] / most)
        for i, number in enumerate(numbers):
            then = top + height * (1 - number / most)
            if then != y or i == length - 1:
                end = LEFT + width * (i + (i == length - 1)) / length
                canvas.line(x, y, end, y, stroke=colour, line=2.5)
                if then != y:
                    canvas.line(end, y, end, then, stroke=colour, line=2.5)
                x, y = end, then
        ends.append((y, f"{name}: {numbers[-1]}", colour))
    last = None
    for y, words, colour in sorted(ends):
        y = y if last is None else max(y, last + 20)
        canvas.text(LEFT + width + 8, y, words, fill=colour)
        last = y
    said = "; ".join(f"{name}, at most {max(numbers)}, {numbers[-1]} at the end" for name, numbers in lines.items())
    return canvas, f"{title}: {what} over {length} {along.split()[0]}, as lines. {said}."


def behind(title: str, blocks: Sequence[int], num_tokens: int, window: int, size: int, facts: Sequence[str] = ()):
    """A block table whose first entries are -1, over its sequence, with the window of the newest token marked.

    Returns the picture and its words.
    """
    width = min(72, (style.WIDTH - 60) / max(len(blocks), 1))
    canvas = Canvas(style.WIDTH, 168 + 26 * len(facts))
    canvas.text(14, 22, title, size=style.TITLE, bold=True)
    for i, block in enumerate(blocks):
        gone = block < 0
        label = block if width > 24 else None
        fill = style.BACKGROUND if gone else FOUND
        canvas.rect(30 + i * width, 50, width - 3, 34, fill, label=label, stroke=style.MUTED, dash=gone)
    first, last = max(0, num_tokens - window), num_tokens
    x0, x1 = (30 + token * width / size for token in (first, last))
    canvas.rect(x0, 96, max(x1 - x0, 3), 18, style.HIGHLIGHT, stroke=None)
    canvas.text(
        30, 134, f"the newest query sees tokens {first} to {last - 1}, marked; -1 stands for a block given back"
    )
    for i, words in enumerate(facts):
        canvas.text(30, 164 + 26 * i, words, bold=i == 0)
    listed = " ".join(map(str, blocks))
    return (
        canvas,
        f"{title}: the table {listed}; the newest query sees tokens {first} to {last - 1}."
        + "".join(f" {words}." for words in facts),
    )
