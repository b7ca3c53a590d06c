"""Predictions of lesson 6.2: places in use, what is pending after chunks, the best budget, whether a request fits."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "6.2-useful",
        58,
        "A batch lasts as long as its longest answer. The others have ended, and their rows wait for it.",
        unit="%",
        near=0.08,
    ),
    Prediction(
        "6.2-pending",
        1,
        "8 of 9 are stored, one is left. Whether the prompt's last token or a sampled one is run next, the engine does "
        "the same: prefill and decode are one number.",
        unit="tokens",
    ),
    Prediction(
        "6.2-budget",
        "24",
        "Less, and the long prompt takes too many steps, each of which has its fixed cost. More, and seven others wait "
        "for one, at every step.",
        options=("24", "96", "512", "no budget at all"),
    ),
    Prediction(
        "6.2-fits",
        "8 are accepted, 9 are refused",
        "The last token that is sampled is never run, so it needs no slot: 33 + 8 - 1 = 40 slots, which is the pool.",
        options=(
            "8 are accepted, 9 are accepted",
            "8 are accepted, 9 are refused",
            "8 are refused, 9 are refused",
        ),
    ),
)
