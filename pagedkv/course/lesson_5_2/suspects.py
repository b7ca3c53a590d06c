"""The exercise of lesson 5.2 in which an engine looks at its tables: which blocks do their reference counts accuse?"""

from collections import Counter

from pagedkv.course.judge.exercise import Exercise, calls


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


def _suspects_by_tables(tables, ref_counts):
    """A block counts once for each table, however often it stands in it."""
    return suspects({name: list(dict.fromkeys(table)) for name, table in tables.items()}, ref_counts)


def _suspects_one_sided(too_many):
    """Only blocks with more entries than owners, or only those with fewer."""

    def wrong(tables, ref_counts):
        held = Counter(block for table in tables.values() for block in table)
        return [
            block
            for block in suspects(tables, ref_counts)
            if block not in range(len(ref_counts)) or (held[block] > ref_counts[block]) == too_many
        ]

    return wrong


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
        (_suspects_by_tables, "a block that stands twice in one table has two entries: count entries, not tables"),
        (_suspects_one_sided(True), "the block that lost its entry is a suspect as well: nobody will ever free it"),
        (_suspects_one_sided(False), "a block with more entries than its count says is a suspect as well"),
        (_suspects_in_tables, "the block that lost its entry is a suspect as well: nobody will ever free it"),
    )),
), {"tables in order, shared blocks included": "a wrong entry"})  # fmt: skip
