"""Exercises of lesson 4.4: time from bytes; the changed rung is in `tiling`, the merge of split-KV in `merging`."""

from pagedkv.course.judge.exercise import Exercise, calls, equals
from pagedkv.course.lesson_4_4.merging import MERGE
from pagedkv.course.lesson_4_4.tiling import TILE


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
    TILE,
    MERGE,
]
