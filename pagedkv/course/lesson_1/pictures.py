"""The picture of lesson 1: the course on one page, each lesson with the sentence to remember, and the way from one to
the next.
"""

from itertools import groupby

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lessons import wings

PARTS = {"2": "problem", "3": "structures", "4": "algorithm", "6": "engine"}  # what the lessons of a number are about
COLUMNS = 3
BOX, HEIGHT, STEP_X, STEP_Y, LEFT, TOP, THIN = 238, 84, 266, 122, 52, 104, 32
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def chapter_map() -> tuple[Canvas, str]:
    """Rows of three lessons; those without a sentence frame them, in thin boxes. Returns the picture and its words."""
    first, *lessons = wings()
    rows = []  # (part, the colour of its boxes, lessons); no part where a lesson has no sentence
    for colour, (number, group) in enumerate(groupby(lessons, lambda wing: wing.number.split(".")[0])):
        boxes = list(group)
        part = PARTS.get(number, f"part {number}") if any(wing.sentence for wing in boxes) else ""
        rows += [(part, colour, boxes[i : i + COLUMNS]) for i in range(0, len(boxes), COLUMNS)]
    heights = [HEIGHT if part else THIN for part, *_ in rows]
    gap = STEP_Y - HEIGHT
    canvas = Canvas(style.WIDTH, TOP + sum(heights) + gap * (len(rows) - 1) + 22)
    canvas.text(
        14, 20, "From wasted memory to an engine: the lessons and what each one adds", size=style.TITLE, bold=True
    )
    canvas.rect(LEFT, 44, BOX, THIN, style.BACKGROUND, label=f"{first.number}  {first.title}", bold=True)
    canvas.line(LEFT + BOX / 2, 76, LEFT + BOX / 2, TOP - 2, arrow=True)
    y = TOP
    for row, (part, colour, boxes) in enumerate(rows):
        if part:
            canvas.text(26, y + HEIGHT / 2, part, anchor="middle", bold=True, turn=True)
        for column, wing in enumerate(boxes):
            x, middle = LEFT + column * STEP_X, y + heights[row] / 2
            if part:
                canvas.rect(x, y, BOX, HEIGHT, style.request_colour(colour))
                canvas.text(x + 10, y + 18, f"{wing.number}  {wing.title}", bold=True)
            else:
                canvas.rect(x, y, BOX, THIN, style.BACKGROUND, label=f"{wing.number}  {wing.title}", bold=True)
            for i, line in enumerate(wing.sentence.split("\n") if part else ()):
                canvas.text(x + 10, y + 43 + 21 * i, line)
            if column:
                canvas.line(x - STEP_X + BOX + 2, middle, x - 2, middle, arrow=True)
        y += heights[row]
        if row < len(rows) - 1:
            leave, arrive = x + BOX / 2, LEFT + BOX / 2
            canvas.line(leave, y, leave, y + gap / 2 - 4)
            canvas.line(leave, y + gap / 2 - 4, arrive, y + gap / 2 - 4)
            canvas.line(arrive, y + gap / 2 - 4, arrive, y + gap - 2, arrow=True)
        y += gap
    full = [boxes for part, _, boxes in rows if part]
    shape = f"{NUMBERS[len(full)]} rows of {'' if all(len(boxes) == COLUMNS for boxes in full) else 'up to '}three"
    listed = []
    for part, group in groupby(rows, lambda row: row[0]):
        named = [f"{wing.number} {wing.title}" for _, _, boxes in group for wing in boxes]
        listed.append(f"{part}: {', '.join(named)}." if part else f"Then {', '.join(named)}.")
    return canvas, f"A map of the lessons. After {first.number}, {first.title}, {shape}. {' '.join(listed)}"
