"""Predictions of lesson 6.5: calls of a part, what a lost block spoils, which sign comes first, what paging saves."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "6.5-calls",
        80,
        "Four requests, each with one query in each of 4 heads, in each of 5 layers. That is why a kernel takes all of "
        "a layer in one launch.",
        unit="calls",
    ),
    Prediction(
        "6.5-lost",
        0,
        "A lost block is nobody's, so nobody reads it. A leak costs room, more with each victim, and spoils nothing: "
        "tests that look at tokens never see it.",
        unit="tokens",
    ),
    Prediction(
        "6.5-first",
        "its blocks, steps before",
        "A block that is free too early still holds what it held. Tokens go wrong when somebody else has taken it and "
        "written into it.",
        options=("a token", "both in one step", "its blocks, steps before"),
    ),
    Prediction(
        "6.5-oracle",
        12,
        "The oracle holds each request's whole length from its first step on, and in one piece. Not to hold what is "
        "not needed yet is worth more than knowing the length.",
        unit="%",
        near=0.25,
    ),
)
