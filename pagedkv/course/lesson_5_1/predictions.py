"""Predictions of lesson 5.1: what paging adds to a read, who uses how much of the pool, what it all comes to."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "5.1-bytes",
        "the paged one, by less than a thousandth",
        "Both read the K and V of the same tokens. The paged one also reads one entry of four bytes for each block, "
        "layer and KV head, beside the 16 keys and values of that block.",
        options=(
            "the standard one, by what it reserves",
            "they read the same",
            "the paged one, by less than a thousandth",
            "the paged one, by some hundredths",
        ),
    ),
    Prediction(
        "5.1-in-use",
        "max length alone",
        "Where requests fill most of what is reserved for them, as Azure's conversations do, power of two and oracle "
        "have more than half of the pool in use.",
        options=("none", "max length alone", "max length and power of two", "all three"),
    ),
    Prediction(
        "5.1-gain",
        1.9,
        "More than twice as many requests run at once and share the reading of the weights. But each brings its own K "
        "and V to read, so a step takes longer too. What the table costs does not show.",
        unit="times",
        near=0.1,
    ),
)
