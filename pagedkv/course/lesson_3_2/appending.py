"""The exercise of lesson 3.2 that appends: slots for new tokens, blocks only where one is due, all or nothing.

Its cases cover every remainder of tokens stored and tokens to come; the right answer goes token by token.
"""

import copy
from collections.abc import Iterator
from functools import partial

from pagedkv.block_pool import OutOfBlocks
from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, alike, same
from pagedkv.course.judge.exercise import Exercise, Part


def append(blocks, num_tokens, n, free_blocks, block_size):
    """Slots of the next `n` tokens; takes block ids from the end of `free_blocks` and adds them to `blocks`, all or
    none.
    """
    positions = range(num_tokens, num_tokens + n)
    requested = _due(num_tokens, n, block_size)
    if requested > len(free_blocks):
        raise OutOfBlocks(requested, len(free_blocks))
    for position in positions:
        if position % block_size == 0:
            blocks.append(free_blocks.pop())
    return [blocks[p // block_size] * block_size + p % block_size for p in positions]


def _due(num_tokens: int, n: int, block_size: int) -> int:
    """The new tokens that are the first of a block."""
    return sum(position % block_size == 0 for position in range(num_tokens, num_tokens + n))


def _observe(function, case):
    """(what the function returns or raises, its table, the free blocks) after one call on copies of the case."""
    case = copy.deepcopy(case)
    return _or_refusal(function, *case), case[0], case[3]


def _or_refusal(function, *inputs):
    try:
        return function(*inputs)
    except OutOfBlocks as error:
        return {"requested": error.requested, "free": error.free}


def _append_part(title, cases):
    def test(function):
        def mine(*case):
            return call(partial(_or_refusal, function), *case, changes=(0, 3), answer=function)

        try:
            seen = [_observe(mine, case) for case in cases]
        except Wrong as wrong:
            if "pop from empty list" in str(wrong):
                raise Wrong("more blocks are popped than are free: count first, and raise OutOfBlocks") from None
            raise
        right = [_observe(append, case) for case in cases]
        if alike(right, seen):
            return
        for wrong, sentence in APPEND_MISTAKES:
            if all(_behaves_like(wrong, case, outcome) for case, outcome in zip(cases, seen, strict=True)):
                raise Wrong(sentence)
        for case, outcome, mine in zip(cases, right, seen, strict=True):
            _compare(case, outcome, mine)

    return Part(title, test)


def _compare(case, right, mine) -> None:
    """Raise Wrong with what one call did otherwise."""
    (before, num_tokens, _, _, size), (result, blocks, free_blocks), (my_result, my_blocks, my_free) = case, right, mine
    if my_result is None:
        raise Wrong("it returns nothing; the slots of the new tokens are expected")
    raises, i_raise = isinstance(result, dict), isinstance(my_result, dict)
    if raises and not i_raise:
        raise Wrong("there are too few free blocks here, and OutOfBlocks must be raised")
    if i_raise and not raises:
        raise Wrong(ROOM if num_tokens % size else "it raises OutOfBlocks although the tokens fit")
    if raises and not alike((blocks, free_blocks), (my_blocks, my_free)):
        raise Wrong("when the blocks do not suffice, nothing may be taken: count first, then take")
    if my_blocks == before != blocks:
        raise Wrong("the table is as before: append to it in place")
    if sorted(my_blocks + my_free) != sorted(blocks + free_blocks):
        raise Wrong("after it some block is in the table and free at once, or in neither")
    if len(my_blocks) > len(blocks) and num_tokens % size:
        raise Wrong(ROOM)
    if len(my_blocks) != len(blocks):
        raise Wrong(f"the table ends up with too {'many' if len(my_blocks) > len(blocks) else 'few'} blocks")
    if not alike((blocks, free_blocks), (my_blocks, my_free)):
        raise Wrong("the table has the right length, but other blocks in it: take them from the end, with pop()")
    if raises and not alike(result, my_result):
        raise Wrong(
            "OutOfBlocks(requested, free) names the blocks that are missing in the table, and those that are free"
        )
    try:
        same(result, my_result)
    except Wrong as wrong:
        raise Wrong(f"the table is right, but of the slots returned {wrong}") from None


def _behaves_like(wrong, case, outcome) -> bool:
    try:
        return alike(_observe(wrong, case), outcome)
    except IndexError:  # it takes more blocks than there are
        return False


# The usual mistakes


def _always_one_more(blocks, num_tokens, n, free_blocks, block_size):
    result = append(blocks, num_tokens, n, free_blocks, block_size)
    if n and (num_tokens + n) % block_size == 0:
        blocks.append(free_blocks.pop())
    return result


def _without_the_room(blocks, num_tokens, n, free_blocks, block_size):
    old = len(blocks)
    for _ in range(-(-n // block_size)):
        blocks.append(free_blocks.pop())
    return [blocks[old + i // block_size] * block_size + i % block_size for i in range(n)]


def _all_slots(blocks, num_tokens, n, free_blocks, block_size):
    append(blocks, num_tokens, n, free_blocks, block_size)
    return [blocks[p // block_size] * block_size + p % block_size for p in range(num_tokens + n)]


def _one_too_far(blocks, num_tokens, n, free_blocks, block_size):
    return [slot + 1 for slot in append(blocks, num_tokens, n, free_blocks, block_size)]


def _logical(blocks, num_tokens, n, free_blocks, block_size):
    append(blocks, num_tokens, n, free_blocks, block_size)
    return list(range(num_tokens, num_tokens + n))


ROOM = "the room left in the last block must be used before a new block is taken"
APPEND_MISTAKES = [
    (_always_one_more, "a block that is exactly full needs no new one yet: take it when its first token arrives"),
    (_without_the_room, ROOM),
    (_all_slots, "the slots of all tokens are returned; those of the new tokens are expected"),
    (_one_too_far, "the slots are one too far; offsets count from 0"),
    (_logical, "those are positions; a slot is block id × block size + offset"),
]

# The cases

FREE = [9, 4, 13, 2, 11]
WITH_0 = [9, 4, 13, 2, 0]  # block 0 is a block, and the first to be taken


def _grid(wanted) -> Iterator[tuple]:
    """Every (tokens stored, tokens to come) up to some blocks in which `wanted(blocks due, tokens to come)`."""
    for size in (1, 3, 4):
        for num_tokens in range(size + 2):
            for n in range(2 * size + 2):
                if wanted(_due(num_tokens, n, size), n):
                    yield [5, 8, 1][: -(-num_tokens // size)], num_tokens, n, WITH_0, size


def _scarce() -> Iterator[tuple]:
    """The same with one free block too few, with none, and with just enough."""
    for *case, _, size in _grid(lambda due, n: due > 0):
        due = _due(*case[1:], size)
        yield from ((*case, WITH_0[:free], size) for free in {0, due - 1, due})


APPEND = Exercise("3.2-append", "append, with its boundary", (
    _append_part("inside the last block", [
        ([5], 1, 1, FREE, 4), ([5, 8], 5, 3, FREE, 4), ([5], 10, 4, FREE, 16), *_grid(lambda due, n: n and not due)]),
    _append_part("at the boundary", [
        ([], 0, 1, FREE, 4), ([5], 4, 1, FREE, 4), ([5], 3, 2, FREE, 4), ([5], 14, 4, FREE, 16),
        *_grid(lambda due, n: due == 1)]),
    _append_part("several blocks at once", [
        ([], 0, 9, FREE, 4), ([5], 2, 11, FREE[:3], 4), ([], 0, 3, FREE, 1), *_grid(lambda due, n: due > 1)]),
    _append_part("nothing to append", [
        ([], 0, 0, FREE, 4), ([5], 4, 0, FREE, 4), *_grid(lambda due, n: n == 0)]),
    _append_part("too few blocks: raise and change nothing", [
        ([5], 4, 9, [7, 3], 4), ([], 0, 5, [7], 4), ([5], 3, 2, [], 4), *_scarce()]),
), only_with={"nothing to append": "at the boundary"})  # fmt: skip
