"""Predictions of lesson 4.6: how long the others wait for one, what a cut without lengths leaves idle, what a stale
table leaves out, and what one sequence too many costs.
"""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "4.6-uncut",
        "over nine tenths",
        "35 places never get an item, and the other 64 wait for the longest sequence, 11 times the average.",
        options=("about a third", "about two thirds", "over nine tenths"),
    ),
    Prediction(
        "4.6-blind",
        "about three tenths",
        "132 items for 99 places: 33 begin where another has ended, and the rest waits for them.",
        options=("about a tenth", "about three tenths", "about seven tenths"),
    ),
    Prediction(
        "4.6-stale",
        "the newest tokens are not read, and nobody says so",
        "The kernel reads up to the end that the table gives, the length of a step ago, and does not compare the two.",
        options=(
            "the results are right: a plan changes no result",
            "the newest tokens are not read, and nobody says so",
            "the kernel stops with an error",
        ),
    ),
    Prediction(
        "4.6-one-more",
        49,
        "The last sequence runs alone, for as long as the 99 before it: 98 of twice 99 places stay empty.",
        unit="%",
        near=0.03,
    ),
)
