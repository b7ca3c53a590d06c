"""Lesson 3.1: what its checks accept and refuse, and that its pictures and widgets show the addresses of the tables."""

import itertools
import random

import pytest
from exercise_rules import exercise_tests
from picture_rules import assert_legible, strokes, texts
from widget_rules import widget_tests

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.lesson_3_1 import exercises, pictures, widgets

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


RIGHT = {
    "3.1-blocks": [exercises.blocks_for, count_up, lambda n, b: (n + b - 1) // b],
    "3.1-translate": [exercises.translate, translate_by_hand, translate_by_slots],
    "3.1-predict": [(128, 14, 15, 245), [128.0, 14, 15, 245]],
}

WRONG = {  # name: [(answer, words of the verdict)]
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

STUBS = {"3.1-predict": (..., ..., ..., ...)}

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "3.1-predict": {
        "2048 // 16 → 2048 / 16": "128.0 is accepted where 128 is asked for",
        "2048 → 2049": "the quotient is rounded down",
        "983 → 982": "the quotient is rounded down",
    },
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG, STUBS)


def test_every_exercise_has_six_wrong_answers():
    assert all(len(answers) >= 6 for answers in WRONG.values())


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

START = widgets.START
SETTINGS = {
    "address": [
        {"position": position, "step": step, "block_size": size}
        for position, step, size in itertools.product((0, 37, 49), (1, 2, 3, 4), (8, 16, 32))
    ],
    "blocks": [
        {"operations": operations, "sequence": sequence, "position": position}
        for operations in (
            (),
            START,
            (*START, ("append", "B", 16), ("append", "A", 16), ("append", "D", 16), ("preempt",), ("preempt",)),
            (("append", "A", 16),) * 4 + (("fork", "A"),) * 5 + (("append", "E", 1), ("preempt",), ("append", "B", 3)),
            (*START, ("free", "A"), ("append", "D", 1), ("preempt",), ("resume",)),
        )
        for sequence, position in (("A", 0), ("D", 15), ("E", 63))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
