"""Predictions of lesson 4.2: what adding, hiding, moving and rounding do to m, l and O."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "4.2-added",
        2,
        "Both blocks weigh the same in that sum, although a key of block 1 is e⁵ times as heavy as one of block 0. "
        "Each ℓ and O is relative to the maximum of its own block.",
        near=0.02,
    ),
    Prediction(
        "4.2-hidden",
        "both",
        "Already inside the block s - m is (-∞) - (-∞), which is NaN, whatever the state was before.",
        options=("neither", "that of the running state", "that of the empty state", "both"),
    ),
    Prediction(
        "4.2-base",
        "the maximum, 0 and -20",
        "Any base is right in exact arithmetic. In float32, +120 makes every weight 0, and -90 makes the sum infinite.",
        options=("only the maximum", "the maximum and 0", "the maximum, 0 and -20", "all five"),
    ),
    Prediction(
        "4.2-bits",
        "the tile sizes",
        "Addresses change no value and no order of sums. Another tile size groups the sums otherwise, and rounds them "
        "at other places.",
        options=("neither", "the places", "the tile sizes", "both"),
    ),
    Prediction(
        "4.2-counting",
        256,
        "bfloat16 has 8 significant bits: from 256 on the next number is 2 away, and adding 1 is rounded back.",
        unit="keys",
    ),
)
