"""Lesson 5.2: what its checks accept and refuse, and that its picture draws whatever a learner's functions return."""

import math

import numpy as np
import pytest
from exercise_rules import exercise_tests, stub
from picture_rules import assert_legible, strokes
from prediction_rules import prediction_test

from pagedkv.course.draw import style
from pagedkv.course.judge.calling import NotAttempted
from pagedkv.course.judge.check import check
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.lesson_5_2 import exercises, merging, pictures, predictions, suspects, wrong_entry
from pagedkv.course.lesson_5_2.wrong_softmax import VERSIONS, in_one_piece
from pagedkv.course.lessons import find

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("references_are_answers")
INF, NAN = math.inf, math.nan

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "5.2-property": {
        "... → ...": "another seed, more or fewer draws, other shapes and cuts",
        "5 * rng.standard_normal(12) → 5 / rng.standard_normal(12)": "other scores",
    },
    "5.2-break": {"... → ...": "other inputs that break the same version"},
}


# Exercises

# Question 1


def blocks_by_appending(tokens, block_size):
    blocks = []
    for i, token in enumerate(tokens):
        if i % block_size == 0:
            blocks.append([])
        blocks[-1].append(token)
    return blocks


def table_by_popping(num_tokens, block_size, free_blocks):
    free, table = list(free_blocks), []
    while len(table) * block_size < num_tokens:
        table.append(free.pop(0))
    return table


def slots_by_walking(table, num_tokens, block_size):
    every = [block * block_size + offset for block in table for offset in range(block_size)]
    return np.array(every[:num_tokens], dtype=int)


def table_that_pops_its_input(num_tokens, block_size, free_blocks):
    return [free_blocks.pop(0) for _ in range(-(-num_tokens // block_size))]


FLOW = (exercises.logical_blocks, exercises.block_table, exercises.slots)

# Question 2

ROLES = {"a": "block", "b": "slot", "c": "block table", "d": "block", "e": "slot", "f": "block table"}
STATIONS = ["position", "logical block and offset", "block table", "physical block and offset", "slot", "address"]
CONSEQUENCES = {case: right for case, (right, _) in wrong_entry.CONSEQUENCES.items()}


class EqualsAll:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("B")


def owner_by_listing(slot, tables, block_size):
    held = {}
    for name, (table, num_tokens) in tables.items():
        for position in range(num_tokens):
            held[table[position // block_size] * block_size + position % block_size] = (name, position)
    return held.get(slot)


def owner_by_search(slot, tables, block_size):
    for name in sorted(tables):
        table, num_tokens = tables[name]
        for logical, block in enumerate(table):
            if 0 <= slot - block * block_size < min(block_size, num_tokens - logical * block_size):
                return [name, logical * block_size + slot - block * block_size]


def damage_with_numpy(attend, tables, name, logical_block, wrong_block):
    broken = dict(tables)
    broken[name] = [wrong_block if i == logical_block else block for i, block in enumerate(tables[name])]
    return {key: float(np.abs((attend(broken)[key] - attend(tables)[key]).numpy()).max()) for key in tables}


def damage_as_tensors(attend, tables, name, logical_block, wrong_block):
    broken = {**tables, name: tables[name].copy()}
    broken[name][logical_block] = wrong_block
    after = attend(broken)
    return {key: (before - after[key]).abs().amax() for key, before in attend(tables).items()}


def damage_that_changes_the_tables(attend, tables, name, logical_block, wrong_block):
    before = attend(tables)
    tables[name][logical_block] = wrong_block
    after = attend(tables)
    return {key: (before[key] - after[key]).abs().max().item() for key in tables}


def suspects_by_subtracting(tables, ref_counts):
    left, found = dict(enumerate(ref_counts)), set()
    for table in tables.values():
        for block in table:
            if block in left:
                left[block] -= 1
            else:
                found.add(block)
    return sorted(found | {block for block, count in left.items() if count})


def suspects_with_numpy(tables, ref_counts):
    named = np.array([block for table in tables.values() for block in table])
    inside = (named >= 0) & (named < len(ref_counts))
    counts = np.bincount(named[inside], minlength=len(ref_counts))
    return np.unique(np.concatenate([named[~inside], np.flatnonzero(counts != ref_counts)]))


# Question 3

DERIVED = (max, lambda m, new: math.exp(m - new), merging._merged_sum, lambda total, o: o / total)
DERIVED_WITH_NUMPY = (
    lambda m, b: np.max([m, b]),
    lambda m, new: 1 / np.exp(new - m),
    lambda old, m, new, b: np.dot([old, new], np.exp(np.array([m, b]) - max(m, b))),
    lambda total, o: o * total**-1,
)
DERIVED_BY_CASES = (
    lambda m, b: b if b > m else m,
    lambda m, new: math.e ** (m - new),
    lambda old, m, new, b: old + new * math.exp(b - m) if m >= b else new + old * math.exp(m - b),
    lambda total, o: 1 / (total / o),
)


def merge_in_torch_style(a, b):
    m = max(a[0], b[0])
    scale = [0.0 if part[0] == -INF else np.exp(part[0] - m) for part in (a, b)]
    return [m, a[1] * scale[0] + b[1] * scale[1], a[2] * scale[0] + b[2] * scale[1]]


def merge_larger_first(a, b):
    if b[0] > a[0]:
        a, b = b, a
    factor = math.exp(b[0] - a[0]) if b[0] > -INF else 0
    return a[0], a[1] + factor * b[1], a[2] + factor * b[2]


def merge_that_changes_its_input(a, b):
    m, total, o = merging.merge(a, b)
    a[2][:] = o
    return m, total, o


def merge_without_care_for_nothing(a, b):
    m = max(a[0], b[0])
    fa, fb = np.exp(np.array([a[0], b[0]]) - m)
    return m, fa * a[1] + fb * b[1], fa * a[2] + fb * b[2]


def merge_without_subtracting(a, b):
    m = max(a[0], b[0])
    scale = [np.exp(np.float64(part[0])) / np.exp(np.float64(m)) for part in (a, b)]
    return m, scale[0] * a[1] + scale[1] * b[1], scale[0] * a[2] + scale[1] * b[2]


def exact(merge, draws=30, low=1, high=11, numbers=np.random.default_rng):
    """A property test; fewer draws or a fixed cut make it blind."""
    rng = numbers(1)
    for _ in range(draws):
        scores, values = rng.normal(0, 5, 12), rng.normal(0, 1, (12, 2))
        cut = int(rng.integers(low, high + 1))
        m, total, o = merge(merging.state(scores[:cut], values[:cut]), merging.state(scores[cut:], values[cut:]))
        if not np.allclose(o / total, merging.state(scores, values)[2] / merging.state(scores, values)[1], rtol=1e-6):
            return False
        if not np.isclose(m + np.log(total), scores.max() + np.log(np.exp(scores - scores.max()).sum())):
            return False
    return True


def exact_by_one_hand_made_case(merge):
    """Two blocks in both orders, the weights 1, 2 and 4 known by heart."""
    a, b = (0.0, 1.0, np.array([1.0])), (math.log(2), 3.0, np.array([2 * 1.0 + 0.5]))
    totals = []
    for first, second in ((a, b), (b, a)):
        m, total, o = merge(first, second)
        totals.append((math.exp(m) * total, math.exp(m) * o[0]))
    return bool(np.allclose(totals, [(7.0, 6.0)] * 2))


def short_block_first(tokens, block_size):
    first = len(tokens) % block_size
    rest = [tokens[i : i + block_size] for i in range(first, len(tokens), block_size)]
    return [tokens[:first], *rest] if first else rest


def dealt_out(tokens, block_size):
    num_blocks = math.ceil(len(tokens) / block_size)
    return [tokens[i::num_blocks] for i in range(num_blocks)]


def slots_and_the_rest(table, num_tokens, block_size):
    """All blocks but the last whole, and num_tokens % block_size slots of the last."""
    whole = [block * block_size + i for block in table[:-1] for i in range(block_size)]
    return whole + [table[-1] * block_size + i for i in range(num_tokens % block_size)] if table else []


def owner_that_forgets_full_blocks(slot, tables, block_size):
    for name, (table, num_tokens) in tables.items():
        if slot // block_size in table:
            logical, offset = table.index(slot // block_size), slot % block_size
            held = block_size if logical < len(table) - 1 else num_tokens % block_size
            return (name, logical * block_size + offset) if offset < held else None


def owner_by_offset(slot, tables, block_size):
    found = owner_by_listing(slot, tables, block_size)
    return found and (found[0], slot % block_size)


def damage_of_one(attend, tables, name, logical_block, wrong_block):
    """Whoever reads through another table cannot be harmed."""
    moved = damage_with_numpy(attend, tables, name, logical_block, wrong_block)
    return {request: moved[name] if request == name else 0.0 for request in tables}


def damage_in_a_shallow_copy(attend, tables, name, logical_block, wrong_block):
    before, broken = attend(tables), dict(tables)
    broken[name][logical_block] = wrong_block
    after = attend(broken)
    return {key: (before[key] - after[key]).abs().max().item() for key in tables}


def entries_against_counts(tables, ref_counts, accused):
    named = [block for table in tables.values() for block in table]
    unknown = {block for block in named if block not in range(len(ref_counts))}
    return sorted(unknown | {b for b, count in enumerate(ref_counts) if accused(named.count(b), count)})


def merge_to_the_lse(a, b):
    m, total, o = merging.merge(a, b)
    return (m + math.log(total), 1.0, o / total) if total else (m, total, o)


def halves(scores, cut):
    values = np.arange(2.0 * len(scores)).reshape(-1, 2) % 7
    parts = [merging.state(scores[half], values[half]) for half in (slice(cut), slice(cut, None))]
    return parts, merging.state(scores, values)


def exact_at_equal_maxima(merge):
    """Every factor is 1."""
    parts, whole = halves(np.array([3.0, 1.0, 0.5, 3.0, -2.0]), 3)
    _, total, o = merge(*parts)
    return bool(np.allclose(o / total, whole[2] / whole[1]))


def exact_in_one_order(merge):
    """The larger maximum always comes second, so the second factor is 1."""
    parts, whole = halves(np.array([1.0, 0.0, 2.0, 4.0, 3.0]), 2)
    _, total, o = merge(*parts)
    return bool(np.allclose(o / total, whole[2] / whole[1]))


def exact_in_its_outputs_bit_by_bit(merge):
    return all(
        bool((merge(*parts)[2] / merge(*parts)[1] == whole[2] / whole[1]).all())
        for parts, whole in (halves(np.random.default_rng(seed).normal(0, 5, 9), 4) for seed in range(20))
    )


def exact_in_its_sums_only(merge):
    """Looks at m and l and never at o."""
    for seed in range(20):
        parts, whole = halves(np.random.default_rng(seed).normal(0, 5, 9), 4)
        m, total, _ = merge(*parts)
        if not math.isclose(m + math.log(total), whole[0] + math.log(whole[1])):
            return False
    return True


BLOCKS = (
    [([5.0], [1.0]), ([0.0], [2.0])],
    [([0.0], [1.0]), ([3.0, 3.0], [2.0, 2.0])],
    [([-20_000.0, -INF], [1.0, 2.0])],
)
OTHER_BLOCKS = (
    (((1, 0), (1, 1)), ((-2,), (9,))),
    [([0], [0]), ([0, 0, 0], [1, 1, 1])],
    [([-INF, -INF], [0.0, 0.0]), ([-9_999.0, -INF], [1.0, -1.0]), ([-INF], [3.0])],
)

RIGHT = {
    "5.2-data-flow": [FLOW, (blocks_by_appending, table_by_popping, slots_by_walking), [*FLOW[:2], slots_by_walking]],
    "5.2-roles": [ROLES, {letter: f" {role.title()} " for letter, role in reversed(ROLES.items())}],
    "5.2-owner": [wrong_entry.owner, owner_by_listing, owner_by_search],
    "5.2-stations": [STATIONS, tuple(STATIONS), [station.upper() for station in STATIONS]],
    "5.2-damage": [wrong_entry.damage, damage_with_numpy, damage_as_tensors],
    "5.2-consequences": [CONSEQUENCES, {case: list(pair) for case, pair in CONSEQUENCES.items()}],
    "5.2-suspects": [suspects.suspects, suspects_by_subtracting, suspects_with_numpy],
    "5.2-derivation": [DERIVED, DERIVED_WITH_NUMPY, DERIVED_BY_CASES],
    "5.2-merge": [merging.merge, merge_in_torch_style, merge_larger_first],
    "5.2-property": [exact, exact_by_one_hand_made_case, lambda merge: np.bool_(exact(merge))],
    "5.2-break": [BLOCKS, OTHER_BLOCKS],
}

# For each exercise: wrong answers, none of which may gain every point.
WRONG = {
    "5.2-data-flow": [
        (stub, *FLOW[1:]),
        (FLOW[0], stub, FLOW[2]),
        FLOW[:2],
        FLOW[::-1],
        FLOW[0],
        NAN,
        "PAGE",
        (lambda t, b: [t], *FLOW[1:]),
        (lambda t, b: (t[i : i + b] for i in range(0, len(t), b)), *FLOW[1:]),
        (lambda t, b: t.clear() or [], *FLOW[1:]),
        (lambda t, b: [["P", "A", "G", "E"], ["D", "M", "E", "M"], ["O", "R", "Y"]], *FLOW[1:]),
        (FLOW[0], table_that_pops_its_input, FLOW[2]),
        (FLOW[0], lambda n, b, f: [4, 1, 5], FLOW[2]),
        (FLOW[0], lambda n, b, f: f, FLOW[2]),
        (FLOW[0], lambda n, b, f: set(f[: -(-n // b)]), FLOW[2]),
        (*FLOW[:2], lambda t, n, b: [16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22]),
        (*FLOW[:2], lambda t, n, b: [float(s) for s in exercises.slots(t, n, b)]),
        (*FLOW[:2], lambda t, n, b: [NAN] * n),
        (*FLOW[:2], lambda t, n, b: [t[p // b] * b for p in range(n)]),
        (*FLOW[:2], lambda t, n, b: sorted(exercises.slots(t, n, b))),
    ],
    "5.2-roles": [
        {**ROLES, "a": "slot", "b": "block"},
        {**ROLES, "f": "block"},
        dict.fromkeys(ROLES, "block"),
        {**ROLES, "a": None},
        {**ROLES, "a": NAN},
        {**ROLES, "a": ...},
        {letter: ROLES[letter] for letter in "abcde"},
        list(ROLES.values()),
        "block",
        NAN,
        {**ROLES, "a": "page"},
        print,
    ],
    "5.2-owner": [
        lambda s, t, b: None if owner_by_listing(s, t, b) is None else owner_by_listing(s, t, b)[::-1],
        lambda s, t, b: owner_by_listing(s + 1, t, b),
        lambda s, t, b: owner_by_listing(s, t, b) or ("A", -1),
        lambda s, t, b: ("A", s),
        lambda s, t, b: NAN,
        lambda s, t, b: owner_by_listing(s, {"A": t.pop("A"), **t}, b),
        lambda s, t, b: (owner_by_listing(s, t, b) or [None])[0],
        lambda s, t, b: str(owner_by_listing(s, t, b)),
        ("A", 3),
        "A",
    ],
    "5.2-stations": [
        STATIONS[::-1],
        STATIONS[:4],
        [*STATIONS, "block"],
        sorted(STATIONS),
        " → ".join(STATIONS),
        set(STATIONS),
        [1, 2, 3, 4, 5],
        NAN,
        print,
    ],
    "5.2-damage": [
        damage_that_changes_the_tables,
        lambda a, t, n, i, w: {key: 0.0 for key in t},
        lambda a, t, n, i, w: {key: NAN for key in t},
        lambda a, t, n, i, w: {"A": 0.305, "B": 0.0, "C": 0.0},
        lambda a, t, n, i, w: list(damage_with_numpy(a, t, n, i, w).values()),
        lambda a, t, n, i, w: damage_with_numpy(a, t, n, i, w)[n],
        lambda a, t, n, i, w: damage_with_numpy(a, t, n, 0, w),
        lambda a, t, n, i, w: {key: value > 0 for key, value in damage_with_numpy(a, t, n, i, w).items()},
        lambda a, t, n, i, w: {key: 2 * value for key, value in damage_with_numpy(a, t, n, i, w).items()},
        {"A": 0.305, "B": 0.0},
        0.305,
    ],
    "5.2-consequences": [
        {**CONSEQUENCES, "last entry 4": ("A", "A")},
        {**CONSEQUENCES, "last entry 4": ("B", "B")},
        {**CONSEQUENCES, "last entry 6": ("B", "A")},
        {**CONSEQUENCES, "first entry 4": ("B", "A")},
        {**CONSEQUENCES, "last entry 8": ("B", "error")},
        {**CONSEQUENCES, "last entry 8": ("error", "nobody")},
        {},
        "A",
        ("A", "B"),
        NAN,
        {**CONSEQUENCES, "last entry 6": "B"},
        {**CONSEQUENCES, "last entry 6": ...},
        {**CONSEQUENCES, "last entry 6": (NAN, "A")},
        print,
        dict.fromkeys(CONSEQUENCES, [EqualsAll(), EqualsAll()]),
        dict.fromkeys(CONSEQUENCES, ("B", "nobody", "A")),
    ],
    "5.2-suspects": [
        lambda t, r: [],
        lambda t, r: [1, 6],
        lambda t, r: sorted({b for table in t.values() for b in table if b >= len(r)}),
        lambda t, r: suspects_by_subtracting(t, r)[::-1],
        lambda t, r: suspects_by_subtracting(t, r)[:1],
        lambda t, r: suspects_by_subtracting({k: [b for b in table if b >= 0] for k, table in t.items()}, r),
        lambda t, r: set(suspects_by_subtracting(t, r)),
        lambda t, r: suspects_by_subtracting(t, r) if r.append(0) is None else 0,
        lambda t, r: NAN,
        [1, 6],
        "1, 6",
    ],
    "5.2-derivation": [
        (min, *DERIVED[1:]),
        (lambda m, b: NAN, *DERIVED[1:]),
        (lambda m, b: True, *DERIVED[1:]),
        (max, lambda m, n: m - n, *DERIVED[2:]),
        (max, lambda m, n: 0.0, *DERIVED[2:]),
        (max, lambda m, n: math.exp(n - m), *DERIVED[2:]),
        (max, lambda m, n: 2.0 ** (m - n), *DERIVED[2:]),
        (*DERIVED[:2], lambda old, m, new, b: (old + new) * math.exp(m - max(m, b)), DERIVED[3]),
        (*DERIVED[:2], lambda old, m, new, b: old * math.exp(m) + new * math.exp(b), DERIVED[3]),
        (*DERIVED[:3], lambda total, o: o / (total + 1)),
        (*DERIVED[:3], lambda total, o: f"{o / total}"),
        DERIVED[:3],
        max,
        NAN,
        "max",
    ],
    "5.2-merge": [
        merge_that_changes_its_input,
        merge_without_care_for_nothing,
        merge_without_subtracting,
        *(
            merging.merge_with(l_factors, o_factors)
            for l_factors, o_factors in (
                ((False, False), (False, False)),
                ((True, True), (False, False)),
                ((False, False), (True, True)),
                ((True, False), (True, False)),
                ((True, True), (True, False)),
            )
        ),
        lambda a, b: (a[0] + b[0], *merging.merge(a, b)[1:]),
        lambda a, b: (*merging.merge(a, b)[:2], merging.merge(a, b)[2] / merging.merge(a, b)[1]),
        lambda a, b: merging.merge(a, b)[2],
        lambda a, b: (NAN, NAN, a[2] * NAN),
        lambda a, b: tuple(map(str, merging.merge(a, b))),
        lambda a, b: (*merging.merge(a, b)[:2], list(merging.merge(a, b)[2])),
        (0.0, 1.0, [1.0]),
    ],
    "5.2-property": [
        lambda merge: True,
        lambda merge: False,
        lambda merge: None,
        lambda merge: 1,
        lambda merge: "True",
        lambda merge: NAN,
        lambda merge: not exact(merge),
        lambda merge: exact(merge, draws=0),
        lambda merge: bool(np.allclose(merge((0.0, 1.0, np.ones(2)), (0.0, 1.0, np.ones(2)))[2], 2)),
        lambda merge: merge((0.0, 1.0, np.ones(2)), (1.0, 1.0, np.ones(2)))[0] == 1.0,
        lambda merge: merge is merging.merge,
        True,
        "exact",
    ],
    "5.2-break": [
        (BLOCKS[1][::-1][:1], *BLOCKS[1:]),
        (BLOCKS[0][::-1], *BLOCKS[1:]),
        (BLOCKS[0], [([0.0], [1.0]), ([0.0], [1.0])], BLOCKS[2]),
        (*BLOCKS[:2], [([0.0, -INF], [1.0, 2.0])]),
        (*BLOCKS[:2], [([-INF], [1.0])]),
        (*BLOCKS[:2], [([NAN, 0.0], [1.0, 2.0])]),
        (*BLOCKS[:2], [([0.0], [NAN])]),
        (*BLOCKS[:2], [([0.0], [INF])]),
        ([([0.0], [1.0, 2.0])], *BLOCKS[1:]),
        ([([], [])], *BLOCKS[1:]),
        ([([-INF], [0.0]), ([1.0], [1.0])], *BLOCKS[1:]),
        ([(["5"], [1.0])], *BLOCKS[1:]),
        ([([1e308, -1e308], [1, 2])], *BLOCKS[1:]),
        BLOCKS[:2],
        "x",
        NAN,
        (1, 2, 3),
        ([1], [2], [3]),
    ],
}

STUBS = {
    "5.2-roles": dict.fromkeys(ROLES, ...),
    "5.2-stations": ...,
    "5.2-consequences": dict.fromkeys(CONSEQUENCES, ...),
    "5.2-break": (...,) * 3,
}

# Wrong answers that somebody thought about, and words of what each is told.
STRUCTURED = {
    "5.2-data-flow": [
        ((short_block_first, *FLOW[1:]), "the last block is the one that is not full"),
        ((dealt_out, *FLOW[1:]), "a block holds tokens that follow one another"),
        ((FLOW[0], lambda n, b, f: [f[0]] * -(-n // b), FLOW[2]), "a physical block of its own"),
        ((FLOW[0], lambda n, b, f: list(range(f[0], f[0] - (-n // b))), FLOW[2]), "take each from free_blocks"),
        ((*FLOW[:2], lambda t, n, b: [t[0] * b + p for p in range(n)]), "look each of them up in the table"),
        ((*FLOW[:2], lambda t, n, b: exercises.slots(t, n // b * b, b)), "a last block that is not full are missing"),
        ((*FLOW[:2], slots_and_the_rest), "n % block_size is 0 where the last block is full"),
    ],
    "5.2-roles": [
        ({**ROLES, "d": "block table"}, "belongs elsewhere"),
        ({**ROLES, "e": "block"}, "belongs elsewhere"),
        ({**ROLES, "b": "block", "d": "slot"}, "belongs elsewhere"),
    ],
    "5.2-owner": [
        (lambda s, t, b: owner_by_listing(s, {"A": t["A"]}, b), "every table has to be searched"),
        (owner_that_forgets_full_blocks, "where the last block is full, and all of it counts"),
        (
            lambda s, t, b: owner_by_listing(s, t, b) if s // b else None,
            "([2, 0], 7), 'B': ([1], 4)}, 4) should return",
        ),
        (owner_by_offset, "the blocks before it in the table hold tokens too"),
    ],
    "5.2-stations": [
        ([*STATIONS[:2], STATIONS[3], STATIONS[2], *STATIONS[4:]], "so the table is read first"),
        ([STATIONS[1], STATIONS[0], *STATIONS[2:]], "are computed from the position"),
        ([*STATIONS[:3], STATIONS[4], STATIONS[3], STATIONS[5]], "computed from the physical block and the offset"),
        ([*STATIONS[:4], STATIONS[5], STATIONS[4]], "the address is computed from the slot"),
    ],
    "5.2-damage": [
        (damage_of_one, "compare the outputs of every request"),
        (lambda *a: wrong_entry.damage(*a, size=lambda change: (change**2).sum().sqrt()), "not the length"),
        (lambda *a: wrong_entry.damage(*a, size=lambda change: change.abs().sum()), "not the sum"),
        (damage_in_a_shallow_copy, "changes its input `tables`"),
    ],
    "5.2-consequences": [
        ({**CONSEQUENCES, "last entry 6": ("A", "A")}, "through whose table"),
        ({**CONSEQUENCES, "first entry 4": ("A", "A")}, "through which entry does position 6 go"),
        ({**CONSEQUENCES, "last entry 8": ("nobody", "error")}, "on a CPU every entry is looked at first"),
    ],
    "5.2-suspects": [
        (
            lambda t, r: suspects_by_subtracting({k: list(dict.fromkeys(v)) for k, v in t.items()}, r),
            "count entries, not tables",
        ),
        (lambda t, r: entries_against_counts(t, r, lambda held, count: held > count), "lost its entry"),
        (lambda t, r: entries_against_counts(t, r, lambda held, count: held < count), "more entries than its count"),
        (
            lambda t, r: [b for b in suspects_by_subtracting(t, r) if any(b in table for table in t.values())],
            "lost its entry",
        ),
    ],
    "5.2-derivation": [
        ((lambda m, b: m if m > -INF else b, *DERIVED[1:]), "a later block may hold a larger score"),
        ((lambda m, b: max(m, b, 0.0), *DERIVED[1:]), "0 is no score that was seen"),
        (
            (*DERIVED[:2], lambda old, m, new, b: old * math.exp(-abs(m - b)) + new, DERIVED[3]),
            "depends on which maximum is the smaller",
        ),
        ((*DERIVED[:2], lambda old, m, new, b: old if m > b else new, DERIVED[3]), "counts too, by its factor"),
        ((*DERIVED[:3], lambda total, o: o / total / total), "divide by l once"),
    ],
    "5.2-merge": [
        (merging.merge_at_zero, "m has to be the largest score seen, and l and o relative to it"),
        (merge_without_care_for_nothing, "(-inf) - (-inf) is NaN"),
        (merge_to_the_lse, "m is expected to be the largest score seen, not the log-sum-exp"),
        (lambda a, b: a if a[0] > b[0] else b, "the part with the smaller maximum is thrown away"),
        (lambda a, b: (-INF, 0.0, 0 * a[2]) if -INF in (a[0], b[0]) else merging.merge(a, b), "takes nothing away"),
    ],
    "5.2-property": [
        (exact_at_equal_maxima, "a wrong merge passes"),
        (exact_in_one_order, "a wrong merge passes"),
        (exact_in_its_outputs_bit_by_bit, "a right merge is called wrong; is there a tolerance?"),
        (exact_in_its_sums_only, "a wrong merge passes"),
    ],
    "5.2-break": [
        (([([5.0, 0.0], [1.0, 2.0])], *BLOCKS[1:]), "which block's sums are never multiplied"),
        ((BLOCKS[0], [([0.0], [7.0]), ([9.0], [7.0])], BLOCKS[2]), "different values"),
        ((*BLOCKS[:2], [([-9_990.0, -INF], [1.0, 2.0])]), "how low must the visible scores be"),
        (([([0.0], [1.0]), ([5.0], [2.0])], *BLOCKS[1:]), "which block's sums are never multiplied"),
    ],
}

# Every wrong answer is told something; what exactly, SPOKEN says of some.
ANY_WORDS = {name: [(answer, "") for answer in answers] for name, answers in WRONG.items()}
test_right, test_stubs, test_nonsense, _ = exercise_tests(exercises.EXERCISES, RIGHT, ANY_WORDS, STUBS)


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in WRONG.items() for answer in answers])
def test_a_wrong_answer_gains_less_and_is_told_why(name, answer, capsys):
    result = check(name, answer)
    said = capsys.readouterr().out
    assert result.points < result.max_points and "not yet" in said or "not attempted" in said
    assert check(name, answer).points == result.points
    assert "cannot be checked" not in said or not callable(answer)


def test_the_commonest_mistakes_get_their_own_sentence(capsys):
    for number, mistake in enumerate(
        (
            lambda t, b: [t[i : i + b] for i in range(0, len(t) - b + 1, b)],
            lambda n, b, f: f[: n // b],
            lambda t, n, b: [t[p // b] for p in range(n)],
        )
    ):
        check("5.2-data-flow", tuple(mistake if i == number else f for i, f in enumerate(FLOW)))
    check("5.2-merge", merging.merge_with(o_factors=(False, False)))
    said = capsys.readouterr().out
    for words in (
        "last block that is not full are missing",
        "needs a physical block too",
        "which place in the block",
        "they share one base",
    ):
        assert words in said


@pytest.mark.parametrize("case", CONSEQUENCES)
def test_the_consequences_are_what_happens(case):
    tables, lengths, wrong = {"A": [0, 4, 6], "B": [1, 5]}, {"A": 10, "B": 6}, int(case.split()[-1])
    entries = [wrong, 5] if case.startswith("first") else [1, wrong]
    held = {tables[name][p // 4] * 4 + p % 4: name for name, n in lengths.items() for p in range(n)}
    slot = entries[6 // 4] * 4 + 6 % 4
    read = "error" if max(entries) >= 8 else "B"
    assert CONSEQUENCES[case] == (read, "error" if slot >= 32 else held.get(slot, "nobody"))


def test_hints_name_what_to_look_at(capsys):
    check("5.2-consequences", {**CONSEQUENCES, "last entry 4": ("A", "A"), "last entry 6": ("B", "A")})
    check("5.2-owner", lambda *a: (owner_by_listing(*a)[0], a[0]) if owner_by_listing(*a) else None)
    check("5.2-suspects", lambda t, r: [block for block in suspects_by_subtracting(t, r) if block >= 0])
    said = capsys.readouterr().out
    assert said.count("through whose table") == said.count("position 6 goes to slot") == 2 and "is wrong" not in said
    assert "logical block · block size + offset" in said and "below 0, or not below len(ref_counts)" in said


SPOKEN = [
    (
        "5.2-owner",
        lambda s, t, b: wrong_entry._owner_without(beyond=1)(s, t, b),
        "position num_tokens itself is not stored",
    ),
    (
        "5.2-owner",
        lambda s, t, b: owner_by_listing(s, t, b) and ("B", 9),
        "your function(8, {'A': ([5, 2], 7), 'B': ([3], 4)}, 4) should return ('A', 4)",
    ),
    ("5.2-stations", [*STATIONS[1:3], STATIONS[0], *STATIONS[3:]], "entry 0: the string is not the right one"),
    ("5.2-damage", lambda *a: wrong_entry.damage(*a, size=lambda change: change.max()), "take abs before max"),
    ("5.2-damage", lambda *a: wrong_entry.damage(*a, size=lambda change: -change.min()), "take abs before max"),
    (
        "5.2-damage",
        lambda *a: wrong_entry.damage(*a, size=lambda change: change.abs().mean()),
        "the largest change is asked for",
    ),
    ("5.2-suspects", lambda t, r: [], "your function({'A': [0, 3], 'B': [0, 2]}, [2, 1, 1, 0]) should return [1, 3]"),
    ("5.2-suspects", lambda t, r: [0], "your function({'A': [0, 1], 'B': [0, 2]}, [2, 1, 1, 0]) should return []"),
    (
        "5.2-merge",
        lambda a, b: (*merging.merge(a, b)[:2], merging.merge(a, b)[2] / (merging.merge(a, b)[1] or 1)),
        "o stays unnormalised",
    ),
    ("5.2-break", (BLOCKS[0][::-1], *BLOCKS[1:]), "the first version still gives the right output"),
]


SPOKEN += [(name, *pair) for name, pairs in STRUCTURED.items() for pair in pairs]


@pytest.mark.parametrize(("name", "answer", "words"), SPOKEN)
def test_what_is_said(name, answer, words, capsys):
    result = check(name, answer)
    assert words in capsys.readouterr().out
    assert result.points < result.max_points


def test_every_exercise_has_three_wrong_answers_that_somebody_thought_about():
    assert set(STRUCTURED) == set(WRONG) and all(len(pairs) >= 3 for pairs in STRUCTURED.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wrong_versions_are_right_on_an_easy_input(version):
    easy = [([0.0, 1.0], [1.0, 2.0]), ([0.0, 1.0], [3.0, 4.0])]
    assert version(easy) == pytest.approx(in_one_piece(easy))


def test_parts_are_judged_one_by_one():
    assert check("5.2-data-flow", (FLOW[0], stub, lambda t, n, b: [])).points == 1
    for part, answer in zip(find("5.2-break").parts, BLOCKS, strict=True):
        part.test(answer)
        with pytest.raises((Wrong, NotAttempted)):
            part.test([([0.0], [1.0])])


# Pictures

TOKENS, LOGICAL, TABLE, SLOTS = list("PAGED"), [list("PAGE"), ["D"]], [2, 0], [8, 9, 10, 11, 0]


def words(canvas, row: str) -> list[str]:
    """The texts of one row, from the left; the row's name first."""
    found = [
        shape
        for kind, shape in canvas.shapes
        if kind == "text" and pictures.ROWS[row] <= shape["y"] <= pictures.ROWS[row] + 28
    ]
    return [shape["text"] for shape in sorted(found, key=lambda shape: shape["x"])]


def test_each_row_shows_what_was_returned():
    canvas, alt = pictures.data_flow(TOKENS, LOGICAL, TABLE, SLOTS, 4, 3)
    assert str(TABLE) in alt and str(SLOTS) in alt
    assert [words(canvas, row)[1:] for row in pictures.ROWS] == [TOKENS, TOKENS, ["2", "0"], ["D", *"PAGE"]]
    assert words(pictures.data_flow(TOKENS, LOGICAL, TABLE, [0, 1, 2, 3, 4], 4, 3)[0], "pool")[1:] == TOKENS
    assert strokes(canvas) == {style.arrow_colour(style.REQUESTS[0]): 4}
    assert_legible(canvas.svg(alt))


def test_blocks_that_do_not_fit_are_counted():
    overlapping = [TOKENS[i : i + 4] for i in range(len(TOKENS))] * 3
    canvas, alt = pictures.data_flow(TOKENS, overlapping, TABLE, SLOTS, 4, 3)
    assert words(canvas, "logical blocks")[-1] == f"… {len(overlapping) - 6} more"
    assert_legible(canvas.svg(alt))


@pytest.mark.parametrize("nothing", [None, 5, "x", [None], {}, [[1]], [True], [1.5]])
def test_what_cannot_be_drawn_is_said(nothing):
    canvas, alt = pictures.data_flow(TOKENS, nothing, nothing, nothing, 4, 3)
    for row in ("block table", "pool"):
        assert words(canvas, row)[1:] == [
            "nothing returned yet" if nothing is None else "a list of whole numbers is needed here"
        ]
    assert canvas.svg(alt) and alt.endswith(f"slots: {'nothing returned yet' if nothing is None else nothing}.")


def test_entries_and_slots_outside_the_pool_are_not_drawn_into_it():
    canvas, _ = pictures.data_flow(TOKENS, LOGICAL, [9, -1, 1], [99, -1, 0, 1, 2], 4, 3)
    assert words(canvas, "block table")[1:] == ["9", "-1", "1"] and words(canvas, "pool")[1:] == list("GED")


# Predictions: a memory of tokens' names instead of K and V; A has blocks 0, 4, 6 and 10 tokens, B 1, 5 and 6

RIGHT_TABLES, LENGTHS = {"A": [0, 4, 6], "B": [1, 5]}, {"A": 10, "B": 6, "C": 4}


def memory_of(tables):
    """Slot -> (request, position)."""
    return {tables[name][p // 4] * 4 + p % 4: (name, p) for name in tables for p in range(LENGTHS[name])}


def tokens_read(memory, tables):
    """What each request's decode reads: the tokens, in no order, since it sums over them."""
    return {
        name: {memory.get(table[p // 4] * 4 + p % 4) for p in range(LENGTHS[name])} for name, table in tables.items()
    }


def errors():
    return sum(not 0 <= block < 8 for block in (1, 0, 2, 8))


def destroyed():
    memory = memory_of(RIGHT_TABLES)
    before = tokens_read(memory, RIGHT_TABLES)
    memory[2 * 4 + 10 % 4] = ("A", 10)
    hit = [name for name, tokens in tokens_read(memory, RIGHT_TABLES).items() if tokens != before[name]]
    return " and ".join(f"{name}'s" for name in hit) or "nobody's yet"


def later():
    own = {("C", p) for p in range(4)}
    memory = {2 * 4 + 10 % 4: ("A", 10)}
    memory |= {2 * 4 + p: ("C", p) for p in range(4)}
    first = tokens_read(memory, {"C": [2]})["C"] != own
    memory[2 * 4 + 11 % 4] = ("A", 11)
    second = tokens_read(memory, {"C": [2]})["C"] != own
    return {(False, False): "neither", (False, True): "only the second", (True, True): "both"}[first, second]


def swaps():
    swapped = [{"A": [4, 0, 6], "B": [1, 5]}, {"A": [0, 6, 4], "B": [1, 5]}, {"A": [0, 5, 6], "B": [1, 4]}]
    memory = memory_of(RIGHT_TABLES)
    right = tokens_read(memory, RIGHT_TABLES)
    cases = zip(("first", "second", "third"), swapped, strict=True)
    wrong = [number for number, tables in cases if tokens_read(memory, tables) != right]
    return " and ".join(f"the {number}" for number in wrong)


ANSWERS = {"5.2-errors": errors, "5.2-destroyed": destroyed, "5.2-later": later, "5.2-swaps": swaps}
test_answers = prediction_test(predictions.PREDICTIONS, ANSWERS)
