"""Predictions of lesson 2.1: what a cache spares, what a token takes, and how full a reservation gets."""

from pagedkv.course.judge.prediction import Prediction

PREDICTIONS = (
    Prediction(
        "2.1-kept",
        "about 100 times",
        "Without a cache each of the 162 steps computes all tokens so far, 118 on average; with one, each token is "
        "computed once: 19,197 against 199.",
        options=("about 10 times", "about 100 times", "about 1,000 times"),
    ),
    Prediction(
        "2.1-largest",
        "OPT-13B",
        "It keeps K and V of 40 heads in each of its 40 layers; Llama-3-70B has twice the layers, and keeps 8 heads.",
        options=("OPT-13B", "Llama-2-7B", "Llama-3-8B", "Llama-3-70B"),
    ),
    Prediction(
        "2.1-window",
        "Llama-3-8B, 5 times as much",
        "29 of Gemma's 34 layers stop growing at 1,024 tokens; all 32 of Llama's go on.",
        options=("Gemma-3-4B, a little more", "about the same", "Llama-3-8B, 5 times as much"),
    ),
    Prediction(
        "2.1-full",
        "less than half",
        "The longest request decides for all: 2,048 slots for 501, 857 and 957 tokens on average, 24 to 47 %.",
        options=("less than half", "half to three quarters", "more than that"),
    ),
)
