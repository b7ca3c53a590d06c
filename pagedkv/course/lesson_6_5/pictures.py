"""The pictures of lesson 6.5: a step's way through the parts of an engine, and what an engine holds after a step."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_swatches

YOURS, PACKAGES = style.REQUESTS[3], style.FREE
WAY = (  # part, its lesson, what it answers, box (column, row)
    ("schedule", "6.2", "who runs?", (0, 0)),
    ("table", "3.1", "which slots?", (1, 0)),
    ("pool", "3.1", "a free block?", (2, 0)),
    ("hash", "3.3", "what is it called?", (0, 1)),
    ("match", "3.3", "known already?", (1, 1)),
    ("attention", "4.1", "one query", (0, 2)),
    ("attend", "6.1", "a whole batch", (1, 2)),
    ("kernel", "4.3", "a whole layer", (2, 2)),
)
ROWS = ("memory", "reuse", "the hole in the model: one of three")


def parts_of(calls: Mapping[str, int], yours: Sequence[str] = ()) -> tuple[Canvas, str]:
    """The parts of an engine as boxes, each with what it answers and how often it was asked; those in `yours` are
    coloured. Returns the picture and its words.
    """
    width, height, left = 196, 74, 190
    canvas = Canvas(style.WIDTH, 376)
    canvas.text(14, 22, "The parts of your engine, and how often each was asked", size=style.TITLE, bold=True)
    draw_swatches(canvas, 20, 54, [("yours", YOURS, None), ("the package's", PACKAGES, None)])
    for row, words in enumerate(ROWS):
        for line, part in enumerate(words.split(": ")):
            canvas.text(20, 122 + 96 * row + 20 * line, part, fill=style.MUTED)
    said = []
    for name, lesson, question, (column, row) in WAY:
        x, y = left + column * (width + 18), 84 + 96 * row
        fill = YOURS if name in yours else PACKAGES
        canvas.rect(x, y, width, height, fill)
        canvas.text(x + 10, y + 18, name, bold=True)
        canvas.text(x + width - 10, y + 18, lesson, anchor="end", fill=style.MUTED if fill == PACKAGES else style.INK)
        canvas.text(x + 10, y + 38, question)
        canvas.text(x + 10, y + 58, f"{calls.get(name, 0):,} calls")
        said.append(f"{name} of {lesson}, {'yours' if name in yours else 'the package'}, {calls.get(name, 0):,} calls")
    return canvas, f"The parts of an engine as boxes. {'; '.join(said)}."


def held(title: str, seen, num_blocks: int, step: int, right: Mapping[int, Sequence[int]]) -> tuple[Canvas, str]:
    """The tables of the requests that run after a step, each block with its number, and the books below: free blocks,
    blocks that tables name. A block at two places of tables is in use twice, and outlined. `seen` has a `faults.Seen`
    for each step. Returns the picture and its words.
    """
    now, box = seen[step], 38  # so that twelve blocks leave room for the tokens
    named = {block for blocks in now.tables.values() for block in blocks}
    places = {place for blocks in now.tables.values() for place in enumerate(blocks)}  # shared ones stand at one
    twice = sorted(block for block, count in Counter(block for _, block in places).items() if count > 1)
    canvas = Canvas(style.WIDTH, 124 + 42 * len(right))
    canvas.text(14, 22, f"{title}: after step {step}, of steps 0 to {len(seen) - 1}", size=style.TITLE, bold=True)
    said = []
    for row, number in enumerate(sorted(right)):
        y, tokens = 62 + 42 * row, now.written[number]
        wrong = sum(a != b for a, b in zip(tokens, right[number], strict=False))
        state = (
            "ends here" if number in now.ended else "preempted" if number in now.preempted
            else "runs" if number in now.tables else "has ended" if len(tokens) == len(right[number]) else "waits"
        )  # fmt: skip
        canvas.text(14, y, f"request {number} {state}", bold=number in now.ended or number in now.preempted)
        for i, block in enumerate(now.tables.get(number, ())):
            edge = {"stroke": style.HIGHLIGHT, "line": 3} if block in twice else {}
            fill = style.request_colour(number)
            canvas.rect(200 + i * box, y - 15, box - 4, 30, fill, label=block, tip=f"block {block}", **edge)
        told = style.counted(len(tokens), "token") + (f", {wrong} wrong" if wrong else "")
        canvas.text(style.WIDTH - 14, y, told, anchor="end", fill=style.HIGHLIGHT if wrong else style.INK, bold=wrong)
        said.append(f"request {number} {state}, blocks {list(now.tables.get(number, ()))}, {told}")
    y = 66 + 42 * len(right)
    taken, off = num_blocks - now.free, num_blocks - now.free - len(named)
    books = f"{now.free} of {num_blocks} blocks are free, so {taken} are taken; tables name {len(named)} different ones"
    verdict = f": {abs(off)} {'too many' if off > 0 else 'too few'} are taken" if off else ""
    canvas.text(14, y + 8, "the books", bold=True)
    canvas.text(200, y + 8, books)
    canvas.text(200, y + 34, verdict.removeprefix(": ") or "they agree", fill=style.HIGHLIGHT if off else style.INK)
    outlined = f" In use twice, outlined: {', '.join(map(str, twice))}." if twice else ""
    return canvas, f"{title}, after step {step}: {'; '.join(said)}. {books}{verdict}.{outlined}"
