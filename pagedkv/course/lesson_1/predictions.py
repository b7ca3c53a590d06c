"""Predictions of lesson 1: what reserving for the longest request costs, and one address."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "1-at-once",
        "about five times as many",
        "Room for the longest request is several times what an average one has, and the rest of it stays empty.",
        options=("about as many", "about twice as many", "about five times as many"),
    ),
    Prediction("1-slot", 17, "Position 9 is the second token of the third block, and that block is number 4."),
)
