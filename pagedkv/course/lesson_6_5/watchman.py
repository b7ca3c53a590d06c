"""The exercise of lesson 6.5 that finds faults: a watchman over what an engine holds and writes."""

from collections.abc import Sequence

from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part, calls
from pagedkv.course.lesson_6_5.faults import Seen


def first_fault(seen, num_blocks, right):
    """(step, "leak" | "given away" | "tokens") of the first fault, None where there is none."""
    for step, now in enumerate(seen):
        named = {block for table in now.tables.values() for block in table}
        if num_blocks - now.free != len(named):
            return step, "leak" if num_blocks - now.free > len(named) else "given away"
        if any(words != right[number][: len(words)] for number, words in now.written.items()):
            return step, "tokens"
    return None


def _record(random, kinds):
    """(seen, num_blocks, right) of a run made up here, with one fault of each of `kinds` from some step on."""
    num_blocks, size, count = random.choice((10, 14)), 2, random.randrange(2, 4)
    right = {i: [random.randrange(9) for _ in range(random.randrange(4, 8))] for i in range(count)}
    steps = max(map(len, right.values())) + 1
    from_step = {one: random.randrange(1, steps - 2) for one in kinds}
    wrong = random.randrange(count)
    ids, shared = random.sample(range(num_blocks), num_blocks), random.randrange(2)
    tables, seen = {i: [ids[0]] if shared else [] for i in range(count)}, []
    spare = ids[1:]
    for step in range(steps):
        words = {i: text[: step + 1] for i, text in right.items()}
        for i in list(tables):
            if len(words[i]) == len(right[i]):
                spare += [block for block in tables.pop(i) if not (shared and block == ids[0])]
            elif len(tables[i]) < 1 + len(words[i]) // size and len(spare) > 1:
                tables[i].append(spare.pop(0))
        named = {block for table in tables.values() for block in table}
        off = sum(sign for one, sign in (("leak", -1), ("given away", 1)) if step >= from_step.get(one, steps))
        if step >= from_step.get("tokens", steps):
            words[wrong] = [*words[wrong]]
            at = min(from_step["tokens"], len(words[wrong]) - 1)
            words[wrong][at] += 1
        seen.append(Seen(num_blocks - len(named) + off, {i: [*t] for i, t in tables.items()}, words, [], []))
    return seen, num_blocks, right


def _holdings(random):
    yield [Seen(3, {0: [5, 1], 1: [5, 2]}, {0: [7], 1: [8]}, [], [])], 6, {0: [7, 7], 1: [8]}
    yield [Seen(6, {}, {0: [7]}, [0], [])], 6, {0: [7]}
    yield [Seen(5, {}, {0: [7]}, [0], [])], 6, {0: [7]}
    yield [Seen(4, {0: [1]}, {0: [7]}, [], []), Seen(5, {0: [1, 3]}, {0: [7, 7]}, [], [])], 6, {0: [7, 7]}
    yield [Seen(5, {0: [1]}, {0: [7]}, [], []), Seen(5, {0: [1, 3]}, {0: [7, 7]}, [], [])], 6, {0: [7, 7]}
    for _ in range(8):
        yield from (_record(random, []), _record(random, ["leak"]), _record(random, ["given away"]))


def _written(random):
    yield [Seen(5, {0: [1]}, {0: [7]}, [], []), Seen(4, {0: [1, 2]}, {0: [7, 8]}, [], [])], 6, {0: [7, 7]}
    yield [Seen(6, {}, {0: [7], 1: [3]}, [], [])], 6, {0: [7], 1: [4]}
    yield [Seen(3, {0: [1]}, {0: [6]}, [], [])], 6, {0: [7]}
    for words in ([6, 7], [8, 6, 7]):
        yield [Seen(5, {0: [1]}, {0: words}, [], [])], 6, {0: [7, 7, 7, 7]}
    yield [Seen(5, {0: [1]}, {0: []}, [], []), Seen(5, {0: [1]}, {0: [7]}, [], [])], 6, {0: [7]}
    for _ in range(8):
        yield from (_record(random, []), _record(random, ["tokens"]))
        yield from (_record(random, ["tokens", "leak"]), _record(random, ["tokens", "given away"]))


def _judging(
    named=lambda tables: len({block for table in tables for block in table}), words=lambda now, mine, right: (
        mine == right[: len(mine)]), books=("leak", "given away"), books_first=True, look=lambda seen: enumerate(seen),
    whose=lambda now: now.written,
):  # fmt: skip
    """`first_fault` with a slip in one place."""

    def wrong(seen, num_blocks, right):
        for step, now in look(seen):
            count = named(now.tables.values())
            said = books[0] if num_blocks - now.free > count else books[1] if num_blocks - now.free < count else None
            spoilt = any(not words(now, now.written[i], right[i]) for i in whose(now))
            for one in (said, "tokens" if spoilt else None)[:: 1 if books_first else -1]:
                if one:
                    return step, one
        return None

    return wrong


def _changed(change):
    def wrong(*case):
        found = first_fault(*case)
        return found if found is None else change(*found)

    return wrong


def _in_two_passes(whose=lambda now: now.written):
    books = _judging(words=lambda now, mine, right: True)
    tokens = _judging(books=(None, None), whose=whose)
    return lambda *case: books(*case) or tokens(*case)


MISTAKES = (
    (_judging(named=lambda tables: sum(map(len, tables))),
     "a block that two requests share stands in two tables, and is one block"),
    (_judging(books=("given away", "leak")),
     "it is a leak when more blocks are taken than tables name, and given away when fewer are"),
    (_judging(books=("leak", "leak")), "a block that a table names and the pool calls free is given away, not leaked"),
    (_judging(books=("leak", None)), "a block that a table names and the pool calls free is given away"),
    (_judging(books=(None, "given away")), "a block that is neither free nor named by any table has leaked"),
    (_judging(books=(None, None)), "blocks are not looked at: compare how many are taken with how many tables name"),
    (_judging(words=lambda now, mine, right: mine == right),
     "an answer that is still being written is shorter than the right one: compare as far as it goes"),
    (_judging(words=lambda now, mine, right: True), "tokens are not compared"),
    (_judging(words=lambda now, mine, right: mine[-1:] == right[: len(mine)][-1:]),
     "all that is written counts, not only the newest token"),
    (_judging(books_first=False), "in one step blocks are looked at before tokens"),
    (_judging(whose=lambda now: now.tables), "the tokens of requests that have ended are looked at too"),
    (_in_two_passes(),
     "tokens that go wrong in one step come before blocks that go wrong in a later one: look at both, step by step"),
    (_in_two_passes(whose=lambda now: now.tables),
     "look at blocks and at tokens step by step, and at the tokens of requests that do not run too"),
    (_judging(look=lambda seen: list(enumerate(seen))[::-1]), "the first step that shows a fault is asked for"),
    (_changed(lambda step, what: (step + 1, what)), "steps count from 0"),
    (_changed(lambda step, what: what), "(step, what) is expected"),
    (_changed(lambda step, what: step), "(step, what) is expected"),
    (_changed(lambda step, what: (what, step)), "the step comes first: (step, what)"),
)  # fmt: skip

CHOICES = (
    "an end keeps a block",
    "a victim keeps a block",
    "free forgets the other owners",
    "a victim comes back without its K and V",
    "attention misses the newest token",
    "two requests get one new block",
)
RIGHT = {"A": CHOICES[1], "B": CHOICES[2], "C": CHOICES[3]}
NEVER_WRONG = "its tokens are right to the end, so K and V are where they are looked for"
NO_LEAK = "no block is ever missing from the books"
WHY = {
    "A": {
        CHOICES[0]: "when the first block is lost nobody has ended yet",
        CHOICES[2]: "blocks are missing from the free ones, none is free too early",
        CHOICES[3]: NEVER_WRONG, CHOICES[4]: NEVER_WRONG, CHOICES[5]: NEVER_WRONG,
    },
    "B": {
        CHOICES[0]: NO_LEAK + ": one is free that a table names",
        CHOICES[1]: NO_LEAK + ": one is free that a table names",
        CHOICES[3]: "its books go wrong before its tokens do, so it begins with a block",
        CHOICES[4]: "its books go wrong before its tokens do, so it begins with a block",
        CHOICES[5]: "the blocks that are free too early are those of the common beginning, no new ones",
    },
    "C": {
        CHOICES[0]: NO_LEAK, CHOICES[1]: NO_LEAK, CHOICES[2]: "no block is free that a table names",
        CHOICES[4]: "every request would then be wrong from its first tokens on",
        CHOICES[5]: "no block stands in two tables that do not share it; look at who is wrong, and when it was away",
    },
}  # fmt: skip


def _who(answer: Sequence[str]) -> None:
    if not isinstance(answer, (tuple, list)) or len(answer) != len(RIGHT):
        raise Wrong(f"three of the six sentences are expected, for A, B and C, not {kind(answer)}")
    for engine, said in zip(RIGHT, answer, strict=True):
        if said is None or said is Ellipsis:
            raise Wrong(f"engine {engine} has no answer yet")
        if not isinstance(said, str) or said not in CHOICES:
            raise Wrong(f"what is said of engine {engine} is none of the six sentences")
        if said != RIGHT[engine]:
            raise Wrong(f"engine {engine}: {WHY[engine][said]}")


FAULTS = Exercise(
    "6.5-faults",
    "three faults",
    (
        calls("what is held", first_fault, _holdings, mistakes=MISTAKES, of=0),
        calls("what is written", first_fault, _written, mistakes=MISTAKES, of=0),
        Part("A, B and C", _who, points=2, of=1),
    ),
)
