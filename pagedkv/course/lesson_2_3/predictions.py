"""Predictions of lesson 2.3: reading the wrong slots, a pool without a watermark, and blocks longer than requests."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "2.3-stretch",
        "a number like any other",
        "The slots hold K and V of both requests, and attention takes whatever is there.",
        options=("an error", "zeros", "a number like any other"),
    ),
    Prediction(
        "2.3-preemptions",
        "about 150",
        "Each new request takes the blocks that those before it will need, so that the latest must go soon; some go "
        "several times.",
        options=("about 10", "about 50", "about 150"),
    ),
    Prediction(
        "2.3-alpaca",
        "about 30 %",
        "A request has 78 tokens on average, and most of them hold one block of 256.",
        options=("about 90 %", "about 60 %", "about 30 %"),
    ),
)
