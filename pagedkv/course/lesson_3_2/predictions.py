"""Predictions of lesson 3.2: a boundary, a length, and what changes in a step."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "3.2-boundary",
        "[14, 15, 32, 33]",
        "Block 0 has room for two more. The neighbour has block 1, so that the next two go into block 2.",
        options=("[14, 15, 16, 17]", "[14, 15, 32, 33]", "[32, 33, 34, 35]"),
    ),
    Prediction(
        "3.2-blocks",
        "3",
        "48 of the 49 tokens are stored, and fill three blocks. The newest is stored when it is fed in, a step later.",
        options=("3", "4"),
    ),
    Prediction(
        "3.2-entries",
        "16",
        "Only a sequence whose last block was full takes a new one: one in sixteen.",
        options=("16", "256", "all 131,088"),
    ),
)
