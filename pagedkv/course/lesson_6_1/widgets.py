"""The widget of lesson 6.1: a step of three requests, laid flat."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_6_1 import pictures
from pagedkv.course.lesson_6_1.pictures import Share
from pagedkv.sizing import ceil_div

BLOCK_SIZE, NUM_BLOCKS = 4, 8
BLOCKS = {"A": [5, 1, 6], "B": [2, 7, 0], "C": [4, 3]}  # as far as each can grow
PROMPT = 12  # of B, which is run in chunks


def flat_svg(stored: int = 9, chunk: int = 5, done: int = 4, prompt: int = 3) -> str:
    """A has `stored` tokens and decodes; B has `done` of its prompt of 12 and runs a chunk; C's prompt comes whole."""
    lengths = {
        "A": (stored, 1, 1),
        "B": (done, min(chunk, PROMPT - done), PROMPT - done),
        "C": (0, prompt, prompt),
    }
    shares = [
        Share(name, before, n, pending, BLOCKS[name][: ceil_div(before + n, BLOCK_SIZE)])
        for name, (before, n, pending) in lengths.items()
        if n
    ]
    canvas, alt = pictures.flat_batch(shares, BLOCK_SIZE, NUM_BLOCKS)
    return canvas.svg(alt)


def flat():
    """A decode, a chunk and a prompt in one step, and where each token goes."""
    return widget.explore(
        flat_svg,
        stored=widget.slider("A: tokens stored", 9, 1, 11),
        done=widget.slider("B: stored of its 12", 4, 0, 11),
        chunk=widget.slider("B: runs at most", 5, 1, 12),
        prompt=widget.slider("C: prompt tokens", 3, 0, 8),
    )
