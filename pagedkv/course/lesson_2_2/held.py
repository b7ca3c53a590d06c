"""One request under every policy: what is held for it at one moment, and what of that holds tokens."""

from collections.abc import Mapping

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import draw_legend, draw_strip, state_piece


def held_by_policy(held: Mapping[str, Mapping[str, int]], title: str) -> tuple[Canvas, str]:
    """`held` maps a policy to its slots in each state: token_states, reserved, internal, external (the allocator's rounding).

    Returns the picture and its words.
    """
    left, bar, gap = 212, 34, 20
    width = style.WIDTH - left - 150
    canvas = Canvas(style.WIDTH, 104 + len(held) * (bar + gap))
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    draw_legend(canvas, left, 62)
    most = max(sum(slots.values()) for slots in held.values())
    for row, (policy, slots) in enumerate(held.items()):
        y, total = 92 + row * (bar + gap), sum(slots.values())
        canvas.text(left - 12, y + bar / 2, policy, anchor="end", bold=policy == "paged")
        pieces = [state_piece(state, slots[state], f"{slots[state]:,}") for state in style.STATES]
        draw_strip(canvas, left, y, width, bar, most, pieces)
        used = 100 * slots["token_states"] / total
        canvas.text(left + width * total / most + 10, y + bar / 2, f"{total:,}: {used:.0f} % used")
    words = []
    for policy, slots in held.items():
        parts = ", ".join(f"{number:,} {style.STATE_NAMES[state]}" for state, number in slots.items() if number)
        words.append(f"{policy} {sum(slots.values()):,}: {parts}")
    return canvas, f"{title}. {'; '.join(words)}."
