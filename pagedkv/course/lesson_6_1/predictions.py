"""Predictions of lesson 6.1: where tokens meet, who gets a token, which bits are equal."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "6.1-meet",
        1,
        "Norms, projections and the feed-forward layer work on each token by itself. Without attention no token hears "
        "of another, and only the row of the changed token changes.",
        unit="rows",
    ),
    Prediction(
        "6.1-ready",
        "A and C",
        "B's chunk ends before its prompt does. What follows its last token of this step is known already, so there is "
        "nothing to sample.",
        options=("A", "A and C", "A, B and C", "one for each of the nine tokens"),
    ),
    Prediction(
        "6.1-bits",
        "fewer than one in ten",
        "A product of matrices of another shape adds the same numbers in another order, and rounds otherwise. The sums "
        "come out almost the same, and hardly ever the same to the last bit.",
        options=("all of them", "about half", "fewer than one in ten"),
    ),
)
