"""The widget of lesson 4.6: one cut for all sequences of a batch, and what it does to the card's time."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_4_6 import pictures, schedule

BATCHES = {
    "63 chats and a long one": schedule.one_long,
    "63 chats": schedule.chats,
    "110 of 8,192 tokens": lambda: [8192] * 110,
}
CUTS = (256, 384, 512, 608, 768, 1024, 1664, 2048, 4096, 8192, 16384)


def cut_svg(batch: str = "63 chats and a long one", cut: int = 1024) -> str:
    """The batch with every sequence cut after each `cut` tokens, as an SVG."""
    rows = schedule.cut_at(BATCHES[batch](), cut)
    canvas, words = pictures.over_time(f"{batch}: cut after every {cut:,} tokens", rows)
    return canvas.svg(words)


def cut():
    """Too large a cut leaves places idle, too small a one leaves much to merge."""
    return widget.explore(
        cut_svg,
        batch=widget.choice("Batch", list(BATCHES), "63 chats and a long one"),
        cut=widget.steps("Largest part, tokens", [(f"{cut:,}", cut) for cut in CUTS], 1024),
    )
