"""Predictions of lesson 3.3: what a fork copies, what samples share, what a cache finds."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "3.3-copies",
        "B alone",
        "B comes first and writes to its copy. Then A is the only owner of the old block, and writes in place.",
        options=("neither", "A alone", "B alone", "both"),
    ),
    Prediction(
        "3.3-samples",
        22,
        "The prompt's two full blocks are there once. Each of four samples has five of its own, the copy of the third "
        "among them.",
        unit="blocks",
    ),
    Prediction(
        "3.3-again",
        "0, then 4, then 4",
        "The last token is always computed, since its output is what the caller waits for; so the block that it "
        "is in is computed too.",
        options=("0, then 8, then 8", "0, then 7, then 7", "0, then 4, then 4", "0 each time"),
    ),
    Prediction(
        "3.3-turns",
        88,
        "Every turn sends all earlier ones again. Computed are only the new message and what lies in partly "
        "filled blocks.",
        unit="%",
        near=0.1,
    ),
)
