"""The exercise of lesson 4.4 that merges what the splits of a sequence hand over: normalised outputs and their
log-sum-exps.
"""

import math

from pagedkv.course.judge.compare import SINGLE, Wrong
from pagedkv.course.judge.exercise import Exercise, Part, calls


def merge(outputs, lses):
    """Outputs [splits, heads, head_dim] and log-sum-exps [splits, heads] of parts of the keys -> those of all keys."""
    import torch

    top = lses.amax(0)
    weights = torch.exp(lses - torch.where(top.isinf(), 0.0, top))  # [splits, heads]
    total = weights.sum(0)
    merged = (weights[..., None] * outputs).sum(0) / torch.where(total == 0, 1.0, total)[..., None]
    return merged, top + torch.log(total)


def _parts(seed: int, sizes: tuple[int, ...], size_of_scores: float = 1.0, shift: float = 0.0):
    """Softmax-weighted values over pieces of `sizes` keys, for 3 heads of 4: (outputs, lses), in float64."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    outputs, lses = [], []
    for keys in sizes:
        scores = torch.randn(3, keys, generator=draw, dtype=torch.float64) * size_of_scores + shift
        values = torch.randn(3, keys, 4, generator=draw, dtype=torch.float64)
        lses.append(torch.logsumexp(scores, 1))
        outputs.append(torch.einsum("hk,hkd->hd", scores.softmax(1) if keys else scores, values))
    return torch.stack(outputs), torch.stack(lses)


def _mean(outputs, lses):
    return outputs.mean(0), merge(outputs, lses)[1]


def _unweighted_sum(outputs, lses):
    return outputs.sum(0), merge(outputs, lses)[1]


def _not_normalised(outputs, lses):
    return (lses.exp()[..., None] * outputs).sum(0), merge(outputs, lses)[1]


def _largest(outputs, lses):
    return merge(outputs, lses)[0], lses.amax(0)


def _base_two(outputs, lses):
    merged, lse = merge(outputs, lses)
    return merged, lse / math.log(2)


def _large_divisor(outputs, lses):
    """Guards 0 / 0 by a divisor of at least 1, which is right only once the largest lse was subtracted."""
    weights = lses.exp()
    return (weights[..., None] * outputs).sum(0) / weights.sum(0).clamp(min=1.0)[..., None], merge(outputs, lses)[1]


def _two_by_two(outputs, lses):
    """The mean of what is there and the next part, on and on."""
    output = outputs[0]
    for other in outputs[1:]:
        output = (output + other) / 2
    return output, merge(outputs, lses)[1]


def _one_maximum(outputs, lses):
    """Right weights, but the log-sum-exp stays at the base that was subtracted."""
    return merge(outputs, lses)[0], merge(outputs, lses)[1] - lses.amax(0)


def _weighted_by_lse(outputs, lses):
    return (lses[..., None] * outputs).sum(0) / lses.sum(0)[..., None], merge(outputs, lses)[1]


def _over_heads(outputs, lses):
    return (lses.softmax(1)[..., None] * outputs).sum(0), merge(outputs, lses)[1]


def _powers_of_two(outputs, lses):
    return merge(outputs, lses * math.log(2))[0], merge(outputs, lses)[1]


def _one_for_all_heads(outputs, lses):
    """The largest lse of all heads is subtracted: those far below it are left with weights of 0."""
    import torch

    top = lses.max()
    weights = torch.exp(lses - top)
    total = weights.sum(0)
    return (weights[..., None] * outputs).sum(0) / torch.where(total == 0, 1.0, total)[..., None], top + total.log()


def _summed_lse(outputs, lses):
    return merge(outputs, lses)[0], lses.sum(0)


def _merge_part(
    title: str, *cases, mistakes=(), not_finite="NaN or infinity: a part that saw nothing counts 0"
) -> Part:
    part = calls(
        title, merge, lambda _: [_parts(seed, *case) for seed, case in enumerate(cases)], mistakes=mistakes, rtol=SINGLE
    )

    def test(function):
        try:
            part.test(function)
        except Wrong as wrong:
            if "not finite" in str(wrong):
                raise Wrong(not_finite) from None
            raise Wrong(str(wrong).replace("a tuple is expected", "a tuple (output, lse) is expected")) from None

    return Part(title, test)


SEVERAL = (
    (_mean, "each part counts alike here, however many keys it saw and however large their scores"),
    (_two_by_two, "the last part counts half here; weights are e^lse, and what is merged carries the sum of its parts"),
    (lambda outputs, lses: merge(outputs[:2], lses[:2]), "only the first two parts are merged"),
    (_large_divisor, "the divisor is kept from falling below 1, but a sum of e^lse may be any positive number"),
)

MERGE = Exercise(
    "4.4-merge",
    "merge the parts of split-KV",
    (
        _merge_part(
            "two parts",
            ((9, 5),),
            ((1, 40),),
            mistakes=[
                (_mean, "each part counts alike here, however many keys it saw and however large their scores"),
                (_unweighted_sum, "that adds the parts' outputs up, but they are averages already"),
                (_not_normalised, "the weighted sum must be divided by the sum of the weights"),
                (
                    _base_two,
                    "the output is right; the merged log-sum-exp is to base 2, and the natural logarithm is asked for",
                ),
                (_one_maximum, "the output is right; the largest lse that was subtracted is missing in the merged one"),
                (_summed_lse, "the output is right; log-sum-exps are logarithms, and what is added are the sums"),
                (_over_heads, "the weights are normalised over the heads; within each head they are over the splits"),
                (_powers_of_two, "the lses are natural logarithms: weights are e^lse, not 2^lse"),
                (_weighted_by_lse, "a part's weight is e^lse, not its lse"),
                (_largest, "the output is right; the merged log-sum-exp is more than the largest of the parts"),
            ],
        ),
        _merge_part(
            "any number of parts",
            ((7,),),
            ((3, 1, 4, 1, 5, 9, 2),),
            (tuple(range(1, 33)),),
            ((4, 3, 2), 1.0, -20.0),
            mistakes=SEVERAL,
        ),
        _merge_part("parts that saw nothing", ((6, 0, 2),), ((0, 0, 5, 0),)),
        _merge_part(
            "no part saw anything",
            ((0, 0, 0),),
            not_finite="NaN or infinity where no part saw anything: (-inf) - (-inf) is NaN, and so is 0 divided by "
            "weights that add up to 0",
        ),
        _merge_part(
            "scores in the thousands",
            ((9, 5, 3), 4000.0),
            ((2, 8), 9000.0),
            mistakes=[(_one_for_all_heads, "subtract the largest lse of each head: below another's its weights are 0")],
            not_finite="e^lse overflows above 88 (709 in float64) and is 0 far below: subtract the largest lse first",
        ),
    ),
    only_with={"no part saw anything": "two parts"},
)
