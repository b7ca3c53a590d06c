"""Exercises of lesson 3.1: count blocks, translate a position, predict four numbers. A pool and a table of one's own
are in `own_pool` and `own_table`.
"""

from pagedkv.course.judge.exercise import Exercise, calls, equals
from pagedkv.course.lesson_3_1.own_pool import POOL
from pagedkv.course.lesson_3_1.own_table import TABLE


def blocks_for(num_tokens, block_size):
    """Blocks that hold `num_tokens` tokens."""
    return -(-num_tokens // block_size)


def translate(blocks, block_size, position):
    """The address of a position: (logical block, offset, physical block, slot)."""
    logical_block, offset = divmod(position, block_size)
    return logical_block, offset, blocks[logical_block], blocks[logical_block] * block_size + offset


def _full_lengths(random):
    yield from ((length, size) for size in (1, 3, 16) for length in (3, 48, 96, 4800) if length % size == 0)
    yield from ((size * random.randrange(1, 99), size) for size in (2, 3, 5, 16))
    yield from ((blocks * 3, 3) for blocks in range(1, 7))


def _other_lengths(random):
    yield from ((length, size) for size in (3, 16) for length in (1, 5, 17, 50))
    yield from ((size * random.randrange(1, 99) + random.randrange(1, size), size) for size in (2, 3, 5, 16))
    yield from ((length, 4) for length in range(1, 20) if length % 4)


def _hidden_tables(random):
    yield [5, 9, 2], 4, 6
    yield from (([5, 9, 2], 3, position) for position in range(9))
    yield from (([1, 0, 2], 3, position) for position in range(9))
    for size in (1, 2, 8, 16, 32):
        blocks = random.sample(range(40, 400), 6)
        for _ in range(4):
            yield blocks, size, random.randrange(6 * size)


def _with_slot(slot):
    """`translate`, but with another formula for the slot."""

    def wrong(blocks, size, position):
        logical_block, offset, physical_block, _ = translate(blocks, size, position)
        return logical_block, offset, physical_block, slot(position, logical_block, offset, physical_block, size)

    return wrong


TRANSLATE_MISTAKES = [
    (_with_slot(lambda p, *_: p), "the slot is the position itself; where does the table come in?"),
    (
        _with_slot(lambda p, logical, offset, block, size: block + offset),
        "a block id is not a slot: block b begins at slot b × block size",
    ),
    (
        _with_slot(lambda p, logical, offset, block, size: block * size),
        "that is the block's first slot; the offset is missing",
    ),
    (
        _with_slot(lambda p, logical, offset, block, size: block * size + p),
        "add the offset inside the block, not the whole position",
    ),
    (_with_slot(lambda p, logical, offset, block, size: block * size + offset + 1), "slots and offsets count from 0"),
    (
        lambda blocks, size, p: (p // size, p % size, p // size, p),
        "the physical block is what the table says, not the logical block's number",
    ),
    (
        lambda blocks, size, p: (p % size, p // size, *translate(blocks, size, p)[2:]),
        "logical block and offset are swapped: the block is the quotient, the offset the remainder",
    ),
    (
        lambda blocks, size, p: tuple(translate(blocks, size, p)[i] for i in (0, 2, 1, 3)),
        "offset and physical block are exchanged: the order is (logical block, offset, physical block, slot)",
    ),
    (
        lambda blocks, size, p: tuple(translate(blocks, size, p)[i] for i in (2, 1, 0, 3)),
        "logical and physical block are exchanged: the order is (logical block, offset, physical block, slot)",
    ),
    (
        lambda blocks, size, p: (p // size, p % size, blocks[0] + p // size, blocks[0] * size + p),
        "the blocks need not follow one another: look each of them up in the table",
    ),
    (
        lambda blocks, size, p: translate(sorted(blocks), size, p),
        "the table is read in its own order, not in that of the ids",
    ),
    (
        lambda blocks, size, p: translate(blocks[:1] * len(blocks), size, p),
        "every position is looked up in the table's first entry; entry position // block size holds its block",
    ),
    (
        lambda blocks, size, p: translate(blocks, size, p)[3],
        "all four steps are expected: (logical block, offset, physical block, slot)",
    ),
]

EXERCISES = [
    Exercise(
        "3.1-blocks",
        "how many blocks hold n tokens",
        (
            calls(
                "lengths that fill their blocks",
                blocks_for,
                _full_lengths,
                mistakes=[
                    (
                        lambda n, b: n // b + 1,
                        "a full block needs no empty one behind it: blocks are taken when their first token arrives",
                    ),
                    (lambda n, b: n / b, "a count of blocks is a whole number; use // instead of /"),
                ],
            ),
            calls(
                "lengths that do not",
                blocks_for,
                _other_lengths,
                mistakes=[
                    (lambda n, b: n // b, "the last, partly filled block is missing: round up"),
                    (lambda n, b: round(n / b), "round up, not to the nearest"),
                    (
                        lambda n, b: n // b + (n % b > 1 or n < b),
                        "a block that holds a single token is taken as well",
                    ),
                    (lambda n, b: max(1, n // b), "the last, partly filled block is missing: round up"),
                    (
                        lambda n, b: -(-n // b) + 1,
                        "one block too many: the last one is taken when its first token comes",
                    ),
                ],
            ),
            calls(
                "no tokens",
                blocks_for,
                [(0, 1), (0, 16)],
                mistakes=[(lambda n, b: 1, "without tokens no block is taken")],
            ),
        ),
        only_with={"no tokens": "lengths that do not"},
    ),
    Exercise(
        "3.1-translate",
        "from a position to its slot",
        (
            calls(
                "the 50 tokens of the example",
                translate,
                lambda random: [
                    ([12, 7, 42, 3], 16, position) for position in (37, 0, 15, 16, 49, *random.sample(range(50), 8))
                ],
                mistakes=TRANSLATE_MISTAKES,
            ),
            calls("any table and block size", translate, _hidden_tables, mistakes=TRANSLATE_MISTAKES),
        ),
    ),
    Exercise(
        "3.1-predict",
        "four numbers, before you count",
        (
            equals(
                "blocks of a 2048-token sequence",
                128,
                of=0,
                mistakes=[
                    (127, "the last tokens need a block too: 2048 / 16 blocks are full"),
                    (129, "2048 is a multiple of 16, so the last block is full"),
                    (2048, "that is its slots"),
                ],
            ),
            equals(
                "empty slots in the last block of 50 tokens",
                14,
                of=1,
                mistakes=[
                    (2, "that many are filled; the rest are empty"),
                    (30, "three blocks are full, the fourth has 2"),
                    (13, "tokens 48 and 49 are two"),
                ],
            ),
            equals(
                "the most slots a sequence can waste",
                15,
                of=2,
                mistakes=[
                    (16, "a block without a token is not taken, so at least one slot of the last block is used"),
                    (8, "that is about the average; the most is asked for"),
                    (14, "that is what 50 tokens leave empty; another length leaves more"),
                ],
            ),
            equals(
                "sequences of 50 tokens in 983 blocks",
                245,
                of=3,
                mistakes=[
                    (19, "983 is a number of blocks, not of slots; a sequence takes whole blocks of it"),
                    (314, "blocks are given out, not slots: 50 tokens take four whole blocks"),
                    (246, "three blocks are left over, and a sequence takes four"),
                    (327, "50 tokens need a fourth block for the last two"),
                ],
            ),
        ),
    ),
    POOL,
    TABLE,
]
