"""Predictions of lesson 3.1: what wrong calls leave behind, when a block is taken, where neighbours lie."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "3.1-wrong",
        "[0, 0]",
        "The failed call had taken block 2 before it saw that there is no other, and nobody has it now. Block 0 is "
        "there once for each time that it was given back.",
        options=("[2, 0]", "[2, 0, 0]", "[0]", "[0, 0]"),
    ),
    Prediction(
        "3.1-taken",
        2,
        "The eighth token fills the second block. A third is taken when a ninth token arrives, and not before.",
        unit="blocks",
    ),
    Prediction(
        "3.1-apart",
        "48 lies millions of bytes before 47",
        "Token 47 is the last one of block 42, token 48 the first one of block 3. Memory knows no order of the text.",
        options=(
            "they are neighbours",
            "one block apart",
            "48 lies millions of bytes after 47",
            "48 lies millions of bytes before 47",
        ),
    ),
)
