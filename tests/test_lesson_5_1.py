"""Lesson 5.1: each difference from the chapter has its evidence, and the pictures show what the structures hold."""

import re
from collections import Counter
from math import e
from pathlib import Path

import nbformat
from picture_rules import assert_legible, strokes, texts
from prediction_rules import prediction_test

from pagedkv.bench.report import recorded
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.lesson_5_1 import pictures, predictions
from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.policies import MaxLength, Oracle, Paged, PowerOfTwo
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS, ceil_div

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "5_1_summary.ipynb"


def test_every_difference_is_listed_once_under_a_heading_to_link_to_with_its_lesson_and_its_evidence():
    """Other lessons link to #Differences-in-memory and its like, and name the number."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    tables = [cell.source for cell in cells if re.match("## Differences (in|on) ", cell.source)]
    headings = [table.split("\n")[0].removeprefix("## Differences ") for table in tables]
    assert headings == ["in memory", "in tables", "in attention", "on the GPU"]
    rows = [row for table in tables for row in re.findall(r"^\| \d+ \|.*$", table, re.MULTILINE)]
    listed = [int(row.split("|")[1]) for row in rows]
    assert sorted(listed) == list(range(1, 23))
    assert all(re.search(r"\| (\[\d\.\d\]\(\w+\.ipynb\)(, )?)+ \|$", row) for row in rows)
    mentions = [
        mention
        for cell in cells
        for mention in re.findall(r"^(?:# |For )[Pp]oints? ([\d, and]+)", cell.source, re.MULTILINE)
    ]
    shown = {int(number) for mention in mentions for number in re.findall(r"\d+", mention)}
    assert shown == set(listed)


# Pictures


def outlined(canvas: Canvas) -> int:
    return sum(kind == "polygon" and shape["stroke"] == style.HIGHLIGHT for kind, shape in canvas.shapes)


def pool_with_free(*blocks: int) -> BlockPool:
    pool = BlockPool(6, block_size=2)
    pool.allocate(6)
    pool.free(reversed(blocks))
    return pool


def test_each_word_stands_in_its_logical_block_and_in_its_slot():
    pool = pool_with_free(4, 1, 3)
    table = BlockTable(pool)
    slots = table.append(3).slots
    words = ["x", "y", "z", "not stored yet"]
    canvas, alt = pictures.journey("three words", pool, {"A": (words, table)}, new=slots[2:])
    held = "A: 3 words, in blocks 4, 1. Other requests hold 3 of the 6 blocks; free: 1."
    assert alt == f"three words. {held} Outlined slots: 2."
    seen = Counter(texts(canvas))
    assert seen["x"] == seen["y"] == seen["z"] == 2 and "not stored yet" not in seen
    assert seen["another request"] == 3 and seen["free"] == 1
    assert outlined(canvas) == 2
    word = {(shape["text"], shape["y"]) for kind, shape in canvas.shapes if kind == "text"}
    number_of_block_4 = max(y for text, y in word if text == "4")  # the last of the two: in the pool, not in the table
    assert ("x", number_of_block_4) in word
    arrow_ends = {shape["points"][-1][1] for kind, shape in canvas.shapes if kind == "path"}
    assert number_of_block_4 in arrow_ends


def test_a_fork_shows_the_shared_block_once_with_both_owners():
    pool = pool_with_free(4, 1, 3)
    table = BlockTable(pool)
    table.append(3)
    branch = table.fork()
    branch.append(1)
    canvas, alt = pictures.journey("fork", pool, {"A": (["x", "y", "z"], table), "B": (["x", "y", "z", "w"], branch)})
    seen = Counter(texts(canvas))
    assert "With two owners: 4." in alt
    assert seen["x"] == 3 and seen["z"] == 4 and seen["w"] == 2
    assert sum("2 owners" in text for text in seen) == 1
    assert strokes(canvas) == {style.arrow_colour(style.request_colour(i)): 4 for i in range(2)}


def test_the_journey_of_a_fork_is_legible():
    pool = BlockPool(12, block_size=4)
    pool.allocate(12)
    pool.free([11, 4, 7, 2, 9])
    table = BlockTable(pool)
    table.append(14)
    branch = table.fork()
    branch.append(1)
    words = ["words"] * 15
    canvas, alt = pictures.journey("fork", pool, {"A": (words, table), "B": (words, branch)}, new=[38])
    assert_legible(canvas.svg(alt))


def test_a_pool_without_sequences_is_drawn_too():
    assert Counter(texts(pictures.journey("nothing", pool_with_free(0, 5), {})[0]))["free"] == 2


def test_the_factor_between_two_blocks_is_how_much_l_and_o_shrink():
    steps = [pictures.Step(5, [1.0, 0.5], 1.0, 1.6, 2.0), pictures.Step(2, [3.0], 3.0, 1.2, 1.5)]
    canvas, alt = pictures.block_by_block("two blocks", steps, block_size=2)
    seen = Counter(texts(canvas))
    assert "After block 2 m is 3.00, l 1.20" in alt
    assert seen[f"× {e**-2:.2f}"] == 1 and seen["–"] == 1
    assert seen["logical 1 → block 2"] == 1 and seen["|O| / l = 1.25"] == 1
    assert_legible(pictures.block_by_block("three blocks", [steps[0], *steps], block_size=4)[0].svg(alt))


# Predictions


def requests(num: int):
    return [request for request in sample_requests("azure-conv", num) if request.total_tokens <= 2048]


def bytes_read():
    shape, tokens = MODELS["llama-3-8b"], 1147
    table = 4 * ceil_div(tokens, 16) * shape.num_layers * shape.num_kv_heads
    share = table / (tokens * shape.bytes_per_token)
    return "the paged one, by " + ("less than a thousandth" if 0 < share < 1e-3 else "some hundredths")


def in_use():
    policies = {"max length": MaxLength(Arena(15_728)), "power of two": PowerOfTwo(BuddyArena(15_728))}
    policies["oracle"] = Oracle(BuddyArena(15_728))
    shares = {name: simulate(requests(500), policy, 15_728).shares() for name, policy in policies.items()}
    return " and ".join(name for name in shares if 0.2 <= shares[name]["token_states"] <= 0.4) + " alone"


def gain():
    """Tokens a second of OPT-13B, paged against max length: a step's time is that of its weights and its K and V."""
    record, per_second = recorded(), []
    case = next(case for case in record["cases"] if case["case"] == "g")
    fastest = max(ceiling["gb_s"] for ceiling in record["ceilings"] if ceiling["kind"] == "read")
    for policy, kernel in ((MaxLength(Arena(15_728)), "SDPA, contiguous"), (Paged(983), "pagedkv")):
        run, tokens, seconds = simulate(requests(1200), policy, 15_728), 0, 0.0
        for point in range(len(run.step)):
            if run.waiting[point]:
                kv = run.token_states[point] * 819_200 * case["results"][kernel]["us"] * 1e-6 / case["bytes"]
                tokens += run.running[point] * run.duration[point]
                seconds += (26 / fastest + kv) * run.duration[point]
        per_second.append(tokens / seconds)
    return per_second[1] / per_second[0]


ANSWERS = {"5.1-bytes": bytes_read, "5.1-in-use": in_use, "5.1-gain": gain}
test_answers = prediction_test(predictions.PREDICTIONS, ANSWERS)
