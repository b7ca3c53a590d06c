"""Exercises of the second question of lesson 5.2: block, slot and block table, and what one wrong entry does."""

import math
from collections import Counter

from pagedkv.course.judge.calling import NotAttempted
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Exercise, Part, calls, equals

# The roles

STATEMENTS = {
    "a": "It is what the allocator gives out and takes back.",
    "b": "It holds the K and V of one token.",
    "c": "It keeps the reading order of one sequence.",
    "d": "Its number is what an entry of the third one holds.",
    "e": "Its number tells the kernel where to write a new token's K and V.",
    "f": "Changing one number in it makes attention read other memory, without an error.",
}
ROLES = {"block": {"a", "d"}, "slot": {"b", "e"}, "block table": {"c", "f"}}


def _role(role):
    def test(answer):
        if not isinstance(answer, dict) or set(answer) != set(STATEMENTS):
            raise Wrong(f"a dict with the keys {', '.join(STATEMENTS)} is expected")
        if any(value is ... for value in answer.values()):
            raise NotAttempted
        for value in answer.values():
            if not isinstance(value, str) or value.strip().casefold() not in ROLES:
                raise Wrong(f"each value must be one of {', '.join(map(repr, ROLES))}")
        given = {letter for letter, value in answer.items() if value.strip().casefold() == role}
        if given != ROLES[role]:
            raise Wrong(
                "a statement is given to it that belongs elsewhere"
                if given - ROLES[role]
                else "one of its statements is missing"
            )

    return Part(f"what is said of the {role}", test)


STATIONS = ["position", "logical block and offset", "block table", "physical block and slot", "address"]


def owner(slot, tables, block_size):
    for name, (table, num_tokens) in tables.items():
        if slot // block_size in table:
            position = table.index(slot // block_size) * block_size + slot % block_size
            if position < num_tokens:
                return name, position
    return None


def _owner_without(beyond=0, table=True):
    """The owner, if positions up to `beyond` past the end counted too, or without looking into the table."""

    def wrong(slot, tables, block_size):
        for name, (blocks, num_tokens) in tables.items():
            if slot // block_size in blocks:
                logical = blocks.index(slot // block_size) if table else slot // block_size
                position = logical * block_size + slot % block_size
                if position < num_tokens + beyond:
                    return name, position
        return None

    return wrong


def _slot_for_position(slot, tables, block_size):
    found = owner(slot, tables, block_size)
    return found and (found[0], slot)


def _draw_owners(rng):
    yield from ((slot, {"A": ([5, 2], 7), "B": ([3], 4)}, 4) for slot in (8, 11, 15, 16, 22))
    for size in (2, 4, 8):
        blocks = rng.sample(range(2, 12), 7)
        tables = {"A": (blocks[:3], 3 * size - 1), "B": (blocks[3:5], 2 * size), "C": (blocks[5:6], 1)}
        for slot in range(2 * size, 12 * size):
            yield slot, tables, size


ROLES_BY_WORD = Exercise("5.2-roles", "who does what", tuple(map(_role, ROLES)))
ROLES_BY_CODE = Exercise("5.2-owner", "from a slot back to its token", (
    calls("the owner of every slot of a pool", owner, _draw_owners, points=2, mistakes=(
        (_owner_without(beyond=1), "positions count from 0, so position num_tokens itself is not stored yet"),
        (_owner_without(beyond=math.inf), "a slot of the last block behind num_tokens holds no token yet"),
        (_owner_without(table=False),
         "the physical block's number is no position in the sequence; where in the table does it stand?"),
        (_slot_for_position, "this is the slot; the position is logical block · block size + offset"),
        (_owner_without(beyond=math.inf, table=False),
         "this is the slot; the position is logical block · block size + offset"),
        (lambda s, t, b: (owner(s, t, b) or (None,))[0], "the position is asked for too"),
    )),
))  # fmt: skip
ORDER = Exercise("5.2-stations", "from token to address", (
    equals("the order", STATIONS, mistakes=(
        (["position", "block table", "logical block and offset", "physical block and slot", "address"],
         "which entry of the table to read has to be known before it is read"),
        (STATIONS[::-1], "this is the way back; begin with the token"),
    )),
))  # fmt: skip

# One wrong entry


def damage(attend, tables, name, logical_block, wrong_block, size=lambda change: change.abs().max()):
    before = attend(tables)
    changed = {**tables, name: list(tables[name])}
    changed[name][logical_block] = wrong_block
    after = attend(changed)
    return {request: size(after[request] - before[request]).item() for request in tables}


def _draw_damage(rng):
    import torch

    for size in (2, 4):
        values = torch.randn(
            9, size, 8, generator=torch.Generator().manual_seed(rng.randrange(2**32)), dtype=torch.float64
        )

        def attend(tables, values=values):
            return {
                name: torch.cat([values[block] for block in table]).mean(0, keepdim=True)
                for name, table in tables.items()
            }

        blocks = rng.sample(range(9), 9)
        for logical_block, wrong_block in ((0, blocks[4]), (2, blocks[0]), (1, blocks[7])):
            yield attend, {"A": blocks[:3], "B": blocks[3:5], "C": blocks[5:6]}, "A", logical_block, wrong_block


NO_SIGN = "an output may move up or down: take abs before max"

DAMAGE = Exercise("5.2-damage", "how far outputs move", (
    calls("one wrong entry", damage, _draw_damage, points=2, mistakes=(
        (lambda *a: damage(*a, size=lambda change: change.abs().mean()),
         "the largest change is asked for, not the mean"),
        (lambda *a: damage(*a, size=lambda change: change.max()), NO_SIGN),
        (lambda *a: damage(*a, size=lambda change: -change.min()), NO_SIGN),
        (lambda a, t, n, i, w: {n: damage(a, t, n, i, w)[n]},
         "every request is asked for, those that do not change too"),
    )),
))  # fmt: skip

WORDS = ("A", "B", "nobody", "error")
CONSEQUENCES = {
    "last entry 4": (("B", "A"), "position 6 goes to slot 4 · 4 + 2; does a token lie there, and whose?"),
    "last entry 6": (("B", "nobody"), "position 6 goes to slot 6 · 4 + 2; does a token of A lie there already?"),
    "first entry 4": (("B", "nobody"), "through which entry does position 6 go, and is that one wrong?"),
    "last entry 8": (("error", "error"), "the pool has the blocks 0 to 7, and a cache on a CPU looks at every slot"),
}


def _consequence(case, right, of_the_write):
    of_the_read = (
        "on a CPU every entry is looked at first."
        if right[0] == "error"
        else "through whose table does that entry get read?"
    )

    def test(answer):
        words = isinstance(answer, (tuple, list)) and all(isinstance(word, str) for word in answer)
        if not words or len(answer) != 2 or not set(answer) <= set(WORDS):
            raise Wrong(f"a pair is expected, (read, write), each one of {', '.join(map(repr, WORDS))}")
        if tuple(answer) != right:
            raise Wrong(f"the pair is not right. The read: {of_the_read} The write: {of_the_write}")

    return Part(case, test, of=case)


HARMS = tuple(_consequence(case, *rest) for case, rest in CONSEQUENCES.items())
HARM = Exercise("5.2-consequences", "what a wrong entry does", HARMS, {
    # in twos with other answers, so that no one answer earns a point
    "last entry 4": "last entry 6", "last entry 6": "last entry 4",
    "first entry 4": "last entry 8", "last entry 8": "first entry 4",
})  # fmt: skip


def suspects(tables, ref_counts):
    held = Counter(block for table in tables.values() for block in table)
    known = range(len(ref_counts))
    return sorted(
        {block for block in held if block not in known} | {block for block in known if held[block] != ref_counts[block]}
    )


def _suspects_without_counts(tables, ref_counts):
    held = Counter(block for table in tables.values() for block in table)
    return sorted(block for block in held if held[block] > 1 or block not in range(len(ref_counts)))


def _suspects_without(*, below_0, past_the_end):
    def wrong(tables, ref_counts):
        found = suspects(tables, ref_counts)
        return [block for block in found if not (below_0 and block < 0 or past_the_end and block >= len(ref_counts))]

    return wrong


def _suspects_in_tables(tables, ref_counts):
    held = {block for table in tables.values() for block in table}
    return [block for block in suspects(tables, ref_counts) if block in held]


IN_ORDER = {"A": [0, 1], "B": [0, 2]}, [2, 1, 1, 0]
WRONG_ENTRIES = [({"A": [0, block], "B": [0, 2]}, IN_ORDER[1]) for block in (3, 2, 4, -1)]


def _draw_suspects(rng):
    for _ in range(3):
        blocks = rng.sample(range(12), 12)
        tables = {"A": blocks[:4], "B": blocks[:2] + blocks[4:6], "C": blocks[6:7]}
        counts = Counter(block for table in tables.values() for block in table)
        ref_counts = [counts[block] for block in range(12)]
        yield tables, ref_counts
        for wrong in (blocks[6], blocks[2], blocks[9], 12, 40, -1):
            yield {**tables, "A": [*blocks[:3], wrong]}, ref_counts


NO_BLOCK = "an entry that names no block (below 0, or not below len(ref_counts)) is a suspect too"

FIND = Exercise("5.2-suspects", "what an engine can check", (
    calls("tables in order, shared blocks included", suspects,
          lambda rng: [IN_ORDER, *(c for i, c in enumerate(_draw_suspects(rng)) if i % 7 == 0)]),
    calls("a wrong entry", suspects, lambda rng: [*WRONG_ENTRIES, *_draw_suspects(rng)], points=2, mistakes=(
        (_suspects_without_counts,
         "a shared block stands in several tables by right; its reference count says in how many"),
        (_suspects_without(below_0=True, past_the_end=True), NO_BLOCK),
        (_suspects_without(below_0=True, past_the_end=False), NO_BLOCK),
        (_suspects_without(below_0=False, past_the_end=True), NO_BLOCK),
        (_suspects_in_tables, "the block that lost its entry is a suspect as well: nobody will ever free it"),
    )),
), {"tables in order, shared blocks included": "a wrong entry"})  # fmt: skip
