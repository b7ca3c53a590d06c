"""Predictions of lesson 6.3: what a pool that is too small costs, and what the way back takes."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "6.3-again",
        61,
        "333 tokens lose their K and V and run again, on top of 547: the one that was admitted last has to go "
        "three times.",
        unit="%",
        near=0.25,
    ),
    Prediction(
        "6.3-back",
        "29",
        "All that is known runs: the 28 that were stored, and the token that was sampled last and has no K and V yet.",
        options=("1", "14", "28", "29"),
    ),
    Prediction(
        "6.3-steps",
        "the same",
        "A request needs the same blocks when it is back, so that who runs when does not change: what changes is what "
        "a step costs.",
        options=("fewer", "the same", "more"),
    ),
    Prediction(
        "6.3-grouped",
        "swapping, 4 times",
        "Per token Llama-3-8B has 0.6 of OPT-13B's parameters, but with 8 KV heads for 32 query heads 0.16 of its "
        "bytes.",
        options=("recomputing, 4 times", "recomputing, a little", "swapping, a little", "swapping, 4 times"),
    ),
    Prediction(
        "6.3-reserve",
        "about twice as many",
        "It sets aside what the limit allows, and most answers stop long before: max length of 2.2 again, in blocks.",
        options=("fewer", "10 % more", "about twice as many", "ten times as many"),
    ),
)
