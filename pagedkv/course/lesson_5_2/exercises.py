"""The chapter's three questions as exercises, in the order of the notebook; the first of them, from tokens to slots, is
here.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_5_2.merging import BREAK, DERIVATION, MERGE, PROPERTY
from pagedkv.course.lesson_5_2.suspects import FIND
from pagedkv.course.lesson_5_2.wrong_entry import DAMAGE, HARM, ORDER, ROLES_BY_CODE, ROLES_BY_WORD


def logical_blocks(tokens, block_size):
    return [tokens[first : first + block_size] for first in range(0, len(tokens), block_size)]


def block_table(num_tokens, block_size, free_blocks):
    return free_blocks[: -(-num_tokens // block_size)]


def slots(table, num_tokens, block_size):
    return [table[p // block_size] * block_size + p % block_size for p in range(num_tokens)]


def _draw_tokens(rng):
    for size in (1, 4, 16):
        for length in (0, 1, size, size + 1, 3 * size, 3 * size + rng.randrange(size)):
            yield [rng.randrange(1000) for _ in range(length)], size
    for length in range(8):
        yield list(range(length)), 3


def _draw_free(rng):
    drawn = [(len(tokens), size, rng.sample(range(300), 60)) for tokens, size in _draw_tokens(rng)]
    return [*drawn, (9, 4, [5, 0, 3, 1]), (4, 4, [0, 2])]  # block 0 is a block


def _draw_tables(rng):
    return [(block_table(*case), case[0], case[1]) for case in _draw_free(rng)]


DATA_FLOW = Exercise("5.2-data-flow", "from tokens to slots", (
    calls("logical blocks", logical_blocks, _draw_tokens, of=0, mistakes=(
        (lambda t, b: [t[i * b : i * b + b] for i in range(len(t) // b)],
         "the tokens of a last block that is not full are missing"),
        (lambda t, b: [t[i * b : i * b + b] for i in range(len(t) // b + 1)],
         "there is an empty block where the last one is full"),
        (lambda t, b: [(t[i : i + b] + [None] * b)[:b] for i in range(0, len(t), b)],
         "slots without a token are no tokens: do not pad"),
        (lambda t, b: [t[max(0, i - b) : i] for i in range((len(t) - 1) % b + 1, len(t) + 1, b)] if t else [],
         "the last block is the one that is not full, not the first"),
        (lambda t, b: [t[i :: -(-len(t) // b)] for i in range(-(-len(t) // b))],
         "the tokens are dealt out in turn; a block holds tokens that follow one another"),
        (lambda t, b: [[i // b for i in range(len(t))]], "a list of blocks is expected, each a list of its tokens"),
    )),
    calls("block table", block_table, _draw_free, of=1, mistakes=(
        (lambda n, b, f: f[: n // b], "a last block that is not full needs a physical block too"),
        (lambda n, b, f: f[: n // b + 1], "a block more than needed where the last one is full"),
        (lambda n, b, f: f[:n], "one entry for each token; there is one for each logical block"),
        (lambda n, b, f: list(range(-(-n // b))), "these are the logical blocks; which physical ones do they get?"),
        (lambda n, b, f: f[::-1][: -(-n // b)], "the blocks are taken from the front of free_blocks, in that order"),
        (lambda n, b, f: [f[0]] * -(-n // b), "every logical block needs a physical block of its own"),
        (lambda n, b, f: [f[0] + i for i in range(-(-n // b))],
         "the blocks need not follow one another: take each from free_blocks"),
        (lambda n, b, f: sorted(f)[: -(-n // b)],
         "any free block will do, so take them in the order of free_blocks, unsorted"),
    )),
    calls("slots", slots, _draw_tables, of=2, points=2, mistakes=(
        (lambda t, n, b: list(range(n)), "these are positions; where does the table come in?"),
        (lambda t, n, b: [t[p // b] for p in range(n)],
         "these are the physical blocks; the slot says which place in the block"),
        (lambda t, n, b: [t[p // b] + p % b for p in range(n)], "block k begins at slot k × block size, not at slot k"),
        (lambda t, n, b: [x * b + i for x in t for i in range(b)],
         "slots of the last block that hold no token are not asked for"),
        (lambda t, n, b: [t[0] * b + p for p in range(n)],
         "the blocks need not follow one another: look each of them up in the table"),
        (lambda t, n, b: slots(t, n // b * b, b), "the tokens of a last block that is not full are missing"),
        (lambda t, n, b: slots(t, n - b if n % b == 0 < n else n, b),
         "n % block_size is 0 where the last block is full, and all of it counts"),
        (lambda t, n, b: [t[p // b] * b + p for p in range(n)], "add the offset in the block, not the position"),
    )),
))  # fmt: skip


EXERCISES = (DATA_FLOW, ROLES_BY_WORD, ROLES_BY_CODE, ORDER, DAMAGE, HARM, FIND, DERIVATION, MERGE, PROPERTY, BREAK)
