"""Predictions of lesson 4.3: what a forgotten mask, a hidden lane and a slot of -1 do."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "4.3-unmasked",
        "the right numbers, and no error",
        "The two lanes read what lies behind x, and what they read is not stored. On a GPU, too, nothing is said "
        "as long as the address belongs to somebody.",
        options=("an error", "wrong numbers at the end", "the right numbers, and no error"),
    ),
    Prediction(
        "4.3-hidden",
        0,
        "The fourth lane is hidden, takes part all the same, and holds 0, which is larger than -1.",
    ),
    Prediction(
        "4.3-minus",
        "block 0, offset -1",
        "Triton divides as C does, towards 0; Python rounds down and says block -1, offset 15. The slot in front of "
        "the pool does not look wrong.",
        options=("block -1, offset 15", "block 0, offset -1", "block 0, offset 0"),
    ),
)
