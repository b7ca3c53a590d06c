"""Predictions of lesson 2.2: what copies, perfect knowledge, holes and rounding cost."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "2.2-copied",
        "about 200",
        "64 tokens into 128 slots, then 128 into 256. Doubling keeps the copies near the number of tokens.",
        options=("about 20", "about 100", "about 200", "over 1,000"),
    ),
    Prediction(
        "2.2-oracle",
        "about 50 %",
        "Half of each output is still to come, on average over its steps, and its slots are held from the first one.",
        options=("above 90 %", "about 75 %", "about 50 %"),
    ),
    Prediction(
        "2.2-waits",
        "about 90 %",
        "The unused slots would nearly always be enough. They lie in several holes.",
        options=("about 10 %", "about 50 %", "about 90 %"),
    ),
    Prediction(
        "2.2-rounding",
        "most of it",
        "530 slots become 1024. Holes are the smaller part, on both policies.",
        options=("a third", "half", "most of it"),
    ),
)
