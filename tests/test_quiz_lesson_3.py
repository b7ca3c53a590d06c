"""The checks of lessons 3.1 to 3.3: right answers in several guises pass, and each wrong one gets a sentence that helps."""

from functools import partial

import pytest

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_3_1 import exercises as lesson_3_1
from pagedkv.course.lesson_3_2 import exercises as lesson_3_2
from pagedkv.course.lesson_3_3 import exercises as lesson_3_3
from pagedkv.course.lessons import find

pytestmark = pytest.mark.usefixtures("references_are_answers")


def stub(*inputs): ...


class StubPool:
    def free(self, blocks): ...


def full_marks(name, answer):
    return check(name, answer).points == find(name).max_points


# 3.1


def count_up(num_tokens, block_size):
    blocks = 0
    while blocks * block_size < num_tokens:
        blocks += 1
    return blocks


def translate_by_hand(blocks, block_size, position):
    logical = 0
    while position >= block_size:
        position, logical = position - block_size, logical + 1
    return [logical, position, blocks[logical], blocks[logical] * block_size + position]


def translate_by_slots(blocks, block_size, position):
    slots = [block * block_size + i for block in blocks for i in range(block_size)]
    return position // block_size, slots[position] % block_size, slots[position] // block_size, slots[position]


# 3.2


def append_one_by_one(blocks, num_tokens, n, free_blocks, block_size):
    room = len(blocks) * block_size - num_tokens
    needed = 0 if n <= room else (n - room - 1) // block_size + 1
    if needed > len(free_blocks):
        raise OutOfBlocks(needed, len(free_blocks))
    slots = []
    for position in range(num_tokens, num_tokens + n):
        if position % block_size == 0:
            blocks.append(free_blocks.pop())
        slots.append(blocks[-1] * block_size + position % block_size)
    return slots


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


def slots_by_block(blocks, num_tokens, block_size):
    return [block * block_size + i for block in blocks for i in range(block_size)][:num_tokens]


def slots_as_array(blocks, num_tokens, block_size):
    import numpy as np

    positions = np.arange(num_tokens)
    return np.array(blocks, dtype=int)[positions // block_size] * block_size + positions % block_size


def write_in_a_loop(cache, rows, slots):
    for row, slot in zip(rows, slots.tolist(), strict=True):
        if slot != -1:
            cache[slot] = row


def write_and_return(cache, rows, slots):
    real = (slots != -1).nonzero().flatten()
    return cache.index_copy_(0, slots[real], rows[real])


# 3.3


def cow_without_pop_first(blocks, num_tokens, refs, free_blocks, block_size):
    copy = None
    partial = num_tokens % block_size != 0
    if not partial or refs[blocks[-1]] > 1:
        new = free_blocks.pop()
        refs[new] += 1
        if partial:
            old = blocks.pop()
            refs[old] -= 1
            copy = [old, new]
        blocks.append(new)
    return [blocks[-1] * block_size + num_tokens % block_size, copy]


class LeakyPool:
    def __init__(self, num_blocks):
        self.free_blocks = list(range(num_blocks))
        self.refs = [0] * num_blocks

    def allocate(self, n):
        blocks = [self.free_blocks.pop() for _ in range(n)]
        for block in blocks:
            self.refs[block] = 1
        return blocks

    def share(self, blocks):
        for block in blocks:
            self.refs[block] += 1

    def free(self, blocks):
        shared = any(self.refs[block] > 1 for block in blocks)
        for block in blocks:
            self.refs[block] -= 1
        if not shared:
            self.free_blocks += blocks


class Mended(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.free_blocks.append(block)


class MendedInOne(LeakyPool):
    def free(self, blocks):
        last = [block for block in blocks if self.refs[block] == 1]
        self.refs = [refs - (block in blocks) for block, refs in enumerate(self.refs)]
        self.free_blocks.extend(last)


class FreesShared(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
        self.free_blocks += blocks


class ForgetsToCount(LeakyPool):
    def free(self, blocks):
        self.free_blocks += [block for block in blocks if self.refs[block] == 1]


class CountsTheLastOnly(LeakyPool):
    def free(self, blocks):
        self.free_blocks += [block for block in blocks if self.refs[block] <= 1]
        for block in blocks:
            self.refs[block] = max(self.refs[block] - 1, 1)


class ReturnsTwice(LeakyPool):
    def free(self, blocks):
        Mended.free(self, blocks)
        self.free_blocks += [block for block in blocks if self.refs[block] == 0]


class OnlyUnshared(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            if self.refs[block] == 1:
                self.refs[block] = 0
                self.free_blocks.append(block)


def sharing_with_tables(prompt_tokens, generated, num_samples, block_size):
    pool = BlockPool(400, block_size)
    table = BlockTable(pool)
    table.append(prompt_tokens)
    for sample in [table, *(table.fork() for _ in range(num_samples - 1))]:
        sample.append(generated)
    return 400 - pool.num_free


def sharing_by_saving(prompt_tokens, generated, num_samples, block_size):
    return num_samples * count_up(prompt_tokens + generated, block_size) - (num_samples - 1) * (prompt_tokens // block_size)


RIGHT = [
    ("3.1-blocks", lesson_3_1.blocks_for), ("3.1-blocks", count_up), ("3.1-blocks", lambda n, b: (n + b - 1) // b),
    ("3.1-translate", lesson_3_1.translate), ("3.1-translate", translate_by_hand), ("3.1-translate", translate_by_slots),
    ("3.1-predict", (128, 14, 15, 245)), ("3.1-predict", [128.0, 14, 15, 245]),
    ("3.2-append", lesson_3_2.append), ("3.2-append", append_one_by_one), ("3.2-append", append_with_the_package),
    ("3.2-slots", lesson_3_2.token_slots), ("3.2-slots", slots_by_block), ("3.2-slots", slots_as_array),
    ("3.2-write", lesson_3_2.write), ("3.2-write", write_in_a_loop), ("3.2-write", write_and_return),
    ("3.3-shared", lesson_3_3.blocks_with_sharing), ("3.3-shared", sharing_with_tables), ("3.3-shared", sharing_by_saving),
    ("3.3-cow", lesson_3_3.append_one), ("3.3-cow", cow_without_pop_first),
    ("3.3-leak", (3, Mended)), ("3.3-leak", (3, MendedInOne)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_right_answers_pass_every_time(name, answer):
    if name == "3.2-write":
        pytest.importorskip("torch")
    assert full_marks(name, answer) and full_marks(name, answer)


STUBS = {exercise.name: stub for lesson in (lesson_3_1, lesson_3_2, lesson_3_3) for exercise in lesson.EXERCISES} | {
    "3.1-predict": (..., ..., ..., ...),
    "3.3-leak": (..., StubPool),
}


@pytest.mark.parametrize("name", STUBS)
def test_stubs_are_not_attempted(name, capsys):
    assert check(name, STUBS[name]).points == 0
    out = capsys.readouterr().out
    assert "not attempted" in out and "not yet" not in out


def changed_append(**change):
    """The right append, with the result or the lists changed afterwards."""

    def function(blocks, num_tokens, n, free_blocks, block_size):
        result = lesson_3_2.append(blocks, num_tokens, n, free_blocks, block_size)
        return change["then"](result, blocks, free_blocks)

    return function


def append_elsewhere(blocks, num_tokens, n, free_blocks, block_size):
    """The right slots, but the table grows in a new list."""
    return lesson_3_2.append(list(blocks), num_tokens, n, free_blocks, block_size)


def never_raises(blocks, num_tokens, n, free_blocks, block_size):
    try:
        return lesson_3_2.append(blocks, num_tokens, n, free_blocks, block_size)
    except OutOfBlocks:
        return []


def keeps_what_it_got(blocks, num_tokens, n, free_blocks, block_size):
    needed, available = -(-(num_tokens + n) // block_size) - len(blocks), len(free_blocks)
    for _ in range(needed):
        if not free_blocks:
            raise OutOfBlocks(needed, available)
        blocks.append(free_blocks.pop())
    return lesson_3_2.append(blocks, num_tokens, n, free_blocks, block_size)


def names_the_total(blocks, num_tokens, n, free_blocks, block_size):
    try:
        return lesson_3_2.append(blocks, num_tokens, n, free_blocks, block_size)
    except OutOfBlocks as error:
        raise OutOfBlocks(error.requested + len(blocks), error.free) from None


def names_nonsense(*inputs):
    try:
        return lesson_3_2.append(*inputs)
    except OutOfBlocks:
        raise OutOfBlocks(99, 99) from None


def takes_from_the_front(blocks, num_tokens, n, free_blocks, block_size):
    free_blocks.reverse()
    try:
        return lesson_3_2.append(blocks, num_tokens, n, free_blocks, block_size)
    finally:
        free_blocks.reverse()


def reads_without_taking(blocks, num_tokens, n, free_blocks, block_size):
    free = list(free_blocks)
    return lesson_3_2.append(blocks, num_tokens, n, free, block_size)


def changed_cow(then):
    """The right append of one token, with (table, reference counts, slot, copy) changed afterwards."""

    def function(blocks, num_tokens, refs, free_blocks, block_size):
        return then(blocks, refs, *lesson_3_3.append_one(blocks, num_tokens, refs, free_blocks, block_size))

    return function


def cow_elsewhere(blocks, num_tokens, refs, free_blocks, block_size):
    return lesson_3_3.append_one(list(blocks), num_tokens, refs, free_blocks, block_size)


def never_counts(blocks, num_tokens, refs, free_blocks, block_size):
    return lesson_3_3.append_one(blocks, num_tokens, [*refs], free_blocks, block_size)


def new_block_not_counted(blocks, num_tokens, refs, free_blocks, block_size):
    result = lesson_3_3.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    refs[blocks[-1]] *= num_tokens % block_size > 0
    return result


def own_block_not_counted(blocks, num_tokens, refs, free_blocks, block_size):
    known = list(blocks)
    result = lesson_3_3.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    refs[blocks[-1]] *= blocks != known
    return result


def copies(blocks, num_tokens, refs, free_blocks, block_size, when):
    """Copies the last block `when(owners)`, even where it is full."""
    if not blocks or not when(refs[blocks[-1]]):
        return lesson_3_3.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    old, new = blocks[-1], free_blocks.pop()
    refs[old], refs[new], blocks[-1] = refs[old] - 1, 1, new
    return new * block_size + num_tokens % block_size, (old, new)


def copies_and_grows(blocks, num_tokens, refs, free_blocks, block_size):
    full_and_shared = blocks and num_tokens % block_size == 0 and refs[blocks[-1]] > 1
    pair = copies(blocks, num_tokens, refs, free_blocks, block_size, lambda owners: True)[1] if full_and_shared else None
    slot, its_own = lesson_3_3.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    return slot, pair or its_own


def write_wrapping(cache, rows, slots):
    cache[slots] = rows


def write_a_copy(cache, rows, slots):
    cache = cache.clone()
    lesson_3_2.write(cache, rows, slots)


def return_a_copy(cache, rows, slots):
    cache = cache.clone()
    lesson_3_2.write(cache, rows, slots)
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


def write_wrong_rows(cache, rows, slots):
    kept = slots[slots >= 0]
    cache[kept] = rows[: len(kept)].flip(0)


def spoils_rows(cache, rows, slots):
    lesson_3_2.write(cache, rows, slots)
    rows.zero_()


WRONG = [
    # 3.1
    *[("3.1-blocks", answer, sentence) for answer, sentence in [
        (lambda n, b: n // b + 1, "a full block needs no empty one"),
        (lambda n, b: n // b, "round up"),
        (lambda n, b: n / b, "use // instead of /"),
        (lambda n, b: round(n / b), "round up, not to the nearest"),
        (lambda n, b: max(1, -(-n // b)), "without tokens no block is taken"),
        (lambda n, b: -(-n // 16), "too"),
        (lambda n, b: print(end=""), "is the return missing?"),
        (7, "a function is expected"),
    ]],
    *[("3.1-translate", answer, sentence) for answer, (_, sentence) in [(m[0], m) for m in lesson_3_1.TRANSLATE_MISTAKES]],
    ("3.1-translate", lambda blocks, size, p: blocks.pop(), "changes its input `blocks`"),
    ("3.1-translate", lambda blocks, size, p: lesson_3_1.translate(blocks, 16, p), "any table and block size"),
    ("3.1-translate", lesson_3_1._with_slot(lambda p, logical, offset, block, size: block * 16 + offset),
     "block size: entry 3 is not the right one: wrong([5, 9, 2], 4, 6) should return (1, 2, 9, 38)"),
    *[("3.1-predict", answer, sentence) for answer, sentence in [
        ((129, 14, 15, 245), "the last block is full"), ((2048, 14, 15, 245), "that is its slots"),
        ((128, 2, 15, 245), "that many are filled"), ((128, 13, 15, 245), "are two"),
        ((128, 14, 16, 245), "at least one slot"), ((128, 14, 8, 245), "about the average"),
        ((128, 14, 15, 15_728 // 50), "blocks are given out, not slots"), ((128, 14, 15, -(-983 // 4)), "three blocks are left over"),
        ((128, 14, 15, 983 // 3), "a fourth block"), ((float("nan"), 14, 15, 245), "not a float"),
    ]],
    # 3.2
    *[("3.2-append", answer, sentence) for answer, sentence in lesson_3_2.APPEND_MISTAKES],
    *[("3.2-append", answer, sentence) for answer, sentence in [
        (never_raises, "OutOfBlocks must be raised"),
        (keeps_what_it_got, "nothing may be taken"),
        (names_the_total, "names the blocks that are missing in the table"),
        (names_nonsense, "names the blocks that are missing in the table"),
        (takes_from_the_front, "take them from the end, with pop()"),
        (reads_without_taking, "in the table and free at once"),
        (append_elsewhere, "the table is as before: append to it in place"),
        (changed_append(then=lambda result, blocks, free: None), "it returns nothing"),
        (changed_append(then=lambda result, blocks, free: result[::-1]), "the table is right, but of the slots returned"),
        (changed_append(then=lambda result, blocks, free: blocks.append(free.pop()) or result), "too many blocks"),
        (lambda blocks, num_tokens, n, free, size: [blocks[i] for i in range(99)], "raises IndexError"),
    ]],
    *[("3.2-slots", answer, sentence) for answer, sentence in lesson_3_2.SLOT_MISTAKES],
    ("3.2-slots", lambda blocks, n, b: (slot for slot in lesson_3_2.token_slots(blocks, n, b)), "not a generator"),
    *[("3.2-write", answer, sentence) for answer, sentence in [
        (write_wrapping, "as an index -1 means the last one"),
        (write_a_copy, "into a copy"),
        (return_a_copy, "returning another one"),
        (write_positive_only, "some rows are not in their slots|must all be written"),
        (write_in_order, "some rows are not in their slots"),
        (write_until_padding, "the others must all be written"),
        (write_clamped, "rows with slot -1 must change nothing"),
        (write_wrong_rows, "some rows are not in their slots"),
        (spoils_rows, "changes its input `rows`"),
    ]],
    # 3.3
    *[("3.3-shared", answer, sentence) for answer, sentence in lesson_3_3.SHARING_MISTAKES],
    *[("3.3-cow", answer, sentence) for answer, sentence in lesson_3_3.COW_MISTAKES],
    ("3.3-cow", lambda blocks, n, refs, free, size: lesson_3_3.append_one(blocks, n, refs, free, size)[0], "is not (slot, copy)"),
    *[("3.3-cow", answer, sentence) for answer, sentence in [
        (changed_cow(lambda blocks, refs, slot, pair: (slot + 1, pair)), "of the result, the slot is wrong: the number is too large"),
        (changed_cow(lambda blocks, refs, slot, pair: (slot, pair and (pair[0], 0))), "of the result, the copy is wrong: entry 1 is not"),
        (changed_cow(lambda blocks, refs, slot, pair: (slot, -1)), "of the result, the copy is wrong: nothing (None) is expected"),
        (changed_cow(lambda blocks, refs, slot, pair: (refs.append(0), (slot, pair))[1]), "the reference counts are not what is expected"),
        (cow_elsewhere, "the table is as before; the lists are changed in place"),
        (never_counts, "the new block has an owner"),
        (own_block_not_counted, "the reference counts are not what is expected"),
        (new_block_not_counted, "the new block has an owner, this table: its count is 1"),
        (partial(copies, when=lambda owners: owners > 1), "a full block is not written again"),
        (partial(copies, when=lambda owners: owners == 1), "a block with one owner is written in place, without a copy"),
        (copies_and_grows, "a full block is not written again"),
    ]],
    *[("3.3-leak", answer, sentence) for answer, sentence in [
        ((2, Mended), "which do not?"), ((5, Mended), "come back later"), ((0, Mended), "compare the free list"),
        ((3, LeakyPool), "blocks are missing from the free list"),
        ((3, FreesShared), "given away while its other owner"),
        ((3, ForgetsToCount), "some block still counts an owner"),
        ((3, CountsTheLastOnly), "some block still counts an owner"),
        ((3, ReturnsTwice), "in the free list twice"),
        ((3, OnlyUnshared), "each block must count one owner"),
        ((3, Mended(12)), "the class is expected"),
    ]],
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer", "sentence"), WRONG)
def test_wrong_answers_are_told_why(name, answer, sentence, capsys):
    if name == "3.2-write":
        pytest.importorskip("torch")
    assert not full_marks(name, answer)
    said = [line for line in capsys.readouterr().out.splitlines() if "not yet" in line]
    assert any(piece in line for line in said for piece in sentence.split("|")), said
    assert all(line.endswith((".", "?")) for line in said)


@pytest.mark.parametrize("then", [lambda slot, pair: (slot + 1, pair), lambda slot, pair: (slot, pair and pair[::-1])])
def test_a_right_form_is_not_blamed(then, capsys):
    check("3.3-cow", changed_cow(lambda blocks, refs, slot, pair: then(slot, pair)))
    assert "is not (slot, copy)" not in capsys.readouterr().out


def test_every_exercise_has_six_wrong_answers_and_two_right_ones():
    for name in STUBS:
        assert sum(name == other for other, *_ in WRONG) >= 6, name
        assert sum(name == other for other, *_ in RIGHT) >= 2, name
