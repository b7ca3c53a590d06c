"""The widget of lesson 4.3: programs over numbers."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_4_3 import pictures


def programs_svg(numbers: int = 10, lanes: int = 4) -> str:
    """The programs of a launch, as an SVG."""
    canvas, alt = pictures.programs(numbers, lanes)
    return canvas.svg(alt)


def programs():
    """How many programs it takes, and how many of their lanes are hidden."""
    return widget.explore(
        programs_svg,
        numbers=widget.slider("Numbers", 10, 1, 16),
        lanes=widget.steps("Lanes", [1, 2, 4, 8, 16], 4),
    )
