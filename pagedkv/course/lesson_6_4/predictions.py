"""Predictions of lesson 6.4: what is found when, and what a narrower, windowed or split cache changes."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "6.4-burst",
        "130",
        "The first of the six runs its 82 tokens; each other finds 72 of its own, scheduled in this very step, and "
        "runs the rest.",
        options=("490", "130", "82", "72"),
    ),
    Prediction(
        "6.4-idle",
        "no, 2 too few",
        "The 3 blocks that are found stand in the free list themselves. Once they are taken out of it, 2 are left for "
        "the other 4.",
        options=("yes, with 1 to spare", "yes, just so", "no, 2 too few"),
    ),
    Prediction(
        "6.4-found",
        83,
        "A free block keeps its content until somebody needs the space, and a victim is the first to come back.",
        unit="%",
        near=0.15,
    ),
    Prediction(
        "6.4-fp8",
        93,
        "Where two tokens are nearly as likely, a small error exchanges them. The text is as likely as before: its "
        "loss hardly moves, as the next cell shows.",
        unit="%",
        near=0.04,
    ),
    Prediction(
        "6.4-tables",
        "they are equal",
        "A block is a block of every layer and every head. The ranks sample the same tokens, so they take the same "
        "blocks, and each keeps its own heads in them.",
        options=("each names half of the blocks", "as long, with other blocks", "they are equal"),
    ),
)
