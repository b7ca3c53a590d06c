"""The picture of lesson 1: the chapter on one page, each lesson with the sentence to remember, and the way from one to
the next.
"""

from itertools import groupby

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lessons import wings

PARTS = {"2": "problem", "3": "structures", "4": "algorithm"}  # what the lessons of a number are about
COLUMNS = 3
BOX, HEIGHT, STEP_X, STEP_Y, LEFT, TOP = 238, 84, 266, 122, 52, 104
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def chapter_map() -> tuple[Canvas, str]:
    """Rows of three lessons between those that frame them and have no sentence. Returns the picture and its words."""
    first, *lessons = wings()
    rows = []  # (part, the colour of its boxes, lessons)
    for colour, (part, group) in enumerate(
        groupby((wing for wing in lessons if wing.sentence), lambda wing: wing.number.split(".")[0])
    ):
        boxes = list(group)
        rows += [
            (PARTS.get(part, f"part {part}"), colour, boxes[i : i + COLUMNS]) for i in range(0, len(boxes), COLUMNS)
        ]
    ends = [wing for wing in lessons if not wing.sentence]
    canvas = Canvas(style.WIDTH, TOP + len(rows) * STEP_Y + 54)
    canvas.text(
        14,
        20,
        "From wasted memory to a kernel: the chapter's lessons and what each one adds",
        size=style.TITLE,
        bold=True,
    )
    last = STEP_X * (COLUMNS - 1) + BOX + LEFT
    canvas.rect(LEFT, 44, BOX, 32, style.BACKGROUND, label=f"{first.number}  {first.title}", bold=True)
    canvas.line(LEFT + BOX / 2, 76, LEFT + BOX / 2, TOP - 2, arrow=True)
    for row, (part, colour, boxes) in enumerate(rows):
        y = TOP + row * STEP_Y
        canvas.text(26, y + HEIGHT / 2, part, anchor="middle", bold=True, turn=True)
        for column, wing in enumerate(boxes):
            x = LEFT + column * STEP_X
            canvas.rect(x, y, BOX, HEIGHT, style.request_colour(colour))
            canvas.text(x + 10, y + 18, f"{wing.number}  {wing.title}", bold=True)
            for i, line in enumerate(wing.sentence.split("\n")):
                canvas.text(x + 10, y + 43 + 21 * i, line)
            if column:
                canvas.line(x - STEP_X + BOX + 2, y + HEIGHT / 2, x - 2, y + HEIGHT / 2, arrow=True)
        leave, middle = x + BOX / 2, y + (HEIGHT + STEP_Y) / 2 - 4
        arrive = last - BOX / 2 if row == len(rows) - 1 else LEFT + BOX / 2
        canvas.line(leave, y + HEIGHT, leave, middle)
        canvas.line(leave, middle, arrive, middle)
        canvas.line(arrive, middle, arrive, y + STEP_Y - 2, arrow=True)
    x, y = last - BOX, TOP + len(rows) * STEP_Y
    for i, wing in enumerate(ends):
        canvas.rect(x - i * STEP_X, y, BOX, 32, style.BACKGROUND, label=f"{wing.number}  {wing.title}", bold=True)
        if i:
            canvas.line(x - (i - 1) * STEP_X - 2, y + 16, x - i * STEP_X + BOX + 2, y + 16, arrow=True)
    shape = f"{NUMBERS[len(rows)]} rows of {'' if all(len(boxes) == COLUMNS for *_, boxes in rows) else 'up to '}three"
    listed = " ".join(
        f"{part}: {', '.join(f'{wing.number} {wing.title}' for wing in boxes)}." for part, _, boxes in rows
    )
    then = ", and ".join(f"{wing.number}, {wing.title}" for wing in ends)
    return canvas, f"A map of the lessons. After {first.number}, {first.title}, {shape}. {listed} Then {then}."
