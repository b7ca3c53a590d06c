"""Predictions of lesson 4.1: what a move, an unused slot and a mask do to the output."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "4.1-rotated",
        "no",
        "A key is rotated by its position in the sequence, and stored so. Which slot it lies in is never asked for "
        "again, so a block that moves takes its keys along as they are.",
        options=("no", "yes, by the slots they now lie in", "yes, but only those of the last block"),
    ),
    Prediction(
        "4.1-nan",
        "NaN in every element",
        "0 · NaN is NaN, and every element of the output is a sum over all slots that were read.",
        options=("the right numbers: those weights are 0", "NaN in some elements", "NaN in every element"),
    ),
    Prediction(
        "4.1-last",
        "1.5 and 2",
        "With equal keys the output is the mean of the positions seen: 0 to 3, and 0 to 4. The queries are the last "
        "tokens, so the first of them sees the stored context too.",
        options=("0 and 0.5", "1.5 and 2", "2 and 2", "3 and 4"),
    ),
    Prediction(
        "4.1-masks",
        "two, and one",
        "Query 7 sees all of the first block, and so do those after it; query 6 does not see its last key.",
        options=("one, and one", "one, and two", "two, and one", "two, and two"),
    ),
)
