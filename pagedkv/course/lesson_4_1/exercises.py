"""Exercises of lesson 4.1: what a query sees of a block; attention that reads by block is in `reading`."""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_4_1.reading import DECODE, PREFILL

# What a query sees


def blocks_read(position, block_size):
    return position // block_size + 1


def seen(position, logical, block_size):
    return [logical * block_size + slot <= position for slot in range(block_size)]


def _position_cases(random):
    for block_size in (1, 4, 16):
        for position in (
            0,
            1,
            block_size - 1,
            block_size,
            2 * block_size - 1,
            2 * block_size,
            random.randrange(5 * block_size),
        ):
            yield position, block_size
    yield from ((position, 3) for position in range(8))


def _slot_cases(random):
    for position, block_size in _position_cases(random):
        for logical in {0, position // block_size, position // block_size + 1}:
            yield position, logical, block_size


SEEN = Exercise("4.1-seen", "what a query sees of each block", (
    calls("how many blocks", blocks_read, _position_cases, mistakes=(
        (lambda p, b: p // b, "the query sees itself: position p means p + 1 tokens"),
        (lambda p, b: -(-p // b), "the query sees itself: position p means p + 1 tokens"),
        (lambda p, b: (p + 1) // b, "a block that is read in part is read too: round up"),
        (
            lambda p, b: (p + 1) // b + 1,
            "where the query is the last slot of its block, this counts one block too many",
        ),
        (lambda p, b: p + 1, "this counts tokens; a block holds block_size of them"),
        (lambda p, b: max(1, -(-p // b)), "where the query is the first slot of its block, that block is missing"),
        (lambda p, b: 1, "this is the query's own block; the earlier ones are read too"),
    ), of=0),
    calls("which slots of a block", seen, _slot_cases, mistakes=(
        (lambda p, j, b: [j * b + t < p for t in range(b)], "a query sees its own token too"),
        (lambda p, j, b: [t <= p for t in range(b)], "compare positions in the sequence, not slots in the block"),
        (
            lambda p, j, b: [t <= p % b for t in range(b)],
            "this is right in the query's own block only; earlier blocks are seen whole",
        ),
        (lambda p, j, b: [j * b + t <= p + 1 for t in range(b)], "this lets the next token through"),
        (lambda p, j, b: [j * b + t > p for t in range(b)], "this is the opposite: True is for what is hidden"),
        (lambda p, j, b: [j < p // b or t <= p % b for t in range(b)],
         "a block that is later than the query's own is hidden whole"),
        (lambda p, j, b: [j == p // b and t <= p % b for t in range(b)],
         "the blocks before the query's own are seen whole"),
        (lambda p, j, b: [j <= p // b] * b, "of the query's own block only the slots up to its position are seen"),
    ), of=1),
))  # fmt: skip

EXERCISES = (SEEN, DECODE, PREFILL)
