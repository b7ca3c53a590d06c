"""The chapter on one page: each lesson with the sentence to remember, and the way from one to the next."""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

ROWS = (
    ("problem", (
        ("2.1", "Contiguous allocation", "a span as long as the", "longest possible request"),
        ("2.2", "Fragmentation", "reserved, internal, external:", "each measured over time"),
        ("2.3", "The core tension", "allocate on demand,", "yet read in order"),
    )),
    ("structures", (
        ("3.1", "Block, slot, table", "token → block, offset", "→ table → slot"),
        ("3.2", "Logical to physical", "take a block when needed;", "write and read by slot"),
        ("3.3", "Sharing blocks", "reference counts, copy on", "write, reuse of prefixes"),
    )),
    ("algorithm", (
        ("4.1", "Reading by block", "look up one block at a time;", "mask the last one"),
        ("4.2", "Online softmax", "m, l and O make one pass", "over the tiles exact"),
        ("4.3", "The Triton kernel", "bytes first: tiles, groups,", "split-KV"),
    )),
)
BOX, HEIGHT, STEP_X, STEP_Y, LEFT, TOP = 238, 84, 266, 122, 52, 104


def chapter_map() -> tuple[Canvas, str]:
    """Three rows of three lessons between the first and the last two. Returns the picture and its words."""
    canvas = Canvas(style.WIDTH, TOP + 3 * STEP_Y + 54)
    canvas.text(14, 20, "From wasted memory to a kernel: the chapter's lessons and what each one adds", size=style.TITLE, bold=True)
    last = STEP_X * 2 + BOX + LEFT
    canvas.rect(LEFT, 44, BOX, 32, style.BACKGROUND, label="1  Start here", bold=True)
    canvas.line(LEFT + BOX / 2, 76, LEFT + BOX / 2, TOP - 2, arrow=True)
    for row, (part, lessons) in enumerate(ROWS):
        y = TOP + row * STEP_Y
        canvas.text(26, y + HEIGHT / 2, part, anchor="middle", bold=True, turn=True)
        for column, (number, name, *lines) in enumerate(lessons):
            x = LEFT + column * STEP_X
            canvas.rect(x, y, BOX, HEIGHT, style.request_colour(row))
            canvas.text(x + 10, y + 18, f"{number}  {name}", bold=True)
            for i, line in enumerate(lines):
                canvas.text(x + 10, y + 43 + 21 * i, line)
            if column:
                canvas.line(x - STEP_X + BOX + 2, y + HEIGHT / 2, x - 2, y + HEIGHT / 2, arrow=True)
        leave, arrive, middle = last - BOX / 2, last - BOX / 2 if row == 2 else LEFT + BOX / 2, y + (HEIGHT + STEP_Y) / 2 - 4
        canvas.line(leave, y + HEIGHT, leave, middle)
        canvas.line(leave, middle, arrive, middle)
        canvas.line(arrive, middle, arrive, y + STEP_Y - 2, arrow=True)
    y = TOP + 3 * STEP_Y
    canvas.rect(last - BOX, y, BOX, 32, style.BACKGROUND, label="5.1  Summary", bold=True)
    canvas.line(last - BOX - 2, y + 16, last - STEP_X + 2, y + 16, arrow=True)
    canvas.rect(last - BOX - STEP_X, y, BOX, 32, style.BACKGROUND, label="5.2  Quiz", bold=True)
    rows = " ".join(f"{part}: {', '.join(f'{number} {name}' for number, name, *_ in lessons)}." for part, lessons in ROWS)
    return canvas, f"A map of the lessons. After 1, Start here, three rows of three. {rows} Then 5.1, Summary, and 5.2, Quiz."
