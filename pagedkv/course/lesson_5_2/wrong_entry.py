"""Exercises of the second question of lesson 5.2: block, slot and block table, and what one wrong entry does."""

import math

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


STATIONS = ["position", "logical block and offset", "block table", "physical block and offset", "slot", "address"]


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


def _owner_in_part(slot, tables, block_size):
    """The last block is taken to hold num_tokens % block_size tokens."""
    found = owner(slot, tables, block_size)
    table, num_tokens = tables[found[0]] if found else ([], 1)
    return None if table[-1:] == [slot // block_size] and num_tokens % block_size == 0 else found


def _slot_for_position(slot, tables, block_size):
    found = owner(slot, tables, block_size)
    return found and (found[0], slot)


def _draw_owners(rng):
    yield from ((slot, {"A": ([5, 2], 7), "B": ([3], 4)}, 4) for slot in (8, 11, 15, 16, 22))
    yield from ((slot, {"A": ([2, 0], 7), "B": ([1], 4)}, 4) for slot in range(16))
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
        (lambda s, t, b: owner(s, dict([*t.items()][:1]), b), "every table has to be searched, not the first alone"),
        (_owner_in_part, "num_tokens % block_size is 0 where the last block is full, and all of it counts"),
        (lambda s, t, b: owner(s, t, b) and (owner(s, t, b)[0], s % b),
         "this is the offset in the block; the blocks before it in the table hold tokens too"),
        (lambda s, t, b: (owner(s, t, b) or (None,))[0], "the position is asked for too"),
    )),
))  # fmt: skip
ORDER = Exercise("5.2-stations", "from token to address", (
    equals("the order", STATIONS, mistakes=(
        (["position", "block table", "logical block and offset", *STATIONS[3:]],
         "which entry of the table to read has to be known before it is read"),
        ([*STATIONS[:2], "physical block and offset", "block table", *STATIONS[4:]],
         "the physical block is what the table says, so the table is read first"),
        (["logical block and offset", "position", *STATIONS[2:]],
         "logical block and offset are computed from the position"),
        ([*STATIONS[:4], "address", "slot"], "the address is computed from the slot"),
        ([*STATIONS[:3], "slot", "physical block and offset", "address"],
         "the slot is counted over the whole pool: it is computed from the physical block and the offset"),
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

        def together(tables, attend=attend):
            outputs = attend(tables)
            return {name: output + sum(outputs.values()) / 2 for name, output in outputs.items()}

        yield together, {"A": blocks[:3], "B": blocks[3:5]}, "B", 1, blocks[8]


NO_SIGN = "an output may move up or down: take abs before max"

DAMAGE = Exercise("5.2-damage", "how far outputs move", (
    calls("one wrong entry", damage, _draw_damage, points=2, mistakes=(
        (lambda *a: damage(*a, size=lambda change: change.abs().mean()),
         "the largest change is asked for, not the mean"),
        (lambda *a: damage(*a, size=lambda change: change.max()), NO_SIGN),
        (lambda *a: damage(*a, size=lambda change: -change.min()), NO_SIGN),
        (lambda *a: damage(*a, size=lambda change: change.norm()),
         "the largest change of one number is asked for, not the length of all changes"),
        (lambda *a: damage(*a, size=lambda change: change.abs().sum()), "the largest change is asked for, not the sum"),
        (lambda a, t, n, i, w: {key: moved if key == n else 0.0 for key, moved in damage(a, t, n, i, w).items()},
         "compare the outputs of every request: outputs_of may let one table reach another's output"),
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
