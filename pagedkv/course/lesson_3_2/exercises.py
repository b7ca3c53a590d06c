"""Exercises of lesson 3.2: the table of slots, and a write that skips padding; append is in `appending`."""

from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Exercise, Part, call, calls, hidden_number
from pagedkv.course.lesson_3_2.appending import APPEND

# the table of slots


def token_slots(blocks, num_tokens, block_size):
    """The slot of every token, in order."""
    return [blocks[p // block_size] * block_size + p % block_size for p in range(num_tokens)]


def _tables(random):
    for size in (1, 2, 16):
        for num_tokens in (1, size, 3 * size, 2 * size + 1):
            yield random.sample(range(7, 99), -(-num_tokens // size)), num_tokens, size
    for size in (3, 5):
        yield from (
            ([9, 0, 13, 2][: -(-num_tokens // size)], num_tokens, size) for num_tokens in range(1, 3 * size + 2)
        )


SLOT_MISTAKES = [
    (
        lambda blocks, n, b: [slot for block in blocks for slot in range(block * b, block * b + b)],
        "the empty slots of the last block hold no token: stop at num_tokens",
    ),
    (lambda blocks, n, b: list(range(n)), "those are positions; the table is not used"),
    (
        lambda blocks, n, b: [blocks[p // b] + p % b for p in range(n)],
        "a block id is not a slot: block b begins at slot b × block size",
    ),
    (lambda blocks, n, b: [s + 1 for s in token_slots(blocks, n, b)], "slots count from 0"),
    (
        lambda blocks, n, b: sorted(token_slots(blocks, n, b)),
        "the slots must be in the order of the tokens, not of the memory",
    ),
    (
        lambda blocks, n, b: [blocks[0] * b + p for p in range(n)],
        "the blocks need not follow one another: look each of them up in the table",
    ),
    (
        lambda blocks, n, b: token_slots(blocks, n // b * b, b),
        "the tokens of the last, partly filled block are missing",
    ),
    (lambda blocks, n, b: [blocks[p // b] for p in range(n)], "each token needs a slot of its own, not its block's id"),
]


# write


def write(cache, rows, slots):
    """Put each row into the slot of `cache` that `slots` names; -1 is padding."""
    keep = slots >= 0
    cache[slots[keep]] = rows[keep]


def _write_part(title, padding):
    def test(function):
        import torch

        untouched = None
        for seed in range(8):
            cache, rows, slots = _write_case(torch.Generator().manual_seed(hidden_number(seed)), padding, seed)
            right, mine = cache.clone(), cache.clone()
            write(right, rows, slots)
            result = call(function, mine, rows, slots, changes=(0,))
            if torch.equal(mine, right):
                continue
            if torch.equal(mine, cache):
                instead = "returning another one" if result is not None else "into a copy"
                untouched = f"the cache is as before: write into it, instead of {instead}"
            else:
                touched = (mine != right).flatten(1).any(1)
                kept = (mine == cache)[touched].all()
                raise Wrong(_what_is_wrong(slots, touched.nonzero().flatten().tolist(), kept))
        if untouched:
            raise Wrong(untouched)

    return Part(title, test)


def _what_is_wrong(slots, touched, kept) -> str:
    """The sentence about the slots in `touched`, which do not hold what they should; `kept`: what was there before."""
    end = {(0,): "slot 0", (SLOTS - 1,): "the last slot"}.get(tuple(touched))
    if kept and end:
        return f"{end} does not hold its row: it is as before, and only rows with slot -1 are to be skipped"
    if not bool((slots == -1).any()):
        return "some rows are not in their slots"
    if touched == [SLOTS - 1] and SLOTS - 1 not in slots:
        return "the last slot is overwritten: as an index -1 means the last one, here it means no slot at all"
    if touched == [0] and 0 not in slots:
        return "slot 0 is overwritten: rows with slot -1 must change nothing, so they may not be led to another slot"
    if end:
        return f"{end} does not hold its row: padding was led there too"
    if not kept and set(touched) <= set(slots.tolist()):
        return "slots hold the rows of others: where padding is dropped, drop it from `slots` and `rows` alike"
    return "rows with slot -1 must change nothing, and the others must all be written"


SLOTS = 12


def _write_case(generator, padding, seed):
    """(cache, rows, slots). The first slot, the last, both and neither take turns among those that are written."""
    import torch

    cache = torch.randn(SLOTS, 2, 3, generator=generator)
    ends = [slot for slot, wanted in ((0, seed % 4 in (0, 2)), (SLOTS - 1, seed % 4 in (1, 2))) if wanted]
    inner = 1 + torch.randperm(SLOTS - 2, generator=generator)
    slots = torch.tensor([*ends, *inner.tolist()][: 5 - padding] + [-1] * padding, dtype=torch.int64)
    slots = slots[torch.randperm(5, generator=generator)]
    return cache, torch.randn(5, 2, 3, generator=generator), slots


EXERCISES = [
    APPEND,
    Exercise(
        "3.2-slots",
        "the other table: one slot for each token",
        (
            calls("the 50 tokens of the example", token_slots, [([12, 7, 42, 3], 50, 16)], mistakes=SLOT_MISTAKES),
            calls("other tables and block sizes", token_slots, _tables, mistakes=SLOT_MISTAKES),
            calls("an empty table", token_slots, [([], 0, 16)]),
        ),
        only_with=dict.fromkeys(("the 50 tokens of the example", "an empty table"), "other tables and block sizes"),
    ),
    Exercise(
        "3.2-write",
        "write rows to their slots, and skip padding",
        (
            _write_part("without padding", 0),
            _write_part("with padding", 2),
            _write_part("nothing but padding", 5),
        ),
        only_with={"nothing but padding": "with padding"},
    ),
]
