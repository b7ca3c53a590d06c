"""Exercises of lesson 3.2: append with its boundary, the table of slots, and a write that skips padding."""

import copy

from pagedkv.block_pool import OutOfBlocks
from pagedkv.course.judge.compare import Wrong, alike, same
from pagedkv.course.judge.exercise import Exercise, Part, call, calls

# append


def append(blocks, num_tokens, n, free_blocks, block_size):
    """Slots of the next `n` tokens; takes block ids from the end of `free_blocks` and adds them to `blocks`, all or
    none.
    """
    needed = -(-(num_tokens + n) // block_size) - len(blocks)
    if needed > len(free_blocks):
        raise OutOfBlocks(needed, len(free_blocks))
    for _ in range(needed):
        blocks.append(free_blocks.pop())
    return [blocks[p // block_size] * block_size + p % block_size for p in range(num_tokens, num_tokens + n)]


def _observe(function, case):
    """(what the function returns or raises, its table, the free blocks) after one call on copies of the case."""
    blocks, num_tokens, n, free_blocks, size = copy.deepcopy(case)

    def guarded(*inputs):
        try:
            return function(*inputs)
        except OutOfBlocks as error:
            return {"needed": error.requested, "available": error.free}

    result = call(guarded, blocks, num_tokens, n, free_blocks, size, changes=(0, 3))
    return result, blocks, free_blocks


def _append_part(title, cases):
    def test(function):
        seen = [_observe(function, case) for case in cases]
        right = [_observe(append, case) for case in cases]
        if alike(right, seen):
            return
        for wrong, sentence in APPEND_MISTAKES:
            if _behaves_like(wrong, cases, seen):
                raise Wrong(sentence)
        for case, (result, blocks, free_blocks), (my_result, my_blocks, my_free) in zip(
            cases, right, seen, strict=True
        ):
            if my_result is None:
                raise Wrong("it returns nothing; the slots of the new tokens are expected")
            raises, i_raise = isinstance(result, dict), isinstance(my_result, dict)
            if raises and not i_raise:
                raise Wrong("there are too few free blocks here, and OutOfBlocks must be raised")
            if i_raise and not raises:
                raise Wrong("it raises OutOfBlocks although the tokens fit")
            if raises and not alike((blocks, free_blocks), (my_blocks, my_free)):
                raise Wrong("when the blocks do not suffice, nothing may be taken: count first, then take")
            if my_blocks == case[0] != blocks:
                raise Wrong("the table is as before: append to it in place")
            if sorted(my_blocks + my_free) != sorted(blocks + free_blocks):
                raise Wrong("after it some block is in the table and free at once, or in neither")
            if len(my_blocks) != len(blocks):
                raise Wrong(f"the table ends up with too {'many' if len(my_blocks) > len(blocks) else 'few'} blocks")
            try:
                same((blocks, free_blocks), (my_blocks, my_free))
            except Wrong:
                raise Wrong(
                    "the table has the right length, but other blocks in it: take them from the end, with pop()"
                ) from None
            if raises and not alike(result, my_result):
                raise Wrong(
                    "OutOfBlocks(needed, available) names the blocks that are missing in the table, and those that "
                    "are free"
                )
            try:
                same(result, my_result)
            except Wrong as wrong:
                raise Wrong(f"the table is right, but of the slots returned {wrong}") from None

    return Part(title, test)


def _behaves_like(wrong, cases, seen) -> bool:
    try:
        same([_observe(wrong, case) for case in cases], seen)
    except Wrong:  # another outcome, or a call that fails where the learner's did not
        return False
    return True


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
    append(blocks, num_tokens, n, free_blocks, block_size)
    return [blocks[p // block_size] * block_size + p % block_size + 1 for p in range(num_tokens, num_tokens + n)]


def _logical(blocks, num_tokens, n, free_blocks, block_size):
    append(blocks, num_tokens, n, free_blocks, block_size)
    return list(range(num_tokens, num_tokens + n))


FREE = [9, 4, 13, 2, 11]
APPEND_MISTAKES = [
    (_always_one_more, "a block that is exactly full needs no new one yet: take it when its first token arrives"),
    (_without_the_room, "the room left in the last block must be used before a new block is taken"),
    (_all_slots, "the slots of all tokens are returned; those of the new tokens are expected"),
    (_one_too_far, "the slots are one too far; offsets count from 0"),
    (_logical, "those are positions; a slot is block id × block size + offset"),
]


# the table of slots


def token_slots(blocks, num_tokens, block_size):
    """The slot of every token, in order."""
    return [blocks[p // block_size] * block_size + p % block_size for p in range(num_tokens)]


def _tables(random):
    for size in (1, 2, 16):
        for num_tokens in (1, size, 3 * size, 2 * size + 1):
            yield random.sample(range(7, 99), -(-num_tokens // size)), num_tokens, size


SLOT_MISTAKES = [
    (
        lambda blocks, n, b: [slot for block in blocks for slot in range(block * b, block * b + b)],
        "the empty slots of the last block hold no token: stop at num_tokens",
    ),
    (lambda blocks, n, b: list(range(n)), "those are positions; the table is not used"),
    (
        lambda blocks, n, b: [blocks[p // b] + p % b for p in range(n)],
        "a block id is not a slot: block b begins at slot b × block size",
    ),
    (lambda blocks, n, b: [s + 1 for s in token_slots(blocks, n, b)], "slots count from 0"),
    (
        lambda blocks, n, b: sorted(token_slots(blocks, n, b)),
        "the slots must be in the order of the tokens, not of the memory",
    ),
    (lambda blocks, n, b: [blocks[p // b] for p in range(n)], "each token needs a slot of its own, not its block's id"),
]


# write


def write(cache, rows, slots):
    """Put each row into the slot of `cache` that `slots` names; -1 is padding."""
    keep = slots >= 0
    cache[slots[keep]] = rows[keep]


def _write_part(title, draw):
    """draw(generator) -> (cache, rows, slots)."""

    def test(function):
        import torch

        for seed in range(4):
            cache, rows, slots = draw(torch.Generator().manual_seed(seed))
            right, mine = cache.clone(), cache.clone()
            write(right, rows, slots)
            result = call(function, mine, rows, slots, changes=(0,))
            if torch.equal(mine, right):
                continue
            if torch.equal(mine, cache):
                instead = "returning another one" if result is not None else "into a copy"
                raise Wrong(f"the cache is as before: write into it, instead of {instead}")
            touched = (mine != right).flatten(1).any(1).nonzero().flatten().tolist()
            if touched == [len(cache) - 1] and bool((slots == -1).any()):
                raise Wrong(
                    "the last slot is overwritten: as an index -1 means the last one, here it means no slot at all"
                )
            if not bool((slots == -1).any()):
                raise Wrong("some rows are not in their slots")
            raise Wrong("rows with slot -1 must change nothing, and the others must all be written")

    return Part(title, test)


def _case(padding):
    def draw(generator):
        import torch

        cache = torch.randn(12, 2, 3, generator=generator)
        slots = torch.randperm(11, generator=generator)[:5]
        slots[torch.randperm(5, generator=generator)[:padding]] = -1
        return cache, torch.randn(5, 2, 3, generator=generator), slots

    return draw


EXERCISES = [
    Exercise(
        "3.2-append",
        "append, with its boundary",
        (
            _append_part(
                "inside the last block", [([5], 1, 1, FREE, 4), ([5, 8], 5, 3, FREE, 4), ([5], 10, 4, FREE, 16)]
            ),
            _append_part(
                "at the boundary",
                [([], 0, 1, FREE, 4), ([5], 4, 1, FREE, 4), ([5], 3, 2, FREE, 4), ([5], 14, 4, FREE, 16)],
            ),
            _append_part(
                "several blocks at once", [([], 0, 9, FREE, 4), ([5], 2, 11, FREE[:3], 4), ([], 0, 3, FREE, 1)]
            ),
            _append_part("nothing to append", [([], 0, 0, FREE, 4), ([5], 4, 0, FREE, 4)]),
            _append_part(
                "too few blocks: raise and change nothing",
                [([5], 4, 9, [7, 3], 4), ([], 0, 5, [7], 4), ([5], 3, 2, [], 4)],
            ),
        ),
        only_with={"nothing to append": "at the boundary"},
    ),
    Exercise(
        "3.2-slots",
        "the other table: one slot for each token",
        (
            calls("the 50 tokens of the example", token_slots, [([12, 7, 42, 3], 50, 16)], mistakes=SLOT_MISTAKES),
            calls("other tables and block sizes", token_slots, _tables, mistakes=SLOT_MISTAKES),
            calls("an empty table", token_slots, [([], 0, 16)]),
        ),
        only_with=dict.fromkeys(("the 50 tokens of the example", "an empty table"), "other tables and block sizes"),
    ),
    Exercise(
        "3.2-write",
        "write rows to their slots, and skip padding",
        (
            _write_part("without padding", _case(0)),
            _write_part("with padding", _case(2)),
            _write_part("nothing but padding", _case(5)),
        ),
        only_with={"nothing but padding": "with padding"},
    ),
]
