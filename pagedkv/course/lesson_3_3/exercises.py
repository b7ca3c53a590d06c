"""Exercises of lesson 3.3: the blocks that parallel samples share. Copy-on-write is in `copy_on_write`, a leak in a
pool in `leak`, the names of blocks in `names`, what they find in `match`.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_3_3.copy_on_write import COW
from pagedkv.course.lesson_3_3.leak import LEAK
from pagedkv.course.lesson_3_3.match import MATCH
from pagedkv.course.lesson_3_3.names import NAMES


def blocks_with_sharing(prompt_tokens, generated, num_samples, block_size):
    """Blocks in use by samples that have each generated at least one token after one shared prompt."""
    shared = prompt_tokens // block_size
    return shared + num_samples * (-(-(prompt_tokens + generated) // block_size) - shared)


def _sharing_cases(random):
    for size in (4, 16):
        for _ in range(8):
            yield random.randint(1, 6 * size), random.randint(1, 4 * size), random.randint(2, 6), size
    yield from ((prompt, generated, 2, 3) for prompt in range(1, 7) for generated in range(1, 7))


def _full_block_cases(random):
    yield from ((32, 5, 4, 16), (16, 16, 2, 16), (8, 1, 3, 4))
    for _ in range(6):
        size = random.choice((4, 16))
        yield size * random.randint(1, 6), random.randint(1, 4 * size), random.randint(2, 6), size


SHARING_MISTAKES = [
    (lambda p, g, n, b: n * -(-(p + g) // b), "that is without sharing"),
    (
        lambda p, g, n, b: -(-p // b) + n * (-(-(p + g) // b) - -(-p // b)),
        "the prompt's last, partly filled block is not shared any more: each sample has written to its copy",
    ),
    (
        lambda p, g, n, b: p // b + n * -(-g // b),
        "the tokens that the prompt leaves in its last block are in every sample's copy too",
    ),
    (
        lambda p, g, n, b: -(-p // b) + n * -(-g // b),
        "new tokens go into the room of the last block first, not into a block of their own",
    ),
    (lambda p, g, n, b: n * (-(-(p + g) // b) - p // b), "the shared blocks are in use too, once"),
    (
        lambda p, g, n, b: blocks_with_sharing(p, g - 1, n, b),
        "all `generated` tokens are stored here, the last one too",
    ),
    (
        lambda p, g, n, b: blocks_with_sharing(p, g, n, b) + (p % b > 0),
        "the prompt's last block does not stay beside its copies: the last to write has it alone, and writes in it",
    ),
    (lambda p, g, n, b: -(-(p + g) // b), "samples share the prompt, but each has generated tokens of its own"),
    (
        lambda p, g, n, b: -(-p // b) + n * ((p + g) // b - p // b),
        "each sample's last, partly filled block is missing, and the prompt's is not shared any more",
    ),
    (
        lambda p, g, n, b: p // b + n * ((p + g) // b - p // b),
        "each sample's last, partly filled block is missing: round up",
    ),
]

EXERCISES = [
    Exercise(
        "3.3-shared",
        "the blocks that n samples take",
        (
            calls("a prompt of full blocks", blocks_with_sharing, _full_block_cases, mistakes=SHARING_MISTAKES),
            calls("any prompt", blocks_with_sharing, _sharing_cases, mistakes=SHARING_MISTAKES),
        ),
    ),
    COW,
    LEAK,
    NAMES,
    MATCH,
]
