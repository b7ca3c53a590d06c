"""Exercises of lesson 4.4: offsets in 32 and 64 bits, and time from bytes; a masking fault in a kernel is in `masking`,
the merge of split-KV in `merging`.
"""

import math

from pagedkv.course.judge.exercise import Exercise, calls, equals
from pagedkv.course.lesson_4_4.masking import MASKING
from pagedkv.course.lesson_4_4.merging import MERGE

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


def _one_head(block_id, slot, head, dim, block_size, num_kv_heads, head_dim, bits):
    return block_id * block_size * num_kv_heads * head_dim + slot * head_dim + head * head_dim + dim


def _start_of_the_block(block_id, slot, head, dim, *shape):
    return offset(block_id, 0, 0, 0, *shape)


def _wraps_once(*case):
    exact = offset(*case[:-1], 64)
    return exact - 2**32 if exact >= 2**31 else exact


def _unsigned(*case):
    return offset(*case[:-1], 64) % 2**32


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
        "4.4-offsets",
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
                    (_one_head, "a slot holds num_kv_heads heads, so a step from slot to slot is longer than head_dim"),
                    (_start_of_the_block, "that is where the block starts; slot, head and dim are to be added"),
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
                    (_wraps_once, "2³² is taken off once; a register drops every multiple of it"),
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
                    (
                        lambda *case: -(-(2**31) // math.prod(case)),
                        "that block starts beyond; the one before may already hold an element that does not fit",
                    ),
                ],
            ),
        ),
    ),
    MERGE,
    Exercise(
        "4.4-predict",
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
                    (
                        lambda lengths, *rest: predict_us([max(lengths)], *rest),
                        "that is the longest sequence alone; the card reads K and V of all of them",
                    ),
                    (
                        lambda lengths, *rest: predict_us([sum(lengths) / len(lengths)], *rest),
                        "that is one sequence of the mean length; the card reads K and V of all of them",
                    ),
                    (
                        lambda lengths, *rest: predict_us([len(lengths)], *rest),
                        "one token of each sequence is read here; a query attends to all stored tokens",
                    ),
                    (_scaled(1e-3), "that is in ms"),
                    (_scaled(1e-6), "that is in seconds"),
                    (_scaled(1e9 / 2**30), "a GB is 10⁹ bytes; 2³⁰ is a GiB"),
                ],
            ),
            equals(
                "twice the query heads",
                1.0,
                of=1,
                mistakes=[
                    (0.5, "nothing becomes faster by more queries; are fewer bytes read?"),
                    (2.0, "query heads of a group share K and V; are more bytes read?"),
                ],
            ),
            equals(
                "four times the KV heads",
                4.0,
                of=2,
                mistakes=[
                    (16.0, "K and V grow each in proportion to the KV heads, not with their square"),
                    (1.0, "each KV head has K and V of its own"),
                ],
            ),
        ),
        only_with={
            "twice the query heads": "four times the KV heads",
            "four times the KV heads": "twice the query heads",
        },
    ),
]
