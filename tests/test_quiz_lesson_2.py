"""The checks of lessons 2.1 to 2.3: right answers in several guises pass, and each wrong one gets a sentence that helps."""

import math
from itertools import accumulate

import numpy as np
import pytest

from pagedkv.course.judge.check import check
from pagedkv.course.lesson_2_1 import exercises as lesson_2_1
from pagedkv.course.lesson_2_2 import exercises as lesson_2_2
from pagedkv.course.lesson_2_3 import exercises as lesson_2_3
from pagedkv.course.lessons import find
from pagedkv.simulation.arena import Arena
from pagedkv.simulation.policies import Paged
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import Request

pytestmark = pytest.mark.usefixtures("references_are_answers")

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def stub(*inputs): ...


# 2.1


def count_without_cache(prompt, output):
    computed = 0
    for step in range(output):
        for _ in range(prompt + step):
            computed += 1
    return computed


def count_with_cache(prompt, output):
    there = set()
    for step in range(output):
        there |= set(range(prompt + step))
    return len(there)


def bytes_by_array(config):
    heads = config["num_attention_heads"]
    head_dim = config["head_dim"] if "head_dim" in config else config["hidden_size"] // heads
    shape = [config["num_hidden_layers"], 2, config.get("num_key_value_heads") or heads, head_dim, BYTES[config["dtype"]]]
    return np.zeros(shape, np.int8).nbytes


def bytes_by_layer(config):
    heads = config["num_attention_heads"]
    vector = config.get("head_dim", config["hidden_size"] // heads) * BYTES[config["dtype"]]
    return sum(2 * vector * config.get("num_key_value_heads", heads) for _ in range(config["num_hidden_layers"]))


def letters(max_seq_len, prompt, output, generated):
    return "".join("T" if i < prompt + generated else "r" if i < prompt + output else "." for i in range(max_seq_len))


def padded(max_seq_len, prompt, output, generated):
    return ("T" * (prompt + generated)).ljust(prompt + output, "r").ljust(max_seq_len, ".")


# 2.2


def simulated(prompt, output, asked, part):
    from pagedkv.simulation.policies import Reservation

    class Asks(Reservation):
        def asked(self, request):
            return asked

    timeline = simulate([Request(0, 0.0, prompt, output)], Asks(Arena(asked)), asked)
    return timeline.shares()[part]


def mean_of_list(prompt, output, asked):
    return np.mean([(prompt + step) / asked for step in range(output + 1)])


def mean_later(prompt, output, asked):
    return np.mean(np.arange(output + 1)) / asked


def fit_in_a_loop(holes, n):
    best = None
    for hole in holes:
        if hole[1] >= n and (best is None or hole[1] < best[1]):
            best = hole
    return best[0] if best else None


def fit_by_sorting(holes, n):
    for start, size in sorted(holes, key=lambda hole: (hole[1], hole[0])):
        if size >= n:
            return start


def free_by_slots(holes, start, size):
    free = {slot for first, length in [*holes, (start, size)] for slot in range(first, first + length)}
    starts = sorted(slot for slot in free if slot - 1 not in free)
    return [[first, next(n for n in range(1, 10**6) if first + n not in free)] for first in starts]


def free_with_the_package(holes, start, size):
    capacity = max((first + length for first, length in [*holes, (start, size)]), default=0)
    arena, spans, at = Arena(capacity), [], 0
    for first, length in sorted([*holes, (start, size)]):
        if first > at:
            arena.allocate(first - at)
        spans.append(arena.allocate(length))
        at = first + length
    for span in spans:
        arena.free(span)
    return [(hole.start, hole.size) for hole in arena.holes()]


def copies_by_list(initial, total):
    sizes = accumulate(range(40), lambda size, _: 2 * size, initial=initial)
    return sum(size for size in sizes if size < total)


def copies_token_by_token(initial, total):
    copied, size = 0, initial
    for stored in range(total):
        if stored == size:
            copied, size = copied + stored, size + stored
    return copied


# 2.3


def read_one_by_one(memory, table, num_tokens, block_size):
    entries = []
    for position in range(num_tokens):
        logical, offset = divmod(position, block_size)
        entries.append(memory[table[logical] * block_size + offset])
    return entries


def read_as_array(memory, table, num_tokens, block_size):
    return np.array(memory).reshape(-1, block_size)[table].reshape(-1)[:num_tokens]


def admit_by_ceil(prompt_tokens, num_free, num_blocks, block_size, watermark):
    from math import ceil

    return ceil(prompt_tokens / block_size) + int(watermark * num_blocks) <= num_free


def admit_with_the_policy(prompt_tokens, num_free, num_blocks, block_size, watermark):
    policy = Paged(num_blocks, block_size, watermark)
    if num_free < num_blocks:
        policy.admit(Request(0, 0.0, (num_blocks - num_free) * block_size, 0))
    try:
        policy.admit(Request(1, 0.0, prompt_tokens, 0))
    except Exception:
        return False
    return True


def preempt_recursively(lengths, num_free, block_size):
    if sum(n % block_size == 0 for n in lengths) <= num_free:
        return 0
    *others, latest = lengths
    return 1 + preempt_recursively(others, num_free + (latest + block_size - 1) // block_size, block_size)


def preempt_by_index(lengths, num_free, block_size):
    blocks = [-(-n // block_size) for n in lengths]
    for kept in range(len(lengths), -1, -1):
        if sum(n % block_size == 0 for n in lengths[:kept]) <= num_free + sum(blocks[kept:]):
            return len(lengths) - kept


RIGHT = {
    "2.1-computed": [(count_without_cache, count_with_cache), (lesson_2_1.computed_without_cache, lesson_2_1.computed_with_cache)],
    "2.1-config": [bytes_by_array, bytes_by_layer],
    "2.1-reservation": [letters, padded],
    "2.2-fill": [
        (mean_of_list, mean_later),
        (lambda p, o, a: simulated(p, o, a, "token_states"), lambda p, o, a: simulated(p, o, a, "reserved")),
    ],
    "2.2-holes": [(fit_in_a_loop, free_by_slots), (fit_by_sorting, free_with_the_package)],
    "2.2-copies": [copies_by_list, copies_token_by_token],
    "2.3-read": [read_one_by_one, read_as_array],
    "2.3-admit": [admit_by_ceil, admit_with_the_policy],
    "2.3-preempt": [preempt_recursively, preempt_by_index],
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_right_answers_get_every_point_again_and_again(name, answer, capsys):
    verdicts = []
    for _ in range(2):
        assert check(name, answer).points == find(name).max_points
        verdicts.append(capsys.readouterr().out)
    assert verdicts[0] == verdicts[1]


ALL = [e for lesson in (lesson_2_1, lesson_2_2, lesson_2_3) for e in lesson.EXERCISES]


def test_every_exercise_is_here():
    assert set(RIGHT) == set(WRONG) == {exercise.name for exercise in ALL}
    assert all(len(wrong) >= 4 for wrong in WRONG.values())


def two(name):
    """Whether the exercise takes a pair of functions."""
    return any(part.of is not None for part in find(name).parts)


@pytest.mark.parametrize("name", RIGHT)
def test_a_stub_is_not_attempted(name, capsys):
    for answer in ((stub, stub) if two(name) else stub, ..., None):
        assert check(name, answer).points == 0
        assert "not attempted" in capsys.readouterr().out


RESULTS = [None, float("nan"), float("inf"), "seven", [[]], True, np.zeros((2, 2))]
NONSENSE = [*(lambda *inputs, result=result: result for result in RESULTS), lambda *inputs: 1 / 0, 7, "f", [1, 2]]


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_gets_no_point_and_no_traceback(name, nonsense, capsys):
    assert check(name, (nonsense, nonsense) if two(name) and callable(nonsense) else nonsense).points == 0
    assert "Traceback" not in capsys.readouterr().out


def in_place(function):
    """The right result, but the first input that can be changed is."""

    def changing(*inputs):
        result = function(*inputs)
        for value in inputs:
            if isinstance(value, list):
                value.append(0)
            elif isinstance(value, dict):
                value.clear()
        return result

    return changing


BEST, GIVE = lesson_2_2.best_fit, lesson_2_2.give_back
KV, READ, ADMIT = lesson_2_1.kv_bytes_per_token, lesson_2_3.read_in_order, lesson_2_3.can_admit
WITHOUT, WITH = lesson_2_1.computed_without_cache, lesson_2_1.computed_with_cache
TOKENS, LATER = lesson_2_2.mean_tokens, lesson_2_2.mean_reserved
COPIED, GONE = lesson_2_2.copied_tokens, lesson_2_3.preempted

WRONG = {  # name: [(answer, words of the verdict)]; of a pair, one is right
    "2.1-computed": [
        ((lambda p, o: p * o, WITH), "not only the prompt"),
        ((lambda p, o: sum(range(p, p + o + 1)), WITH), "one step too many"),
        ((lambda p, o: sum(range(p + 1, p + o + 1)), WITH), "step 0 reads the prompt alone"),
        ((WITH, WITH), "this is the number with a cache"),
        ((lambda p, o: WITHOUT(p, o) / 1, WITH), "a whole number is expected"),
        ((WITHOUT, lambda p, o: p + o), "the last token is never read"),
        ((WITHOUT, lambda p, o: o), "prompt's K and V are computed too"),
        ((WITHOUT, WITHOUT), "this is the number without a cache"),
    ],
    "2.1-config": [
        (lambda c: KV(c) // 2, "K and V are both kept"),
        (lambda c: KV(c) // c["num_hidden_layers"], "every layer keeps"),
        (lambda c: KV(c) // BYTES[c["dtype"]], "bytes of its dtype"),
        (lambda c: KV(c, heads="num_attention_heads"), "only KV heads are kept"),
        (lambda c: KV(c, own_head_dim=False), "where the configuration states head_dim"),
        (lambda c: KV(c, heads="num_attention_heads", own_head_dim=False), "count KV heads, not query heads"),
        (lambda c: KV(c | {"num_key_value_heads": c["num_key_value_heads"]}), "KeyError"),
        (lambda c: 8 * KV(c), "too large: your function({"),
        (lambda c: KV(c, dtype_bytes=2), "the bytes of a number depend on the dtype: 4 in float32"),
        (lambda c: KV(c, dtype_bytes=min(BYTES[c["dtype"]], 3)), "K and V for every query head: the number is too small: your function({"),
        (lambda c: KV(c, dtype_bytes=min(BYTES[c["dtype"]], 3)), "a head_dim of its own: the number is too small: your function({"),
        (in_place(KV), "changes its input"),
    ],
    "2.1-reservation": [
        (lambda m, p, o, g: "T" * g + "r" * (o - g) + "." * (m - o), "the prompt's K and V are kept too"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * (m - p - g), "not every idle slot will be used"),
        (lambda m, p, o, g: "T" * (p + g) + "." * (m - p - g), "some idle slots will be used later"),
        (lambda m, p, o, g: "T" * (p + o) + "." * (m - p - o), "only `generated` output tokens"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * o + "." * (m - p - g - o), "what is not yet generated"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * (o - g), "goes on to max_seq_len"),
        (lambda m, p, o, g: letters(m, p, max(o - 1, 0), max(g - 1, 0)), "the last token gets a slot too"),
        (lambda m, p, o, g: letters(m, p, o, max(g - 1, 0)), "your function(8, 5, 3, 3) should return 'TTTTTTTT'"),
        (lambda m, p, o, g: list(letters(m, p, o, g)), "a string is expected"),
    ],
    "2.2-fill": [
        ((lambda p, o, a: (p + o) / a, LATER), "the fill in the last step"),
        ((lambda p, o, a: o / 2 / a, LATER), "from the first step on"),
        ((lambda p, o, a: np.mean([p + t for t in range(1, o + 1)]) / a, LATER), "step 0, in which only the prompt"),
        ((lambda p, o, a: np.mean([p + t for t in range(o)]) / a, LATER), "the last step, in which all of the output is stored"),
        ((lambda p, o, a: p + o / 2, LATER), "between 0 and 1"),
        ((lambda p, o, a: (p + o / 2) / (p + o), LATER), "the whole reservation counts"),
        ((TOKENS, lambda p, o, a: 1 - TOKENS(p, o, a)), "never used are internal"),
        ((TOKENS, lambda p, o, a: (a - p - o) / a), "never used: internal"),
        ((TOKENS, lambda p, o, a: o / a), "that is the first step"),
        ((TOKENS, lambda p, o, a: np.mean([o - t for t in range(1, o + 1)]) / a), "step 0, in which all of the output"),
        ((TOKENS, lambda p, o, a: np.mean([o - t for t in range(o)]) / a), "the last step, in which nothing is reserved any more"),
    ],
    "2.2-holes": [
        ((lambda h, n: next((s for s, size in h if size >= n), None), GIVE), "that is first fit"),
        ((lambda h, n: max(((z, -s) for s, z in h if z >= n), default=(0, None))[1], GIVE), "not yet"),
        ((lambda h, n: min([(z, s) for s, z in h if z > n] or [(0, None)])[1], GIVE), "a hole of exactly n slots fits too"),
        ((lambda h, n: min([(z, s) for s, z in h] or [(0, None)])[1], GIVE), "at least n slots"),
        ((lambda h, n: next((i for i, (s, _) in enumerate(h) if s == BEST(h, n)), None), GIVE), "not its place in the list"),
        ((lambda h, n: -min([(z, -s) for s, z in h if z >= n] or [(0, 0)])[1] if BEST(h, n) is not None else None, GIVE), "the lowest"),
        ((lambda h, n: BEST(h, n) or 0, GIVE), "not yet"),
        ((lambda h, n: min(h, key=lambda hole: hole[1])[0], GIVE), "ValueError"),
        ((BEST, lambda h, s, z: sorted([*h, (s, z)])), "holes that touch have to become one"),
        ((BEST, lesson_2_2._merged_upwards), "the hole that ends where the span starts"),
        ((BEST, lesson_2_2._merged_downwards), "the hole that starts where the span ends"),
        ((BEST, lambda h, s, z: list(reversed(GIVE(h, s, z)))), "in order of address"),
        ((BEST, in_place(GIVE)), "changes its input"),
        ((BEST, lambda h, s, z: h.append((s, z))), "changes its input"),
    ],
    "2.2-copies": [
        (lambda i, t: sum(i * 2**k for k in range(40) if i * 2**k <= t), "only when one more token comes"),
        (lambda i, t: 2 * COPIED(i, t), "not the slots of the new one"),
        (lambda i, t: sum(range(i, t)), "doubling makes moves rare"),
        (lambda i, t: max(t - i, 0), "at each move again"),
        (lambda i, t: sum(range(i, t, i)), "the extent doubles"),
        (lambda i, t: t, "not yet"),
    ],
    "2.3-read": [
        (lambda m, table, n, b: m[:n], "start of the memory"),
        (lambda m, table, n, b: READ(m, sorted(table), n, b), "not of the block ids"),
        (lambda m, table, n, b: READ(m, table, len(table) * b, b), "only partly filled"),
        (lambda m, table, n, b: READ(m, table, n // b * b, b), "the last block counts too"),
        (lambda m, table, n, b: [m[block] for block in table], "a block id is no slot"),
        (lambda m, table, n, b: (entry for entry in READ(m, table, n, b)), "not a generator"),
        (lambda m, table, n, b: READ(m, table[::-1], n, b), "([10, 11, 12, 13, 14, 15, 16, 17, 18], [2, 0], 5, 3) should return [16"),
        (lambda m, table, n, b: [0] * n, "entry 0 is not the right one"),
        (in_place(READ), "changes its input"),
    ],
    "2.3-admit": [
        (lambda p, f, n, b, w: ADMIT(p, f, n, b, 0), "must stay free is missing"),
        (lambda p, f, n, b, w: f - p // b >= int(w * n), "round up"),
        (lambda p, f, n, b, w: f - -(-p // b) >= int(w * f), "a share of all blocks"),
        (lambda p, f, n, b, w: f - -(-p // b) > int(w * n), "exactly that many"),
        (lambda p, f, n, b, w: f - p >= int(w * n), "the pool in blocks"),
        (lambda p, f, n, b, w: f >= int(w * n), "no longer free afterwards"),
        (lambda p, f, n, b, w: f - math.ceil(p / b) >= w * n, "rounds down first"),
        (lambda p, f, n, b, w: not ADMIT(p, f, n, b, w), "in at least one case: your function(17, 2, 100, 16, 0.0) should"),
        (lambda p, f, n, b, w: f - -(-p // b), "True or False is expected"),
    ],
    "2.3-preempt": [
        (lambda n, f, b: GONE(n, f, b, freed=False), "gives its blocks back"),
        (lambda n, f, b: GONE(n, f, b, needs=lambda n, b: True), "only a request whose last block is full"),
        (lambda n, f, b: GONE(n, f, b, needs=lambda n, b: (n + 1) % b == 0), "does not count the token that is to come"),
        (lambda n, f, b: GONE(n, f, b, latest=False), "the latest request goes first"),
        (lambda n, f, b: max(sum(x % b == 0 for x in n) - f, 0), "a request may free several"),
        (in_place(GONE), "changes its input"),
    ],
}


@pytest.mark.parametrize(("name", "answer", "words"), [(name, *wrong) for name, wrongs in WRONG.items() for wrong in wrongs])
def test_wrong_answers_are_told_what_is_wrong(name, answer, words, capsys):
    assert check(name, answer).points < find(name).max_points
    verdict = capsys.readouterr().out
    assert words in verdict
    if two(name):
        assert verdict.count("   ok ") == 1


def test_the_commonest_mistakes_are_all_made_here():
    """Each sentence for a mistake is heard in a test; a new one needs a wrong answer above."""
    import inspect
    import re

    for lesson in (lesson_2_1, lesson_2_2, lesson_2_3):
        sentences = re.findall(r'\), "([^"]{15,})"\)', inspect.getsource(lesson))
        heard = [words for wrongs in WRONG.values() for _, words in wrongs]
        assert [s for s in sentences if not any(words in s for words in heard)] == []
