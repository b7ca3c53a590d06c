"""The exercise of lesson 4.4 whose kernel merges what the splits of a sequence hand over: normalised outputs and their
log-sum-exps.
"""

import random

from pagedkv.course.judge.exercise import Exercise
from pagedkv.course.judge.kernel import Case, Task, kernel_parts

DIM = 32


def parts_of_rows(sizes: list[list[int]], spread: float = 1.0, shift: float = 0.0, seed: int = 0) -> dict:
    """Arguments of `merge` for rows whose parts saw so many keys each; scores around `shift`."""
    import torch

    draw, splits = torch.Generator().manual_seed(seed), len(sizes[0])
    part = torch.zeros(len(sizes), splits, DIM)
    lse = torch.full((len(sizes), splits), -torch.inf)
    for row, keys in enumerate(sizes):
        for split, count in enumerate(keys):
            scores = torch.randn(count, generator=draw, dtype=torch.float64) * spread + shift
            if count:
                part[row, split] = (scores.softmax(0) @ torch.randn(count, DIM, generator=draw).double()).float()
                lse[row, split] = scores.logsumexp(0)
    return {
        "part": part,
        "part_lse": lse,
        "out": torch.full((len(sizes), DIM), -7.0),
        "splits": splits,
        "DIM": DIM,
        "SPLITS": 1 << (splits - 1).bit_length(),
    }


def _merged(arguments: dict, weights=lambda lse: lse.softmax(1)) -> dict:
    """The rows in float64; `weights` makes those of the parts from their log-sum-exps [rows, splits]."""
    part, lse = arguments["part"].double(), arguments["part_lse"].double()
    return {"out": (weights(lse)[:, :, None] * part).sum(1).float()}


def _hidden(arguments: dict) -> dict:
    """Lanes without a part come in with a log-sum-exp of 0."""
    import torch

    spare = arguments["SPLITS"] - arguments["splits"]

    def weights(lse):
        return torch.cat([lse, lse.new_zeros(len(lse), spare)], 1).softmax(1)[:, : arguments["splits"]]

    return _merged(arguments, weights)


def _slip(weights):
    return lambda arguments: _merged(arguments, weights)


def _rows(draw: random.Random) -> list[Case]:
    sizes = {
        "parts of very different size": [draw.randint(20, 40), 1, 2],
        "parts that saw nothing": [0, draw.randint(3, 9), 0],
        "a last part that saw nothing": [5, 3, 0],
    }
    order = draw.sample(list(sizes), len(sizes))
    three = parts_of_rows([sizes[name] for name in order], seed=draw.randrange(99))
    five = parts_of_rows([[4, 1, 7, 2, 9], [1, 1, 1, 1, 30]], seed=draw.randrange(99))
    large = parts_of_rows([[6, 2], [3, 8]], spread=900.0, shift=4000.0, seed=draw.randrange(99))
    small = parts_of_rows([[6, 2, 2], [3, 8, 1]], spread=900.0, shift=-4000.0, seed=draw.randrange(99))
    one = parts_of_rows([[7]], seed=draw.randrange(99))
    return [
        Case(three, rows=tuple(order)),
        Case(five, "five parts in eight lanes"),
        Case(large, "scores in the thousands"),
        Case(small, "scores far below zero"),
        Case(one, "a single part"),
    ]


OVERFLOW = (
    "e^lse overflows above 88 and is 0 far below: subtract the largest lse first. A lane without a part must be loaded "
    "as -inf, its numbers as 0"
)
PARTS = (
    "row r has its parts at (r · splits + split), each DIM numbers long, and only `splits` of the SPLITS lanes have one"
)

MERGE = Exercise(
    "4.4-merge",
    "merge the parts of split-KV",
    kernel_parts(
        "parts of a softmax",
        Task(
            grid=lambda arguments: (len(arguments["out"]),),
            right=_merged,
            mistakes=(
                (
                    _slip(lambda lse: lse.new_full(lse.shape, 1 / lse.shape[1])),
                    "each part counts alike here, however many keys it saw and however large their scores",
                ),
                (
                    _slip(lambda lse: (~lse.isinf()) / (~lse.isinf()).sum(1, keepdim=True)),
                    "each part that saw something counts alike here; its weight is e^lse",
                ),
                (_slip(lambda lse: lse.new_ones(lse.shape)), "the parts are added up, but they are averages already"),
                (
                    _slip(lambda lse: (lse - lse.amax(1, keepdim=True)).exp()),
                    "the weighted sum must be divided by the sum of the weights",
                ),
                (
                    _slip(lambda lse: (lse * 0.6931471805599453).softmax(1)),
                    "the log-sum-exps are natural logarithms: weights are e^lse, not 2^lse",
                ),
                (_hidden, "a lane without a part came in with an lse of 0, and e⁰ is 1: load it as -inf"),
                (
                    _slip(lambda lse: (lse == lse.amax(1, keepdim=True)).double()),
                    "that is the part of the largest lse alone",
                ),
                (_slip(lambda lse: (lse - lse.amax()).exp()), "each row has a largest lse, and a sum, of its own"),
            ),
            hints={
                ("nan", "out"): OVERFLOW,
                ("reads", "part", "behind"): PARTS,
                ("reads", "part_lse", "behind"): PARTS,
                ("reads", "part", "before"): PARTS,
                ("writes", "out", "behind"): "out has a row of DIM numbers for each program",
                ("writes", "out", "race"): "each program writes its own row of `out`",
                ("missing", "out"): "each program writes the DIM numbers of its row",
                ("wrong", "out"): f"a part's weight is e^lse over the sum of them; {PARTS}",
            },
        ),
        lambda: Case(parts_of_rows([[9, 5, 2], [1, 40, 6], [3, 3, 0], [8, 1, 1]])),
        _rows,
    ),
    needs="triton",
    in_order=True,
)
