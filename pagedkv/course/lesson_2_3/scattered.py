"""The same memory seen twice: by address, where the slots of several requests alternate, and by request, in reading order."""

from collections.abc import Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

HEIGHT, MEMORY_Y, MEMORY_HEIGHT, APART = 32, 160, 52, 100


def scattered(slots: Mapping[str, Sequence[int]], num_slots: int) -> tuple[Canvas, str]:
    """`slots` maps the names of two requests to their slots in reading order. The first stands above the memory, the second below; a line
    leads from each token to its slot. Returns the picture and its words."""
    cell, left = (style.WIDTH - 130) / num_slots, 110
    bottom = MEMORY_Y + MEMORY_HEIGHT
    canvas = Canvas(style.WIDTH, bottom + APART + 20)
    canvas.text(20, 24, "Handed out on demand: scattered by address, in order by request", size=style.TITLE, bold=True)
    canvas.text(left - 12, MEMORY_Y + 16, "memory", anchor="end", bold=True)
    canvas.text(left - 12, MEMORY_Y + 37, "slot", anchor="end")
    owner = {slot: (row, f"{name}{i}") for row, (name, held) in enumerate(slots.items()) for i, slot in enumerate(held)}
    for slot in range(num_slots):
        row, label = owner.get(slot, (None, ""))
        x = left + slot * cell
        canvas.rect(x, MEMORY_Y, cell, MEMORY_HEIGHT, style.FREE if row is None else style.request_colour(row))
        canvas.text(x + cell / 2, MEMORY_Y + 16, label, anchor="middle")
        canvas.text(x + cell / 2, MEMORY_Y + 37, slot, anchor="middle")
    for row, (name, held) in enumerate(slots.items()):
        fill, y = style.request_colour(row), bottom + APART - HEIGHT if row else MEMORY_Y - APART
        canvas.text(left - 12, y + HEIGHT / 2, f"request {name}", anchor="end", bold=True)
        for i, slot in enumerate(held):
            begin, end = (y, bottom) if row else (y + HEIGHT, MEMORY_Y)
            canvas.line(left + (i + 0.5) * cell, begin, left + (slot + 0.5) * cell, end, stroke=fill, line=2)
            canvas.rect(left + i * cell, y, cell, HEIGHT, fill, label=f"{name}{i}")
    words = ", ".join(f"{name} in slots {', '.join(map(str, held))}" for name, held in slots.items())
    alt = f"A memory of {num_slots} slots by address, in which the tokens of two requests alternate; above and below, each request in"
    return canvas, f"{alt} reading order, with lines from its tokens to their slots: {words}."
