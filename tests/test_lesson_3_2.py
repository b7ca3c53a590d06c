"""Lesson 3.2: what its checks accept and refuse."""

import numpy as np
import pytest
from exercise_rules import exercise_tests
from prediction_rules import prediction_test

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.course.lesson_3_2 import appending, exercises, predictions

# Exercises


@pytest.fixture(autouse=True)
def torch_for_tensors(request):
    """An answer to 3.2-write can be judged only where PyTorch is installed."""
    case = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if case.get("name") == "3.2-write":
        pytest.importorskip("torch")


def append_one_by_one(blocks, num_tokens, n, free_blocks, block_size):
    room = len(blocks) * block_size - num_tokens
    needed = 0 if n <= room else (n - room - 1) // block_size + 1
    if needed > len(free_blocks):
        raise OutOfBlocks(needed, len(free_blocks))
    return pops_token_by_token(blocks, num_tokens, n, free_blocks, block_size)


def append_with_the_package(blocks, num_tokens, n, free_blocks, block_size):
    pool = BlockPool(20, block_size)
    pool.allocate(20)
    pool.free(free_blocks)
    table = BlockTable(pool, blocks)
    table.truncate(num_tokens)
    slots = table.append(n).slots
    fresh = table.blocks[len(blocks) :]
    blocks += fresh
    del free_blocks[len(free_blocks) - len(fresh) :]
    return slots


def names_requested_and_free(*inputs):
    try:
        return appending.append(*inputs)
    except OutOfBlocks as error:
        raise OutOfBlocks(requested=error.requested, free=error.free) from None


def slots_by_block(blocks, num_tokens, block_size):
    return [block * block_size + i for block in blocks for i in range(block_size)][:num_tokens]


def slots_as_array(blocks, num_tokens, block_size):
    positions = np.arange(num_tokens)
    return np.array(blocks, dtype=int)[positions // block_size] * block_size + positions % block_size


def write_in_a_loop(cache, rows, slots):
    for row, slot in zip(rows, slots.tolist(), strict=True):
        if slot != -1:
            cache[slot] = row


def write_and_return(cache, rows, slots):
    real = (slots != -1).nonzero().flatten()
    return cache.index_copy_(0, slots[real], rows[real])


RIGHT = {
    "3.2-append": [appending.append, append_one_by_one, append_with_the_package, names_requested_and_free],
    "3.2-slots": [exercises.token_slots, slots_by_block, slots_as_array],
    "3.2-write": [exercises.write, write_in_a_loop, write_and_return],
}


def rounds_n_alone(blocks, num_tokens, n, free_blocks, block_size):
    """Blocks for n tokens where for n minus the room is right."""
    room = -num_tokens % block_size
    needed = -(-n // block_size) if n > room else 0
    if needed > len(free_blocks):
        raise OutOfBlocks(needed, len(free_blocks))
    for _ in range(needed):
        blocks.append(free_blocks.pop())
    return [blocks[p // block_size] * block_size + p % block_size for p in range(num_tokens, num_tokens + n)]


def at_most_one_block(blocks, num_tokens, n, free_blocks, block_size):
    """A rule for the step of a decode, where one token comes, applied to any number of them."""
    if n and len(blocks) * block_size < num_tokens + n:
        if not free_blocks:
            raise OutOfBlocks(1, 0)
        blocks.append(free_blocks.pop())
    return [(blocks[p // block_size] if p // block_size < len(blocks) else 0) * block_size + p % block_size
            for p in range(num_tokens, num_tokens + n)]  # fmt: skip


def one_block_in_reserve(blocks, num_tokens, n, free_blocks, block_size):
    """Refuses what would leave the pool empty."""
    needed = -(-(num_tokens + n) // block_size) - len(blocks)
    if needed and needed >= len(free_blocks):
        raise OutOfBlocks(needed, len(free_blocks))
    return appending.append(blocks, num_tokens, n, free_blocks, block_size)


def gives_back_in_order(blocks, num_tokens, n, free_blocks, block_size):
    """Takes first and gives back when they do not suffice, in the order of taking: the list comes back turned round."""
    needed, available, taken = -(-(num_tokens + n) // block_size) - len(blocks), len(free_blocks), []
    while len(taken) < needed:
        if not free_blocks:
            free_blocks.extend(taken)
            raise OutOfBlocks(needed, available)
        taken.append(free_blocks.pop())
    blocks += taken
    return appending.append(blocks, num_tokens, n, free_blocks, block_size)


def leaks_when_refused(blocks, num_tokens, n, free_blocks, block_size):
    """The table stays as it was; what had been taken is in no list any more."""
    needed, available, taken = -(-(num_tokens + n) // block_size) - len(blocks), len(free_blocks), []
    while len(taken) < needed:
        if not free_blocks:
            raise OutOfBlocks(needed, available)
        taken.append(free_blocks.pop())
    blocks += taken
    return appending.append(blocks, num_tokens, n, free_blocks, block_size)


def names_arguments_of_its_own(*inputs):
    try:
        return appending.append(*inputs)
    except OutOfBlocks as error:
        raise OutOfBlocks(needed=error.requested, available=error.free) from None


def changed_append(**change):
    """The right append, with the result or the lists changed afterwards."""

    def function(blocks, num_tokens, n, free_blocks, block_size):
        result = appending.append(blocks, num_tokens, n, free_blocks, block_size)
        return change["then"](result, blocks, free_blocks)

    return function


def append_elsewhere(blocks, num_tokens, n, free_blocks, block_size):
    """The right slots, but the table grows in a new list."""
    return appending.append(list(blocks), num_tokens, n, free_blocks, block_size)


def never_raises(blocks, num_tokens, n, free_blocks, block_size):
    try:
        return appending.append(blocks, num_tokens, n, free_blocks, block_size)
    except OutOfBlocks:
        return []


def keeps_what_it_got(blocks, num_tokens, n, free_blocks, block_size):
    needed, available = -(-(num_tokens + n) // block_size) - len(blocks), len(free_blocks)
    for _ in range(needed):
        if not free_blocks:
            raise OutOfBlocks(needed, available)
        blocks.append(free_blocks.pop())
    return appending.append(blocks, num_tokens, n, free_blocks, block_size)


def pops_token_by_token(blocks, num_tokens, n, free_blocks, block_size):
    slots = []
    for position in range(num_tokens, num_tokens + n):
        if position % block_size == 0:
            blocks.append(free_blocks.pop())
        slots.append(blocks[-1] * block_size + position % block_size)
    return slots


def names_the_total(blocks, num_tokens, n, free_blocks, block_size):
    try:
        return appending.append(blocks, num_tokens, n, free_blocks, block_size)
    except OutOfBlocks as error:
        raise OutOfBlocks(error.requested + len(blocks), error.free) from None


def names_nonsense(*inputs):
    try:
        return appending.append(*inputs)
    except OutOfBlocks:
        raise OutOfBlocks(99, 99) from None


def takes_from_the_front(blocks, num_tokens, n, free_blocks, block_size):
    free_blocks.reverse()
    try:
        return appending.append(blocks, num_tokens, n, free_blocks, block_size)
    finally:
        free_blocks.reverse()


def reads_without_taking(blocks, num_tokens, n, free_blocks, block_size):
    free = list(free_blocks)
    return appending.append(blocks, num_tokens, n, free, block_size)


def slots_of_a_run(blocks, num_tokens, block_size):
    """Takes the blocks to lie behind one another, as after a first allocation."""
    return [blocks[0] * block_size + p for p in range(num_tokens)]


def slots_of_whole_blocks_only(blocks, num_tokens, block_size):
    full = blocks[: num_tokens // block_size]
    return [block * block_size + i for block in full for i in range(block_size)]


def slots_with_a_fixed_size(blocks, num_tokens, block_size):
    return [blocks[p // 16] * 16 + p % 16 for p in range(num_tokens)]


def write_wrapping(cache, rows, slots):
    cache[slots] = rows


def write_a_copy(cache, rows, slots):
    cache = cache.clone()
    exercises.write(cache, rows, slots)


def return_a_copy(cache, rows, slots):
    cache = cache.clone()
    exercises.write(cache, rows, slots)
    return cache


def write_positive_only(cache, rows, slots):
    keep = slots > 0
    cache[slots[keep]] = rows[keep]


def write_in_order(cache, rows, slots):
    cache[: len(rows)] = rows


def write_until_padding(cache, rows, slots):
    end = (slots.tolist() + [-1]).index(-1)
    cache[slots[:end]] = rows[:end]


def write_clamped(cache, rows, slots):
    cache[slots.clamp(min=0)] = rows


def write_clamped_and_undone(cache, rows, slots):
    before = cache[0].clone()
    cache[slots.clamp(min=0)] = rows
    if (slots < 0).any():
        cache[0] = before


def write_wrapping_and_undone(cache, rows, slots):
    before = cache[-1].clone()
    cache[slots] = rows
    cache[-1] = before


def write_zeros_for_padding(cache, rows, slots):
    """Multiplies padding away: its place gets zeros."""
    cache[slots.clamp(min=0)] = rows * (slots >= 0)[:, None, None]


def write_only_trailing_padding(cache, rows, slots):
    """Takes padding to stand at the end, as it does in most batches."""
    real = int((slots >= 0).sum())
    cache[slots[:real]] = rows[:real]


def write_wrong_rows(cache, rows, slots):
    kept = slots[slots >= 0]
    cache[kept] = rows[: len(kept)].flip(0)


def spoils_rows(cache, rows, slots):
    exercises.write(cache, rows, slots)
    rows.zero_()


WRONG = {  # name: [(answer, words of the verdict)]
    "3.2-append": [
        *appending.APPEND_MISTAKES,
        (rounds_n_alone, "several blocks at once: the room left in the last block must be used"),
        (at_most_one_block, "too few blocks"),
        (one_block_in_reserve, "it raises OutOfBlocks although the tokens fit"),
        (gives_back_in_order, "nothing may be taken"),
        (leaks_when_refused, "nothing may be taken"),
        (names_arguments_of_its_own, "raises TypeError"),
        (never_raises, "OutOfBlocks must be raised"),
        (pops_token_by_token, "more blocks are popped than are free"),
        (keeps_what_it_got, "nothing may be taken"),
        (names_the_total, "names the blocks that are missing in the table"),
        (names_nonsense, "names the blocks that are missing in the table"),
        (takes_from_the_front, "take them from the end, with pop()"),
        (reads_without_taking, "in the table and free at once"),
        (append_elsewhere, "the table is as before: append to it in place"),
        (changed_append(then=lambda result, blocks, free: None), "it returns nothing"),
        (
            changed_append(then=lambda result, blocks, free: result[::-1]),
            "the table is right, but of the slots returned",
        ),
        (changed_append(then=lambda result, blocks, free: blocks.append(free.pop()) or result), "too many blocks"),
        (lambda blocks, num_tokens, n, free, size: [blocks[i] for i in range(99)], "raises IndexError"),
    ],
    "3.2-slots": [
        *exercises.SLOT_MISTAKES,
        (lambda blocks, n, b: (slot for slot in exercises.token_slots(blocks, n, b)), "not a generator"),
        (slots_of_a_run, "the blocks need not follow one another"),
        (slots_of_whole_blocks_only, "partly filled block are missing"),
        (slots_with_a_fixed_size, "other tables and block sizes"),
    ],
    "3.2-write": [
        (write_wrapping, "as an index -1 means the last one"),
        (write_a_copy, "into a copy"),
        (return_a_copy, "returning another one"),
        (write_positive_only, "slot 0 does not hold its row: it is as before"),
        (write_in_order, "some rows are not in their slots"),
        (write_until_padding, "the others must all be written"),
        (write_clamped, "rows with slot -1 must change nothing"),
        (write_clamped_and_undone, "slot 0 does not hold its row: it is as before"),
        (write_wrapping_and_undone, "the last slot does not hold its row: it is as before"),
        (write_zeros_for_padding, "slot 0"),
        (write_only_trailing_padding, "the others must all be written"),
        (write_wrong_rows, "drop it from `slots` and `rows` alike"),
        (spoils_rows, "changes its input `rows`"),
    ],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_every_exercise_has_six_wrong_answers():
    assert all(len(answers) >= 6 for answers in WRONG.values())


# Predictions


def boundary():
    pool = BlockPool(4, block_size=16)
    table, neighbour = BlockTable(pool), BlockTable(pool)
    table.append(10)
    neighbour.append(1)
    table.append(4)
    return str(table.append(4).slots)


def blocks_of_a_text(tokens=49):
    table = BlockTable(BlockPool(4, block_size=16))
    table.append(tokens - 1)  # the newest has only been sampled
    return str(len(table.blocks))


def entries():
    return str(sum((511 * 16 + row % 16 + 1) % 16 == 0 for row in range(256)))


COMPUTED = {"3.2-boundary": boundary, "3.2-blocks": blocks_of_a_text, "3.2-entries": entries}
test_answers = prediction_test(predictions.PREDICTIONS, COMPUTED)
