"""Predictions of lesson 4.5: what limits the programs of a multiprocessor, what the last wave costs, what a cache does
to a benchmark, and what small blocks cost.
"""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "4.5-limit",
        "shared memory",
        "Registers would allow 4 programs and warps 16; K and V of two tiles on their way leave room for 3.",
        options=("registers", "shared memory", "warps"),
    ),
    Prediction(
        "4.5-slowest",
        "3 at once",
        "With 3 at once, 396 run in the first wave and 116 in a second one that leaves most of the card idle. With 5 "
        "at once there is one wave, with 2 there are two that are nearly full.",
        options=("5 at once", "3 at once", "2 at once"),
    ),
    Prediction(
        "4.5-cached",
        "about a fifth shorter",
        "34 MB of K and V fit into 63 MB of L2 cache, which serves most of the reads from the second call on.",
        options=("the same", "about a fifth shorter", "less than half"),
    ),
    Prediction(
        "4.5-blocks",
        "1 to 5 % slower",
        "One more table entry is read for each token: 4 bytes beside the 512 of its K and V in one head.",
        options=("as fast", "1 to 5 % slower", "twice as slow", "over ten times as slow"),
    ),
)
