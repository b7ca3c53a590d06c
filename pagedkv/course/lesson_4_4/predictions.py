"""Predictions of lesson 4.4: operations a byte, what a scattered load fetches, who works on a long sequence, and which
rung brings most.
"""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "4.4-intensity",
        4,
        "A number of 2 bytes takes part in one multiplication and one addition for each of the 4 query heads of its "
        "group: 8 operations on 2 bytes.",
        unit="operations",
    ),
    Prediction(
        "4.4-sectors",
        "100%",
        "Neighbouring threads read the 256 bytes of one token of one head, eight whole sectors, wherever they lie.",
        options=("6%", "25%", "50%", "100%"),
    ),
    Prediction(
        "4.4-idle",
        6,
        "One program for each of 8 KV heads, on 132 multiprocessors: 8 / 132 = 6 %.",
        unit="%",
        near=0.1,
    ),
    Prediction(
        "4.4-most",
        "splits for one, packing for a batch",
        "Before splits 8 programs have the card to themselves; a full batch has enough, and is bound by bytes.",
        options=(
            "tiles for both",
            "packing for both",
            "splits for one, packing for a batch",
            "packing for one, splits for a batch",
        ),
    ),
)
