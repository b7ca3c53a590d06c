"""Predictions of lesson 5.2: what a wrong entry of a block table does, and to whom."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "5.2-errors",
        1,
        "Only an entry that names no block is noticed, and that on the CPU. The others name blocks that exist, and "
        "what lies in them are numbers like any others.",
        unit="of the four",
    ),
    Prediction(
        "5.2-destroyed",
        "nobody's yet",
        "No table names the free block, so nobody reads it. The token is lost all the same: through the right table A "
        "would not find it.",
        options=("A's", "B's", "A's and B's", "nobody's yet"),
    ),
    Prediction(
        "5.2-later",
        "only the second",
        "C writes its own tokens before it reads, over what A left. A's next token lands after that.",
        options=("neither", "only the first", "only the second", "both"),
    ),
    Prediction(
        "5.2-swaps",
        "the second and the third",
        "Two full blocks of one sequence may change places: a decode sums over tokens, in any order. In the last "
        "block the wrong slots would be masked; between A and B the wrong tokens are read.",
        options=("none", "the third alone", "the second and the third", "all three"),
    ),
)
