"""The kernel of lesson 4.3 in which a query attends to one block."""

import math
import random

from pagedkv.course.judge.exercise import Exercise
from pagedkv.course.judge.kernel import Case, Task, kernel_parts


def one_block(count: int, heads: int = 2, block: int = 16, dim: int = 32, size: float = 1.0, seed: int = 0) -> dict:
    """Arguments of `attend_block` for a query per head over the first `count` tokens of a block; its other slots are
    NaN. `size` scales the query, and with it the scores.
    """
    import torch

    draw = torch.Generator().manual_seed(seed)
    k, v = torch.full((2, block, heads, dim), math.nan, dtype=torch.float16)
    for tensor in (k, v):
        tensor[:count] = torch.randn(count, heads, dim, generator=draw)
    return {
        "q": (size * torch.randn(heads, dim, generator=draw)).half(),
        "k": k,
        "v": v,
        "out": torch.full((heads, dim), -7.0),
        "count": count,
        "scale": 0.25,
        "BLOCK": block,
        "DIM": dim,
    }


def attend(q, k, v, scale, *, hidden=0, weigh=True, divide=True, mean=False):
    """Attention of q [dim] over k, v [tokens, dim] in float64, or what usual slips make of it. `hidden` tokens of score
    0 and value 0 take part.
    """
    import torch

    scores = (k.double() @ q.double()) * scale
    base = scores.max().clamp(min=0.0) if hidden else scores.max()
    weights = torch.exp(scores - base) if not mean else torch.ones_like(scores)
    total = weights.sum() + hidden * torch.exp(-base)
    out = weights @ v.double() if weigh else v.double().sum(0)
    return (out / total if divide else out).float()


def _of_block(arguments: dict, **slips) -> dict:
    import torch

    q, k, v, count = (arguments[name] for name in ("q", "k", "v", "count"))
    hidden = arguments["BLOCK"] - count if slips.pop("hidden", False) else 0
    scale = slips.pop("scale", arguments["scale"])
    if slips.pop("heads outside", False):
        k, v = (x.reshape(len(q), -1, arguments["DIM"]).transpose(0, 1) for x in (k, v))
    heads = [attend(q[h], k[:count, h], v[:count, h], scale, hidden=hidden, **slips) for h in range(len(q))]
    return {"out": torch.stack(heads)}


def _counts(draw: random.Random) -> list[Case]:
    drawn = (
        ("one token", 1, 3, 1.0),
        ("a block that lacks one token", 15, 2, 1.0),
        ("a full block", 16, 1, 1.0),
        ("a query of large numbers", draw.randint(5, 11), 2, 200.0),
    )
    return [Case(one_block(n, heads, size=size, seed=draw.randrange(99)), words) for words, n, heads, size in drawn]


LAYOUT = "in k and v the heads lie inside a slot: (slot · heads + head) · DIM"

BLOCK = Exercise(
    "4.3-block",
    "attend to one block",
    kernel_parts(
        "one block",
        Task(
            grid=lambda arguments: (len(arguments["q"]),),
            right=_of_block,
            mistakes=(
                (
                    lambda arguments: _of_block(arguments, hidden=True),
                    "hidden tokens got the score 0, and with it a weight: their score must be -inf",
                ),
                (
                    lambda arguments: _of_block(arguments, **{"heads outside": True}),
                    f"{LAYOUT}; here the slots of a head lie together",
                ),
                (lambda arguments: _of_block(arguments, scale=1.0), "that is attention without the scale"),
                (
                    lambda arguments: _of_block(arguments, divide=False),
                    "the weighted sum is not divided by the sum of the weights",
                ),
                (lambda arguments: _of_block(arguments, mean=True), "that is the plain mean of the values"),
                (
                    lambda arguments: _of_block(arguments, weigh=False, divide=False),
                    "the values are added up without their weights",
                ),
            ),
            hints={
                (
                    "nan",
                    "out",
                ): "a value that is NaN stays NaN under a weight of 0, so a hidden value must be loaded as "
                "a number; and large scores overflow unless their maximum is subtracted",
                ("reads", "k", "behind"): LAYOUT,
                ("reads", "v", "behind"): LAYOUT,
                ("reads", "q", "behind"): "q has a row for each head",
                ("writes", "out", "behind"): "out has a row for each head",
                ("writes", "out", "race"): "out has a row for each head, and each program writes its own",
                ("wrong", "out"): f"do all seen tokens, and no others, take part, in float32? {LAYOUT}",
                ("missing", "out"): "each program writes all DIM numbers of the row of its head",
            },
        ),
        lambda: Case(one_block(11)),
        _counts,
    ),
    needs="triton",
    in_order=True,
)
