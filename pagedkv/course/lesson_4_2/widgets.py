"""The widget of lesson 4.2: a step of online softmax."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_4_2 import pictures

SCORES = [[0.3, 1.1, -0.4, 0.8], [1.0, 0.2, 1.4, -0.6], [0.9, 0.5, -1.2, 1.2], [0.7, -0.1, 0.4, 1.3]]
VALUES = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0], [13.0, 14.0, 15.0, 16.0]]


def blocks(jump: float, place: int):
    """SCORES, with the second score of block number `place` raised by `jump`."""
    return [[s + jump * (b == place and t == 1) for t, s in enumerate(scores)] for b, scores in enumerate(SCORES)]


def online_svg(step: int = 2, jump: float = 4.0, place: int = 2) -> str:
    """The step that takes in block number `step`, as an SVG."""
    canvas, alt = pictures.online_step(blocks(jump, place), VALUES, step)
    return canvas.svg(alt)


def online():
    """Move through the blocks, and raise one score to see l and O shrink."""
    return widget.explore(
        online_svg,
        step=widget.slider("Step", 2, 0, len(SCORES) - 1),
        jump=widget.steps("Raise one score by", [0.0, 1.0, 2.0, 4.0, 6.0], 4.0),
        place=widget.slider("Block of that score", 2, 0, len(SCORES) - 1),
    )
