"""The strip at the top of each lesson: the one request that the course follows, and where on its way it is.

The stations are the wings that have a THREAD, what the lesson does with the request in one or two lines: a new lesson
joins by saying one.
"""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, draw_strip
from pagedkv.course.lessons import wings
from pagedkv.course.thread import MIRA

LEFT, WIDTH = 20, style.WIDTH - 40


def strip(number: str) -> tuple[Canvas, str]:
    """The request at the lesson `number`, such as "2.2". Returns the picture and its words.

    Raises ValueError for a lesson that says no THREAD.
    """
    stations = {wing.number: wing for wing in wings() if wing.thread}
    if number not in stations:
        raise ValueError(f"number must be a lesson with a THREAD, {', '.join(stations)}, not {number!r}")
    canvas = Canvas(style.WIDTH, 192)
    title = f"{MIRA.name}'s request in {number}, {stations[number].title}"
    canvas.text(LEFT, 24, title, size=style.TITLE, bold=True)
    begins = MIRA.prompt.split(",")[0]
    canvas.text(LEFT + WIDTH, 24, f"“{begins}, …”", anchor="end", fill=style.MUTED)
    for row, line in enumerate(stations[number].thread.split("\n")):
        canvas.text(LEFT, 50 + 21 * row, line)
    come = MIRA.output_tokens - MIRA.generated
    pieces = [
        Piece(MIRA.prompt_tokens, style.TOKEN, None, f"{MIRA.prompt_tokens} of the prompt"),
        Piece(MIRA.generated, style.TOKEN, None, f"{MIRA.generated}"),
        Piece(come, style.BACKGROUND, None),
    ]
    spans = draw_strip(canvas, LEFT, 94, WIDTH, 28, MIRA.total_tokens, pieces)
    canvas.text(spans[2][0] + 8, 108, f"of the answer; {come} more to come")
    canvas.line(spans[1][0], 94, spans[1][0], 122, stroke=style.BACKGROUND, line=2)
    _stations(canvas, list(stations), number, y=142)
    sentence = stations[number].thread.replace("\n", " ")
    alt = (
        f"{title}. {sentence} A bar of its {MIRA.total_tokens} tokens: {MIRA.prompt_tokens} of the prompt and "
        f"{MIRA.generated} of the answer are stored, {come} are to come. Below, the lessons it goes through, with "
        f"{number} marked."
    )
    return canvas, alt


def _stations(canvas: Canvas, numbers: list[str], here: str, y) -> None:
    """A box for each lesson on the request's way; those behind it are tinted, the one where it is stands out."""
    step = WIDTH / len(numbers)
    at = numbers.index(here)
    canvas.line(LEFT + step / 2, y + 14, LEFT + WIDTH - step / 2, y + 14, stroke=style.MUTED)
    for i, number in enumerate(numbers):
        fill = style.HIGHLIGHT if i == at else style.mix(style.HIGHLIGHT, share=0.75) if i < at else style.BACKGROUND
        width = min(step - 6, 48)
        canvas.rect(LEFT + (i + 0.5) * step - width / 2, y, width, 28, fill, label=number, bold=i == at)
