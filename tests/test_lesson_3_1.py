"""Lesson 3.1: what its checks accept and refuse, and that its pictures and widgets show the addresses of the tables."""

import contextlib
import itertools
import random

import pytest
from exercise_rules import exercise_tests
from picture_rules import assert_legible, strokes, texts
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.lesson_3_1 import exercises, pictures, predictions, widgets

# Exercises


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


class StackPool:
    def __init__(self, num_blocks, block_size):
        self.block_size, self.owners = block_size, [0] * num_blocks
        self.stack = list(range(num_blocks))

    @property
    def num_free(self):
        return len(self.stack)

    def allocate(self, n):
        if n > self.num_free:
            raise OutOfBlocks(n, self.num_free)
        return [self.take() for _ in range(n)]

    def take(self):
        block = self.stack.pop()
        self.owners[block] = 1
        return block

    def refuse(self, ids):
        if any(self.owners[block] == 0 for block in ids):
            raise ValueError(ids)

    def share(self, ids):
        self.refuse(ids)
        for block in ids:
            self.owners[block] += 1

    def free(self, ids):
        self.refuse(ids)
        for block in ids:
            self.owners[block] -= 1
            if self.owners[block] == 0:
                self.stack.append(block)


class DictPool:
    """No list of free blocks: a block is free when it is not in the dict."""

    def __init__(self, num_blocks, block_size):
        self.block_size, self.num_blocks, self.num_free, self.held = block_size, num_blocks, num_blocks, {}

    def allocate(self, n):
        ids = [block for block in range(self.num_blocks) if block not in self.held][:n]
        if len(ids) < n:
            raise OutOfBlocks(requested=n, free=len(ids))
        self.held |= dict.fromkeys(ids, 1)
        self.num_free -= n
        return ids

    def share(self, ids):
        self.held |= {block: self.held[block] + 1 if block in self.held else self.fail(block) for block in ids}

    def free(self, ids):
        left = {block: self.held[block] - 1 if block in self.held else self.fail(block) for block in ids}
        self.held = {block: owners for block, owners in (self.held | left).items() if owners}
        self.num_free = self.num_blocks - len(self.held)

    def fail(self, block):
        raise ValueError(f"block {block} is free")


class TakesBeforeItLooks(StackPool):
    def allocate(self, n):
        return [self.take() for _ in range(n)]


class TakesWhatThereIs(StackPool):
    def allocate(self, n):
        return [self.take() for _ in range(min(n, self.num_free))]


class SlicesWithMinusZero(StackPool):
    def allocate(self, n):
        if n > self.num_free:
            raise OutOfBlocks(n, self.num_free)
        ids = self.stack[-n:]
        del self.stack[-n:]
        self.owners = [owners + (block in ids) for block, owners in enumerate(self.owners)]
        return ids


class RaisesSomethingElse(StackPool):
    def allocate(self, n):
        if n > self.num_free:
            raise ValueError("too few")
        return super().allocate(n)


class SwapsTheNumbers(StackPool):
    def allocate(self, n):
        if n > self.num_free:
            raise OutOfBlocks(self.num_free, n)
        return super().allocate(n)


class GivesBlocksTwice(StackPool):
    def allocate(self, n):
        if n > self.num_free:
            raise OutOfBlocks(n, self.num_free)
        return self.stack[:n]


class NeverReuses(StackPool):
    def free(self, ids):
        self.refuse(ids)


class FreesWhatIsShared(StackPool):
    def free(self, ids):
        self.refuse(ids)
        for block in ids:
            self.owners[block] = 0
            self.stack.append(block)


class KeepsWhatWasShared(StackPool):
    def free(self, ids):
        self.refuse(ids)
        if all(self.owners[block] == 1 for block in ids):
            self.stack += ids
        for block in ids:
            self.owners[block] -= 1


class TakesBlocksBackTwice(StackPool):
    def free(self, ids):
        for block in ids:
            self.owners[block] = max(0, self.owners[block] - 1)
            if self.owners[block] == 0:
                self.stack.append(block)


class FreesTheFirstOnes(StackPool):
    def free(self, ids):
        for block in ids:
            self.refuse([block])
            super().free([block])


class FreesTheLastOnes(StackPool):
    def free(self, ids):
        for block in reversed(ids):
            super().free([block])


class FreesByPop(StackPool):
    def free(self, ids):
        self.refuse(ids)
        while ids:
            super().free([ids.pop()])


class PopsAndPutsBack(StackPool):
    """Leaves `ids` as it is where it goes well."""

    def free(self, ids):
        before = list(ids)
        while ids:
            self.refuse([ids.pop()])
        ids += before
        super().free(ids)


class SortsTheIds(StackPool):
    def free(self, ids):
        ids.sort()
        super().free(ids)


class SharesWhatIsFree(StackPool):
    def share(self, ids):
        for block in ids:
            self.owners[block] += 1


class SharesTheFirstOnes(StackPool):
    def share(self, ids):
        for block in ids:
            super().share([block])


class SharesTheLastOnes(StackPool):
    def share(self, ids):
        for block in reversed(ids):
            super().share([block])


class SharesByPop(StackPool):
    def share(self, ids):
        self.refuse(ids)
        while ids:
            super().share([ids.pop()])


class HasNoNumFree:
    def __init__(self, num_blocks, block_size):
        self.block_size, self.free_blocks = block_size, list(range(num_blocks))


class CallsNumFree(StackPool):
    def num_free(self):
        return len(self.stack)


class ForgetsTheBlockSize(StackPool):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, None)


class StandsOnThePackage(BlockPool):
    pass


class ListTable:
    def __init__(self, pool):
        self.pool, self.blocks, self.num_tokens = pool, [], 0

    def append(self, n):
        start, size = self.num_tokens, self.pool.block_size
        self.blocks += self.pool.allocate(self.needed(n))
        self.num_tokens += n
        return [self.blocks[p // size] * size + p % size for p in range(start, start + n)]

    def needed(self, n):
        return -(-(self.num_tokens + n) // self.pool.block_size) - len(self.blocks)

    def translate(self, position):
        if position < 0 or position >= self.num_tokens:
            raise ValueError(position)
        return exercises.translate(self.blocks, self.pool.block_size, position)

    def free(self):
        self.pool.free(self.blocks)
        self.blocks, self.num_tokens = [], 0


class SlotTable:
    """Keeps the slots, and counts tokens by them."""

    def __init__(self, pool):
        self.pool, self.slots, self.num_tokens = pool, [], 0

    @property
    def blocks(self):
        return [slot // self.pool.block_size for slot in self.slots[:: self.pool.block_size]]

    def append(self, n):
        size, missing = self.pool.block_size, self.num_tokens + n - len(self.slots)
        fresh = self.pool.allocate((missing + size - 1) // size) if missing > 0 else []
        self.slots += [block * size + offset for block in fresh for offset in range(size)]
        self.num_tokens += n
        return self.slots[self.num_tokens - n : self.num_tokens]

    def translate(self, position):
        if position not in range(self.num_tokens):
            raise ValueError(position)
        slot, size = self.slots[position], self.pool.block_size
        return [position // size, position % size, slot // size, slot]

    def free(self):
        self.pool.free(self.blocks)
        self.slots.clear()
        self.num_tokens = 0


class TakesABlockTooEarly(ListTable):
    def needed(self, n):
        return (self.num_tokens + n) // self.pool.block_size + 1 - len(self.blocks)


class ForgetsTheRoom(ListTable):
    def needed(self, n):
        return -(-n // self.pool.block_size)


class RoundsDown(ListTable):
    def needed(self, n):
        return (self.num_tokens + n) // self.pool.block_size - len(self.blocks)

    def append(self, n):
        self.blocks += self.pool.allocate(max(0, self.needed(n)))
        self.num_tokens += n
        return []


class BlockByBlock(ListTable):
    def append(self, n):
        size = self.pool.block_size
        slots = []
        for _ in range(n):
            if self.num_tokens % size == 0:
                self.blocks += self.pool.allocate(1)
            slots.append(self.blocks[-1] * size + self.num_tokens % size)
            self.num_tokens += 1
        return slots


class CountsFirst(ListTable):
    def append(self, n):
        needed = self.needed(n)
        self.num_tokens += n
        self.blocks += self.pool.allocate(needed)
        size, start = self.pool.block_size, self.num_tokens - n
        return [self.blocks[p // size] * size + p % size for p in range(start, start + n)]


class SwallowsTheError(ListTable):
    def append(self, n):
        try:
            return super().append(n)
        except OutOfBlocks:
            return []


class ReturnsBlocks(ListTable):
    def append(self, n):
        super().append(n)
        return self.blocks


class ReturnsPositions(ListTable):
    def append(self, n):
        super().append(n)
        return list(range(self.num_tokens - n, self.num_tokens))


class PutsBlocksInFront(ListTable):
    def append(self, n):
        self.blocks[:0] = self.pool.allocate(self.needed(n))
        self.num_tokens += n
        return [self.translate(p)[3] for p in range(self.num_tokens - n, self.num_tokens)]


class TranslatesAnything(ListTable):
    def translate(self, position):
        return exercises.translate(self.blocks, self.pool.block_size, position)


class TranslatesEmptySlots(ListTable):
    def translate(self, position):
        if not 0 <= position < len(self.blocks) * self.pool.block_size:
            raise ValueError(position)
        return exercises.translate(self.blocks, self.pool.block_size, position)


class FromTheEnd(ListTable):
    def translate(self, position):
        if position >= self.num_tokens:
            raise ValueError(position)
        return exercises.translate(self.blocks or [0], self.pool.block_size, position)


class TranslatesToASlot(ListTable):
    def translate(self, position):
        return super().translate(position)[3]


class KeepsItsBlocks(ListTable):
    def free(self):
        self.blocks, self.num_tokens = [], 0


class KeepsItsTable(ListTable):
    def free(self):
        self.pool.free(self.blocks)


class KeepsItsLength(ListTable):
    def free(self):
        self.pool.free(self.blocks)
        self.blocks = []


class OneListForAll(ListTable):
    blocks = []  # noqa: RUF012 (the mistake)

    def __init__(self, pool):
        self.pool, self.num_tokens = pool, 0


class AsksForMore(ListTable):
    def append(self, n):
        assert self.pool.ref_count(0) >= 0
        return super().append(n)


RIGHT = {
    "3.1-pool": [StackPool, DictPool],
    "3.1-table": [ListTable, SlotTable],
    "3.1-blocks": [exercises.blocks_for, count_up, lambda n, b: (n + b - 1) // b],
    "3.1-translate": [exercises.translate, translate_by_hand, translate_by_slots],
    "3.1-predict": [(128, 14, 15, 245), [128.0, 14, 15, 245]],
}

WRONG = {  # name: [(answer, words of the verdict)]
    "3.1-pool": [
        (
            TakesBeforeItLooks,
            "after MyPool(4, 2), allocate(5) the pool raises IndexError where OutOfBlocks(5, 4) is due",
        ),
        (
            TakesWhatThereIs,
            "after MyPool(4, 2), allocate(5) the pool returns [3, 2, 1, 0] where OutOfBlocks(5, 4) is due",
        ),
        (SlicesWithMinusZero, "after MyPool(4, 2), allocate(0) the pool returns 4 blocks; 0 were asked for"),
        (RaisesSomethingElse, "where OutOfBlocks(5, 4) is due, the pool raises ValueError (too few)"),
        (SwapsTheNumbers, "raises OutOfBlocks(4, 5) where OutOfBlocks(5, 4) is due"),
        (GivesBlocksTwice, "after MyPool(4, 2), allocate(1) the pool has num_free 4; 3 of its 4 blocks have no owner"),
        (NeverReuses, "after MyPool(4, 2), allocate(1), free([3]) the pool has num_free 3; 4 of its 4 blocks"),
        (FreesWhatIsShared, "after MyPool(4, 2), allocate(1), share([3]), free([3]) the pool has num_free 4; 3 of"),
        (
            KeepsWhatWasShared,
            "the pool has num_free 3; 4 of its 4 blocks have no owner|the pool has num_free 2; 3 of its",
        ),
        (
            TakesBlocksBackTwice,
            "after MyPool(4, 2), free([0]) the pool has raised no ValueError, though block 0 has been",
        ),
        (
            FreesTheFirstOnes,
            "allocate(1), free([3, 0]) the pool has refused, and yet changed num_free: look at all ids",
        ),
        (FreesTheLastOnes, "allocate(1), free([0, 3]) the pool has refused, and yet changed num_free"),
        (FreesByPop, "after MyPool(4, 2), allocate(1), free([3]) the caller's list `ids` is []: leave it"),
        (PopsAndPutsBack, "after MyPool(4, 2), free([0]) the caller's list `ids` is []: leave it"),
        (SortsTheIds, "the caller's list `ids` is [2, 3]: leave it as it is"),
        (SharesTheLastOnes, "free([3]) the pool has num_free 3; 4 of its 4 blocks have no owner; a call that is"),
        (SharesByPop, "after MyPool(4, 2), allocate(1), share([3]) the caller's list `ids` is []: leave it"),
        (SharesWhatIsFree, "after MyPool(4, 2), share([0]) the pool has raised no ValueError, though block 0 is free"),
        (
            SharesTheFirstOnes,
            "allocate(1), share([3, 0]), free([3]) the pool has num_free 3; 4 of its 4 blocks have no",
        ),
        (HasNoNumFree, "after MyPool(4, 2) the pool has no num_free."),
        (CallsNumFree, "num_free is a method of the pool"),
        (ForgetsTheBlockSize, "the pool has no block_size, or not the one that it was given"),
        (StandsOnThePackage, "this class stands on the package's"),
        (StackPool(4, 2), "hand over the class itself"),
    ],
    "3.1-table": [
        (TakesABlockTooEarly, "after A.append(0) A.blocks is [2]; a length of 0 takes 0 blocks"),
        (
            ForgetsTheRoom,
            "A.blocks is [2, 4]; a length of 2 takes 1 block.|B.blocks is [2, 4]; a length of 2 takes 1 block.",
        ),
        (RoundsDown, "after A.append(1) A.blocks is []; a length of 1 takes 1 block"),
        (BlockByBlock, "append has failed and yet taken blocks: ask the pool once"),
        (CountsFirst, "after A.append(19) A.num_tokens is 19; 0 is right"),
        (SwallowsTheError, "after A.append(19) append has returned where OutOfBlocks(7, 6) is due"),
        (ReturnsBlocks, "append has returned [2]; with blocks [2] the new slots are [6]"),
        (ReturnsPositions, "append has returned [0]; with blocks [2] the new slots are [6]"),
        (PutsBlocksInFront, "that it had stay in their places"),
        (TranslatesAnything, "the table holds no tokens, so ValueError is due; A.translate(0) raises IndexError"),
        (TranslatesEmptySlots, "the table holds 1 token, so ValueError is due; A.translate(1) is (0, 1, 2, 7)"),
        (FromTheEnd, "the table holds no tokens, so ValueError is due; A.translate(-1) is (-1, 2, 0, 2)"),
        (TranslatesToASlot, "A.translate(0) is 6; with blocks [2] (0, 0, 2, 6) is right"),
        (KeepsItsBlocks, "after A.append(1), A.free() the pool has lent out blocks [2], and the tables name []"),
        (KeepsItsTable, "after A.append(1), A.free() A.blocks is [2]; [] is right"),
        (KeepsItsLength, "after A.append(1), A.free() A.num_tokens is 1; 0 is right"),
        (OneListForAll, "a new table is not empty; what belongs to one table is made in __init__"),
        (AsksForMore, "append raises AttributeError ('PlainPool' object has no attribute 'ref_count')"),
    ],
    "3.1-blocks": [
        (lambda n, b: n // b + 1, "a full block needs no empty one"),
        (lambda n, b: n // b, "round up"),
        (lambda n, b: n / b, "use // instead of /"),
        (lambda n, b: round(n / b), "round up, not to the nearest"),
        (lambda n, b: max(1, -(-n // b)), "without tokens no block is taken"),
        (lambda n, b: -(-n // 16), "too"),
        (lambda n, b: n // b + (n % b > 1 or n < b), "a block that holds a single token is taken as well"),
        (lambda n, b: max(1, n // b), "the last, partly filled block is missing"),
        (lambda n, b: -(-n // b) + (n % b > 0), "one block too many"),
        (lambda n, b: 1 << max(0, -(-n // b) - 1).bit_length(), "should return"),
        (lambda n, b: print(end=""), "is the return missing?"),
        (7, "a function is expected"),
    ],
    "3.1-translate": [
        *exercises.TRANSLATE_MISTAKES,
        (lambda blocks, size, p: blocks.pop(), "changes its input `blocks`"),
        (lambda blocks, size, p: exercises.translate(blocks, 16, p), "any table and block size"),
        (
            exercises._with_slot(lambda p, logical, offset, block, size: block * 16 + offset),
            "block size: entry 3 is not the right one: wrong([5, 9, 2], 3, 6) should return (2, 0, 2, 6)",
        ),
    ],
    "3.1-predict": [
        ((127, 14, 15, 245), "the last tokens need a block too"),
        ((128, 30, 15, 245), "three blocks are full"),
        ((128, 14, 14, 245), "that is what 50 tokens leave empty"),
        ((128, 14, 15, 983 // 50), "not of slots"),
        ((129, 14, 15, 245), "the last block is full"),
        ((2048, 14, 15, 245), "that is its slots"),
        ((128, 2, 15, 245), "that many are filled"),
        ((128, 13, 15, 245), "are two"),
        ((128, 14, 16, 245), "at least one slot"),
        ((128, 14, 8, 245), "about the average"),
        ((128, 14, 15, 15_728 // 50), "blocks are given out, not slots"),
        ((128, 14, 15, -(-983 // 4)), "three blocks are left over"),
        ((128, 14, 15, 983 // 3), "a fourth block"),
        ((float("nan"), 14, 15, 245), "not a float"),
    ],
}


class Blank:
    """The stub of a class: a docstring and nothing else."""

    ...


STUBS = {"3.1-predict": (..., ..., ..., ...), "3.1-pool": Blank, "3.1-table": Blank}

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "3.1-pool": {
        "-1 → +1": "the free blocks begin in another order, and any will do",
        "'one of ' → 'one of x'": "any message will do",
        "' is free' → ' is freex'": "any message will do",
    },
    "3.1-table": {
        "'position ' → 'position x'": "any message will do",
        "' is outside of the sequence' → ' is outside of the sequencex'": "any message will do",
    },
    "3.1-predict": {
        "2048 // 16 → 2048 / 16": "128.0 is accepted where 128 is asked for",
        "2048 → 2049": "the quotient is rounded down",
        "983 → 982": "the quotient is rounded down",
    },
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG, STUBS)


def test_every_exercise_has_six_wrong_answers():
    assert all(len(answers) >= 6 for answers in WRONG.values())


# Predictions


def wrong_calls():
    free_ids = [2]  # of a small pool of three, 0 and 1 being taken
    with contextlib.suppress(IndexError):
        [free_ids.pop() for _ in range(2)]
    for _ in range(2):
        free_ids += [0]
    return str(free_ids)


def taken():
    table = BlockTable(BlockPool(4, 4))
    table.append(8)
    return len(table.blocks)


def apart():
    table = pictures.example_table()
    tokens = table.translate(48).slot - table.translate(47).slot
    return f"48 lies millions of bytes {'before' if tokens < 0 else 'after'} 47" if abs(tokens * 10_240) > 1e6 else None


COMPUTED = {"3.1-wrong": wrong_calls, "3.1-taken": taken, "3.1-apart": apart}
test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Pictures


@pytest.mark.parametrize(("position", "step"), [(0, 1), (5, 3), (9, 4)])
def test_the_address_is_legible(position, step):
    table = BlockTable(BlockPool(8, 4))
    table.append(10)
    assert_legible(pictures.address_path(table, position, step).svg("In words."))


def test_the_address_is_that_of_the_table():
    pool = BlockPool(64, 16)
    first, table = BlockTable(pool), BlockTable(pool)
    first.append(40)
    table.append(50)
    said = " ".join(texts(pictures.address_path(table, 37)))
    assert f"37 // 16 = 2,  37 % 16 = 5 2  look up     table[2] = {table.blocks[2]}" in said
    assert f"= slot {table.translate(37).slot}" in said
    assert "slot" not in " ".join(texts(pictures.address_path(table, 37, steps=2)))


def test_all_arrows_but_that_of_the_token_have_the_colour_of_the_request():
    arrow = style.arrow_colour(style.REQUESTS[0])
    for steps, on_path in ((1, 0), (2, 1), (3, 2), (4, 3)):
        drawn = strokes(pictures.address_path(pictures.example_table(), 37, steps))
        assert (drawn[style.HIGHLIGHT], drawn[arrow]) == (on_path, 8 - min(on_path, 2)) and len(drawn) <= 2


@pytest.mark.parametrize("num_blocks", [8, 33, 64, 100])
def test_no_arrow_crosses_a_number_wherever_the_blocks_lie(num_blocks):
    pool = BlockPool(num_blocks, 4)
    draw = random.Random(num_blocks)
    for num_tokens in range(1, min(36, 4 * num_blocks), 5):
        pool.free(draw.sample(pool.allocate(num_blocks), num_blocks))
        table = BlockTable(pool)
        table.append(num_tokens)
        assert_legible(pictures.address_path(table, draw.randrange(num_tokens)).svg("In words."))
        table.free()


# Widgets

START = (*widgets.START, ("fork", "A"), ("append", "C", 2))
SETTINGS = {
    "address": [
        {"position": position, "step": step, "block_size": size}
        for position, step, size in itertools.product((0, 37, 49), (1, 2, 3, 4), (8, 16, 32))
    ],
    "blocks": [
        {"operations": operations, "sequence": sequence, "position": position}
        for operations in (
            (),
            widgets.START,
            START,
            (*START, ("append", "B", 16), ("append", "A", 16), ("append", "D", 16), ("preempt",), ("preempt",)),
            (("append", "A", 16),) * 4 + (("fork", "A"),) * 5 + (("append", "E", 1), ("preempt",), ("append", "B", 3)),
            (*START, ("free", "A"), ("append", "D", 1), ("preempt",), ("resume",)),
        )
        for sequence, position in (("A", 0), ("D", 15), ("E", 63))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
