"""Exercises of lesson 4.3: a masking fault in a kernel, offsets in 32 and 64 bits, the merge of split-KV, and time from
bytes.
"""

import math

from pagedkv.course.judge.compare import SINGLE, Wrong
from pagedkv.course.judge.exercise import Exercise, Part, calls, equals
from pagedkv.course.lesson_4_3.masking import MASKING

# Offsets


def offset(block_id, slot, head, dim, block_size, num_kv_heads, head_dim, bits):
    """The element offset of (block, slot, head, dim) in the pool, as a signed register of `bits` bits holds it."""
    exact = ((block_id * block_size + slot) * num_kv_heads + head) * head_dim + dim
    return (exact + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def first_wrong_block(block_size, num_kv_heads, head_dim):
    """The smallest block id that holds an element whose offset does not fit into 32 bits."""
    return 2**31 // (block_size * num_kv_heads * head_dim)


def _offset_cases(bits: int):
    def draw(random):
        for block_size, heads, head_dim in ((16, 8, 128), (1, 71, 64), (32, 1, 128), (256, 40, 256)):
            edge = first_wrong_block(block_size, heads, head_dim)
            for block_id in (0, edge - 1, edge, edge + 1, 2 * edge, 2 * edge + 1, 5 * edge):
                inside = (random.randrange(block_size), random.randrange(heads), random.randrange(head_dim))
                yield block_id, *inside, block_size, heads, head_dim, bits

    return draw


def _pool_shapes(random):
    yield from ((16, 8, 128), (1, 71, 64), (32, 1, 128), (256, 40, 256), (16, 3, 80))
    yield from ((size, random.randrange(1, 99), random.choice((48, 64, 192))) for size in (8, 64))


def _byte_offset(*case):
    return offset(*case[:-1], 64) * 2


def _head_first(block_id, slot, head, dim, block_size, num_kv_heads, head_dim, bits):
    return offset(block_id, head, slot, dim, num_kv_heads, block_size, head_dim, bits)


def _unsigned(*case):
    return offset(*case[:-1], 64) % 2**32


# The merge


def merge(outputs, lses):
    """Outputs [splits, heads, head_dim] and log-sum-exps [splits, heads] of parts of the keys -> those of all keys."""
    import torch

    top = lses.amax(0)
    weights = torch.exp(lses - torch.where(top.isinf(), 0.0, top))  # [splits, heads]
    total = weights.sum(0)
    merged = (weights[..., None] * outputs).sum(0) / torch.where(total == 0, 1.0, total)[..., None]
    return merged, top + torch.log(total)


def _parts(seed: int, sizes: tuple[int, ...], size_of_scores: float = 1.0):
    """Softmax-weighted values over pieces of `sizes` keys, for 3 heads of 4: (outputs, lses), in float64."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    outputs, lses = [], []
    for keys in sizes:
        scores = torch.randn(3, keys, generator=draw, dtype=torch.float64) * size_of_scores
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


def _merge_part(title: str, *cases, mistakes=()) -> Part:
    part = calls(
        title, merge, lambda _: [_parts(seed, *case) for seed, case in enumerate(cases)], mistakes=mistakes, rtol=SINGLE
    )

    def test(function):
        try:
            part.test(function)
        except Wrong as wrong:
            raise Wrong(str(wrong).replace("a tuple is expected", "a tuple (output, lse) is expected")) from None

    return Part(title, test)


# Time from bytes


def predict_us(lengths, num_kv_heads, head_dim, dtype_bytes, gb_s):
    """The µs that the attention of a decode step needs at least: K and V, once, at `gb_s` GB/s (10⁹ bytes a second)."""
    return sum(lengths) * num_kv_heads * head_dim * 2 * dtype_bytes / gb_s / 1e3


def _predict_cases(random):
    for heads, head_dim, dtype_bytes in ((8, 128, 2), (1, 128, 2), (8, 64, 1), (32, 256, 4)):
        lengths = [random.randint(1, 9000) for _ in range(random.randint(2, 40))]
        yield lengths, heads, head_dim, dtype_bytes, random.choice((900, 2000, 4500.5))


def _padded(lengths, *rest):
    return predict_us([max(lengths)] * len(lengths), *rest)


def _scaled(factor: float):
    return lambda *case: predict_us(*case) * factor


EXERCISES = [
    MASKING,
    Exercise(
        "4.3-offsets",
        "offsets in 32 and in 64 bits",
        (
            calls(
                "offsets in 64 bits",
                offset,
                _offset_cases(64),
                of=0,
                mistakes=[
                    (_byte_offset, "that is the offset in bytes of fp16"),
                    (
                        _head_first,
                        "that is a pool [num_blocks, num_kv_heads, block_size, head_dim]; here the slot comes before "
                        "the head",
                    ),
                ],
            ),
            calls(
                "offsets in 32 bits",
                offset,
                _offset_cases(32),
                of=0,
                mistakes=[
                    (
                        lambda *case: offset(*case[:-1], 64),
                        "nothing wraps here; what follows 2³¹ - 1 in a signed register of 32 bits?",
                    ),
                    (_unsigned, "an unsigned register wraps like this; a signed one goes on at -2³¹"),
                ],
            ),
            calls(
                "the first block that 32 bits cannot reach",
                first_wrong_block,
                _pool_shapes,
                of=1,
                mistakes=[
                    (lambda *case: 2**32 // math.prod(case), "half of the 32-bit range is negative"),
                    (lambda *case: 2**31 // math.prod(case) - 1, "that block's last element still fits, if only just"),
                    (lambda *case: 2**31 // math.prod(case) // 2, "offsets count elements, not bytes"),
                ],
            ),
        ),
    ),
    Exercise(
        "4.3-merge",
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
                        "the output is right; the merged log-sum-exp is to base 2, and the natural logarithm is "
                        "asked for",
                    ),
                    (_largest, "the output is right; the merged log-sum-exp is more than the largest of the parts"),
                ],
            ),
            _merge_part("any number of parts", ((7,),), ((3, 1, 4, 1, 5, 9, 2),), (tuple(range(1, 33)),)),
            _merge_part("parts that saw nothing", ((6, 0, 2),), ((0, 0, 5, 0),)),
            _merge_part("no part saw anything", ((0, 0, 0),)),
            _merge_part("scores in the thousands", ((9, 5, 3), 4000.0), ((2, 8), 9000.0)),
        ),
        only_with={"no part saw anything": "two parts"},
    ),
    Exercise(
        "4.3-predict",
        "predict the time of the attention of a decode step",
        (
            calls(
                "µs from bytes",
                predict_us,
                _predict_cases,
                of=0,
                mistakes=[
                    (_padded, "only the tokens that are there are read; nothing is padded to the longest"),
                    (_scaled(0.5), "K and V are read, not one of them"),
                    (_scaled(2), "each byte is read once"),
                    (_scaled(1e-3), "that is in ms"),
                    (_scaled(1e-6), "that is in seconds"),
                    (_scaled(1e9 / 2**30), "a GB is 10⁹ bytes; 2³⁰ is a GiB"),
                ],
            ),
            equals(
                "twice the query heads",
                1.0,
                of=1,
                mistakes=[(2.0, "query heads of a group share K and V; are more bytes read?")],
            ),
            equals("four times the KV heads", 4.0, of=2, mistakes=[(1.0, "each KV head has K and V of its own")]),
        ),
        only_with={
            "twice the query heads": "four times the KV heads",
            "four times the KV heads": "twice the query heads",
        },
    ),
]
