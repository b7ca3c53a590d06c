"""The widget of lesson 4.4: how sequences are cut into splits."""

from pagedkv.bench.cases import GRID, ragged
from pagedkv.course.draw import widget
from pagedkv.course.lesson_4_4 import pictures

MULTIPROCESSORS = 132  # of an H100 or H200
BATCHES = {
    "1 sequence of 8192": GRID["a"].lengths,
    "16 sequences of 4096": GRID["c"].lengths,
    "64 sequences of 2048": GRID["d"].lengths,
    "8 sequences of up to 8192": ragged("eight", 8, 8192).lengths,
}
SPLITS = (128, 256, 512, 1024, 2048, 4096, 8192)


def split_kv_svg(batch: str = "1 sequence of 8192", split_tokens: int = 8192, kv_heads: int = 8) -> str:
    """One batch cut into splits, as an SVG."""
    canvas, alt = pictures.splits_of_sequences(BATCHES[batch], split_tokens, kv_heads, MULTIPROCESSORS)
    return canvas.svg(alt)


def split_kv():
    """How many programs a batch gives the GPU, and how many partial results it leaves to merge."""
    return widget.explore(
        split_kv_svg,
        batch=widget.choice("Batch", list(BATCHES), "1 sequence of 8192"),
        split_tokens=widget.steps("Tokens in a split", list(SPLITS), 8192),
        kv_heads=widget.steps("KV heads", (1, 2, 4, 8, 16, 32), 8),
    )
