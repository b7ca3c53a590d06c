"""Lesson 3.3: what its checks accept and refuse, and that its pictures show what the tables share."""

import random
from functools import partial

import pytest
from exercise_rules import exercise_tests
from picture_rules import assert_legible, assert_to_scale, heights, texts, widths
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_3_3 import copy_on_write, exercises, match, names, pictures, predictions, widgets
from pagedkv.prefix_cache import PrefixCache
from pagedkv.simulation.sharing import SharedRequest

# Exercises


class StubPool:
    def free(self, blocks): ...


def cow_without_pop_first(blocks, num_tokens, refs, free_blocks, block_size):
    copy = None
    partial = num_tokens % block_size != 0
    if not partial or refs[blocks[-1]] > 1:
        new = free_blocks.pop()
        refs[new] += 1
        if partial:
            old = blocks.pop()
            refs[old] -= 1
            copy = [old, new]
        blocks.append(new)
    return [blocks[-1] * block_size + num_tokens % block_size, copy]


class LeakyPool:
    def __init__(self, num_blocks):
        self.free_blocks = list(range(num_blocks))
        self.refs = [0] * num_blocks

    def allocate(self, n):
        blocks = [self.free_blocks.pop() for _ in range(n)]
        for block in blocks:
            self.refs[block] = 1
        return blocks

    def share(self, blocks):
        for block in blocks:
            self.refs[block] += 1

    def free(self, blocks):
        shared = any(self.refs[block] > 1 for block in blocks)
        for block in blocks:
            self.refs[block] -= 1
        if not shared:
            self.free_blocks += blocks


class Mended(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.free_blocks.append(block)


class MendedInOne(LeakyPool):
    def free(self, blocks):
        last = [block for block in blocks if self.refs[block] == 1]
        self.refs = [refs - (block in blocks) for block, refs in enumerate(self.refs)]
        self.free_blocks.extend(last)


class FreesShared(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
        self.free_blocks += blocks


class ForgetsToCount(LeakyPool):
    def free(self, blocks):
        self.free_blocks += [block for block in blocks if self.refs[block] == 1]


class CountsTheLastOnly(LeakyPool):
    def free(self, blocks):
        self.free_blocks += [block for block in blocks if self.refs[block] <= 1]
        for block in blocks:
            self.refs[block] = max(self.refs[block] - 1, 1)


class ReturnsTwice(LeakyPool):
    def free(self, blocks):
        Mended.free(self, blocks)
        self.free_blocks += [block for block in blocks if self.refs[block] == 0]


class OnlyUnshared(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            if self.refs[block] == 1:
                self.refs[block] = 0
                self.free_blocks.append(block)


def sharing_with_tables(prompt_tokens, generated, num_samples, block_size):
    pool = BlockPool(400, block_size)
    table = BlockTable(pool)
    table.append(prompt_tokens)
    for sample in [table, *(table.fork() for _ in range(num_samples - 1))]:
        sample.append(generated)
    return 400 - pool.num_free


def sharing_by_saving(prompt_tokens, generated, num_samples, block_size):
    without = num_samples * -(-(prompt_tokens + generated) // block_size)
    return without - (num_samples - 1) * (prompt_tokens // block_size)


def chained(update=None):
    """A right block_names; `update(name, block, salt, identity)` makes the next name."""
    update = update or (lambda name, block, *owner: (name, block))

    def block_names(token_ids, block_size, salt=None, identity=None):
        names, name = [], (salt, identity)
        for end in range(block_size, len(token_ids) + 1, block_size):
            name = update(name, tuple(token_ids[end - block_size : end]), salt, identity)
            names.append(name)
        return names

    return block_names


def of_prefixes(name_of):
    """name_of(tokens up to the block's end, tokens of the block, salt, identity) -> name."""

    def block_names(token_ids, block_size, salt=None, identity=None):
        ends = range(block_size, len(token_ids) // block_size * block_size + 1, block_size)
        return [name_of(token_ids[:end], token_ids[end - block_size : end], salt, identity) for end in ends]

    return block_names


def with_the_block_before(token_ids, block_size, salt=None, identity=None):
    ends = range(block_size, len(token_ids) + 1, block_size)
    return [(*token_ids[max(0, end - 2 * block_size) : end], end == block_size, salt, identity) for end in ends]


def of_every_piece(token_ids, block_size, salt=None, identity=None):
    return [(tuple(token_ids[: start + block_size]), salt, identity) for start in range(0, len(token_ids), block_size)]


def without_the_last(token_ids, block_size, salt=None, identity=None):
    return prefixes(token_ids, block_size, salt, identity)[:-1]


def of_the_whole_prompt(token_ids, block_size, salt=None, identity=None):
    return [(tuple(token_ids), i, salt, identity) for i in range(len(token_ids) // block_size)]


def salt_in_the_first(token_ids, block_size, salt=None, identity=None):
    names = prefixes(token_ids, block_size, None, identity)
    return [(salt, names[0]), *names[1:]] if names else names


prefixes = of_prefixes(lambda before, block, *owner: (tuple(before), owner))


def by_hand(token_ids, block_size, known, salt=None, identity=None):
    names = prefixes(token_ids, block_size, salt, identity)[: max(0, len(token_ids) - 1) // block_size]
    blocks = [known.get(name) for name in names]
    return blocks[: blocks.index(None)] if None in blocks else blocks


def finds_the_last_token(token_ids, *rest):
    return by_hand([*token_ids, 0], *rest)


def drops_the_last(*case):
    return by_hand(*case)[:-1]


def skips_gaps(token_ids, block_size, known, *owner):
    return [known[name] for name in prefixes(token_ids[:-1], block_size, *owner) if name in known]


def all_or_nothing(token_ids, block_size, known, *owner):
    due = prefixes(token_ids[:-1], block_size, *owner)
    return [known[name] for name in due] if all(name in known for name in due) else []


def gives_names(token_ids, block_size, known, *owner):
    names = prefixes(token_ids[:-1], block_size, *owner)
    return names[: len(by_hand(token_ids, block_size, known, *owner))]


def takes_them_out(token_ids, block_size, known, *owner):
    blocks = by_hand(token_ids, block_size, known, *owner)
    known.clear()
    return blocks


def from_the_end(token_ids, block_size, known, *owner):
    names = prefixes(token_ids[:-1], block_size, *owner)
    for length in range(len(names), 0, -1):
        if names[length - 1] in known:
            return [known.get(name, -1) for name in names[:length]]
    return []


def one_too_few(token_ids, block_size, known, *owner):
    return by_hand(token_ids[:-1], block_size, known, *owner)


def needs_a_known_block(token_ids, block_size, known, *owner):
    return by_hand(token_ids, block_size, known, *owner) or None


RIGHT = {
    "3.3-names": [names.block_names, prefixes, chained()],
    "3.3-match": [(names.block_names, match.match), (prefixes, by_hand)],
    "3.3-shared": [exercises.blocks_with_sharing, sharing_with_tables, sharing_by_saving],
    "3.3-cow": [copy_on_write.append_one, cow_without_pop_first],
    "3.3-leak": [(3, Mended), (3, MendedInOne)],
}


def changed_cow(then):
    """The right append of one token, with (table, reference counts, slot, copy) changed afterwards."""

    def function(blocks, num_tokens, refs, free_blocks, block_size):
        return then(blocks, refs, *copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size))

    return function


def cow_elsewhere(blocks, num_tokens, refs, free_blocks, block_size):
    return copy_on_write.append_one(list(blocks), num_tokens, refs, free_blocks, block_size)


def never_counts(blocks, num_tokens, refs, free_blocks, block_size):
    return copy_on_write.append_one(blocks, num_tokens, [*refs], free_blocks, block_size)


def new_block_not_counted(blocks, num_tokens, refs, free_blocks, block_size):
    result = copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    refs[blocks[-1]] *= num_tokens % block_size > 0
    return result


def own_block_not_counted(blocks, num_tokens, refs, free_blocks, block_size):
    known = list(blocks)
    result = copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    refs[blocks[-1]] *= blocks != known
    return result


def copies(blocks, num_tokens, refs, free_blocks, block_size, when):
    """Copies the last block `when(owners)`, even where it is full."""
    if not blocks or not when(refs[blocks[-1]]):
        return copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    old, new = blocks[-1], free_blocks.pop()
    refs[old], refs[new], blocks[-1] = refs[old] - 1, 1, new
    return new * block_size + num_tokens % block_size, (old, new)


def copies_and_grows(blocks, num_tokens, refs, free_blocks, block_size):
    full_and_shared = blocks and num_tokens % block_size == 0 and refs[blocks[-1]] > 1
    always = partial(copies, when=lambda owners: True)
    pair = always(blocks, num_tokens, refs, free_blocks, block_size)[1] if full_and_shared else None
    slot, its_own = copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    return slot, pair or its_own


def shared_by_two_only(blocks, num_tokens, refs, free_blocks, block_size):
    """The visible case: a fork has two owners."""
    if num_tokens % block_size and refs[blocks[-1]] > 2:
        return blocks[-1] * block_size + num_tokens % block_size, None
    return copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)


def grows_only_what_is_shared(blocks, num_tokens, refs, free_blocks, block_size):
    """Takes a full block of its own for one that can be written on."""
    if blocks and refs[blocks[-1]] == 1:
        return blocks[-1] * block_size + num_tokens % block_size, None
    return copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)


def asks_the_first_block(blocks, num_tokens, refs, free_blocks, block_size):
    """Takes the whole table for shared if its first block is."""
    return copies(blocks, num_tokens, refs, free_blocks, block_size, when=lambda _: refs[blocks[0]] > 1)


def leaves_the_full_block(blocks, num_tokens, refs, free_blocks, block_size):
    """Gives up its share of a full block when it takes the next one."""
    if blocks and num_tokens % block_size == 0:
        refs[blocks[-1]] -= 1
    return copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)


def grows_too_early(blocks, num_tokens, refs, free_blocks, block_size):
    """Takes the next block with the token that fills the last one."""
    if num_tokens % block_size < block_size - 1:
        return copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    blocks.append(free_blocks.pop())
    refs[blocks[-1]] = 1
    return blocks[-1] * block_size + num_tokens % block_size, None


def frees_the_original(blocks, num_tokens, refs, free_blocks, block_size):
    """The block that was copied goes back to the pool, though others still read it."""
    slot, pair = copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    if pair:
        free_blocks.insert(0, pair[0])
    return slot, pair


def inherits_the_count(blocks, num_tokens, refs, free_blocks, block_size):
    """The copy gets the count of its original."""
    old = list(refs)
    slot, pair = copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    if pair:
        refs[pair[1]] = old[pair[0]]
    return slot, pair


def takes_the_first(blocks, num_tokens, refs, free_blocks, block_size):
    free_blocks.reverse()
    result = copy_on_write.append_one(blocks, num_tokens, refs, free_blocks, block_size)
    free_blocks.reverse()
    return result


class FreesAllOrNone(LeakyPool):
    """Counts first, as it should, and still gives back a table as a whole."""

    def free(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
        if not any(self.refs[block] for block in blocks):
            self.free_blocks += blocks


class TakesBlock0ForNone(LeakyPool):
    def free(self, blocks):
        Mended.free(self, [block for block in blocks if block])


class FreesAtOne(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            self.refs[block] -= 1
            if self.refs[block] <= 1:
                self.free_blocks.append(block)


class ForgetsTheOwners(LeakyPool):
    def free(self, blocks):
        for block in blocks:
            if self.refs[block]:
                self.refs[block] = 0
                self.free_blocks.append(block)


class FreesTheOwnPart(LeakyPool):
    """Splits the table where sharing ends, and forgets the counts of the first part."""

    def free(self, blocks):
        own = [block for block in blocks if self.refs[block] == 1]
        for block in own:
            self.refs[block] = 0
        self.free_blocks += own


WRONG = {  # name: [(answer, words of the verdict)]
    "3.3-names": [
        (
            of_prefixes(lambda before, block, *owner: (tuple(block), owner)),
            "its K and V depend on all tokens before it",
        ),
        (
            of_prefixes(lambda before, block, *owner: (len(before), tuple(block), owner)),
            "has the same name after other",
        ),
        (with_the_block_before, "tokens further back than the block before count too"),
        (
            of_prefixes(lambda before, block, *owner: ("".join(map(str, before)), owner)),
            "[1, 23] and [12, 3] get one name",
        ),
        (of_prefixes(lambda before, block, *owner: (sum(before), owner)), "get one name"),
        (of_prefixes(lambda before, block, *owner: (tuple(sorted(before)), owner)), "the same tokens in another order"),
        (chained(lambda name, block, *_: (name, block[0], sum(block))), "the same tokens in another order"),
        (chained(lambda name, block, *_: (name, block[0], block[-1], sum(block))), "the same tokens in another order"),
        (chained(lambda name, block, *_: (name, len(block), block[0], block[-1])), "every token of a block counts"),
        (chained(lambda name, block, *_: (name, block[-1], tuple(sorted(block)))), "the same tokens in another order"),
        (
            chained(lambda name, block, *_: (name, *(sum(i**k * t for i, t in enumerate(block, 1)) for k in range(3)))),
            "blocks with equal sums",
        ),
        (
            of_prefixes(lambda before, block, *owner: (sum(before), tuple(block), owner)),
            "the order of the blocks before",
        ),
        (
            of_prefixes(lambda before, block, *owner: (tuple(before[:: len(block)]), tuple(block), owner)),
            "of the blocks before, every token counts",
        ),
        (
            of_prefixes(lambda before, block, *owner: (tuple(before[:-1]), owner)),
            "every token of a block counts|one name",
        ),
        (of_prefixes(lambda before, block, *owner: (bytes(t % 256 for t in before), owner)), "need more than one byte"),
        (of_prefixes(lambda before, block, *owner: (tuple(t % 65_536 for t in before), owner)), "more than two bytes"),
        (of_prefixes(lambda before, block, *owner: hash((tuple(before), owner)) % 256), "have one name"),
        (chained(lambda name, block, *_: hash((name, block))), "a number of 64 bits is not exact enough"),
        (of_prefixes(lambda before, block, *owner: [tuple(before), owner]), "so it has to be hashable"),
        (of_prefixes(lambda before, block, *owner: object()), "the same call gives other names the second time"),
        (of_prefixes(lambda before, block, salt, identity: (tuple(before), identity)), "do not depend on the salt"),
        (of_prefixes(lambda before, block, *owner: (bytes(before), owner)), "(bytes must be in range(0, 256))"),
        (of_prefixes(lambda before, block, salt, identity: (tuple(before), salt)), "mix the identity in"),
        (of_prefixes(lambda before, block, *owner: (tuple(before), f"{owner[0]}{owner[1]}")), "run into one another"),
        (of_prefixes(lambda before, block, *owner: (tuple(before), frozenset(owner))), "run into one another"),
        (
            of_prefixes(lambda before, block, *owner: (tuple(before), str(owner[0]), str(owner[1]))),
            "run into one another",
        ),
        (salt_in_the_first, "every name must be another, not the first alone"),
        (of_every_piece, "the partly filled last one has none"),
        (without_the_last, "the last full one has a name too"),
        (of_the_whole_prompt, "what follows must not count"),
        (lambda *case: iter(prefixes(*case)), "a list of names is expected"),
        (lambda token_ids, *rest: token_ids.clear() or [], "changes its input"),
    ],
    "3.3-match": [
        ((prefixes, finds_the_last_token), "that token is always computed"),
        ((prefixes, drops_the_last), "the last block that is found is always dropped"),
        ((prefixes, skips_gaps), "stop at the first gap"),
        ((prefixes, gives_names), "these are names; return the block ids"),
        ((prefixes, all_or_nothing), "return the blocks before the gap"),
        ((prefixes, lambda *case: len(by_hand(*case))), "that is how many blocks are found"),
        (
            (prefixes, lambda tokens, size, known, *_: by_hand(tokens, size, known)),
            "another salt or identity are found",
        ),
        ((prefixes, lambda tokens, size, known, s, i: by_hand(tokens, size, known, s)), "blocks of another identity"),
        ((prefixes, lambda tokens, size, known, s, i: by_hand(tokens, size, known, None, i)), "blocks of another salt"),
        ((prefixes, takes_them_out), "changes its input `known`"),
        ((prefixes, from_the_end), "a block that was lost"),
        ((prefixes, one_too_few), "only the prompt's last token has to be computed"),
        ((prefixes, needs_a_known_block), "a list is expected, not nothing"),
        (by_hand, "two functions are expected"),
    ],
    "3.3-shared": exercises.SHARING_MISTAKES,
    "3.3-cow": [
        *copy_on_write.COW_MISTAKES,
        (
            lambda blocks, n, refs, free, size: copy_on_write.append_one(blocks, n, refs, free, size)[0],
            "is not (slot, copy)",
        ),
        (
            changed_cow(lambda blocks, refs, slot, pair: (slot + 1, pair)),
            "of the result, the slot is wrong: the number is too large",
        ),
        (
            changed_cow(lambda blocks, refs, slot, pair: (slot, pair and (pair[0], 0))),
            "of the result, the copy is wrong: entry 1 is not",
        ),
        (
            changed_cow(lambda blocks, refs, slot, pair: (slot, -1)),
            "of the result, the copy is wrong: nothing (None) is expected",
        ),
        (
            changed_cow(lambda blocks, refs, slot, pair: (refs.append(0), (slot, pair))[1]),
            "the reference counts are not what is expected",
        ),
        (cow_elsewhere, "the table is as before; the lists are changed in place"),
        (never_counts, "the new block has an owner"),
        (own_block_not_counted, "the reference counts are not what is expected"),
        (new_block_not_counted, "the new block has an owner, this table: its count is 1"),
        (partial(copies, when=lambda owners: owners > 1), "a full block is not written again"),
        (
            partial(copies, when=lambda owners: owners == 1),
            "a block with one owner is written in place, without a copy",
        ),
        (copies_and_grows, "a full block is not written again"),
        (grows_only_what_is_shared, "nothing is changed though the last block is full"),
        (shared_by_two_only, "the shared block is written in place"),
        (asks_the_first_block, "a block with one owner is written in place"),
        (grows_too_early, "the last block has room for this token"),
        (leaves_the_full_block, "a full block keeps its owners"),
        (frees_the_original, "still has owners; another table would get it too"),
        (takes_the_first, "take the new block from the end of the list: `free_blocks.pop()`"),
        (inherits_the_count, "the reference counts are not what is expected"),
    ],
    "3.3-leak": [
        ((2, Mended), "which do not?"),
        ((5, Mended), "come back later"),
        ((0, Mended), "compare the free list"),
        ((3, LeakyPool), "blocks are missing from the free list"),
        ((3, FreesAllOrNone), "blocks are missing from the free list"),
        ((3, TakesBlock0ForNone), "blocks are missing from the free list"),
        ((3, FreesAtOne), "in the free list twice|given away while"),
        ((3, ForgetsTheOwners), "given away while"),
        ((3, FreesTheOwnPart), "each block must count one owner"),
        ((3, FreesShared), "given away while its other owner"),
        ((3, ForgetsToCount), "some block still counts an owner"),
        ((3, CountsTheLastOnly), "some block still counts an owner"),
        ((3, ReturnsTwice), "in the free list twice"),
        ((3, OnlyUnshared), "each block must count one owner"),
        ((3, Mended(12)), "the class is expected"),
    ],
}

STUBS = {"3.3-leak": (..., StubPool)}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG, STUBS)


@pytest.mark.usefixtures("references_are_answers")
@pytest.mark.parametrize("then", [lambda slot, pair: (slot + 1, pair), lambda slot, pair: (slot, pair and pair[::-1])])
def test_a_right_form_is_not_blamed(then, capsys):
    check("3.3-cow", changed_cow(lambda blocks, refs, slot, pair: then(slot, pair)))
    assert "is not (slot, copy)" not in capsys.readouterr().out


def test_every_exercise_has_six_wrong_answers():
    assert all(len(answers) >= 6 for answers in WRONG.values())


# Predictions


def who_copies():
    table = BlockTable(BlockPool(8, 4))
    table.append(10)
    fork = table.fork()
    copied = [name for name, one in (("B", fork), ("A", table)) if one.append(1).copies]
    return f"{copied[0]} alone" if len(copied) == 1 else None


def samples():
    pool = BlockPool(100)
    request = SharedRequest(pool, prompt_tokens=40, num_sequences=4)
    for _ in range(60):
        request.step()
    return 100 - pool.num_free


def run(pool, cache, prompt, answer=()):
    table = BlockTable(pool, cache.match(prompt))
    found, tokens = table.num_tokens, [*prompt, *answer]
    table.append(len(tokens) - found)
    cache.insert(tokens, table.blocks)
    table.free()
    return found


def again():
    pool = BlockPool(8, 4)
    cache = PrefixCache(pool)
    return ", then ".join(str(run(pool, cache, range(8))) for _ in range(3))


def turns():
    """Six turns of each of twenty conversations, in no order."""
    draw, pool, found, sent = random.Random(0), BlockPool(2000), 0, 0
    cache, history = PrefixCache(pool), [list(range(100)) for _ in range(20)]
    order = [chat for chat in range(20) for _ in range(6)]
    draw.shuffle(order)
    for chat in order:
        prompt = history[chat] + [draw.randrange(50_000) for _ in range(draw.randint(20, 120))]
        answer = [draw.randrange(50_000) for _ in range(draw.randint(50, 200))]
        found, sent = found + run(pool, cache, prompt, answer), sent + len(prompt)
        history[chat] = prompt + answer
    return 100 * found / sent


COMPUTED = {"3.3-copies": who_copies, "3.3-samples": samples, "3.3-again": again, "3.3-turns": turns}
test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Pictures


def beams():
    request = SharedRequest(BlockPool(200), 40, 6, switch=0.1)
    for _ in range(90):
        request.step()
    return request.tables


PICTURES = {
    "savings": lambda: pictures.savings(
        "Saved", {"short": {2: (0.0, 6.1)}, "long": {2: (50.0, 49.9), 6: (79.9, 60.0)}}
    ),
    "reuse": lambda: pictures.reuse("Reused", [("turn 1", 0, 10), ("turn 2", 12_345, 1), ("turn 3", 9_999, 20_000)]),
    "beams": lambda: pictures.shared_tables("Beams", beams(), ["a fact", "another"], names=list("abcdef")),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_legible(name):
    canvas, alt = PICTURES[name]()
    assert_legible(canvas.svg(alt))


def test_a_joined_box_is_one_block():
    a = BlockTable(BlockPool(8, 4))
    a.append(6)
    b = a.fork()
    b.append(1)
    ids = [text for text in texts(pictures.shared_tables("x", [a, b], names=["A", "B"])[0]) if text.isdigit()]
    assert ids == ["0", "1", "2"]  # block 0 in one box for both


def test_a_box_is_as_high_as_the_tables_that_share_it():
    a = BlockTable(BlockPool(8, 4))
    a.append(4)
    tables = [a, a.fork(), a.fork()]
    tables[2].append(1)
    canvas, _ = pictures.shared_tables("x", tables)
    assert heights(canvas, pictures.SHARED) == [3 * 34 - 4] and heights(canvas, pictures.OWN) == [34 - 4]
    assert {*widths(canvas, pictures.SHARED), *widths(canvas, pictures.OWN)} == {53}


def test_bars_of_savings_are_as_long_as_their_numbers():
    canvas, _ = pictures.savings("x", {"short": {2: (62.5, 25.0)}, "long": {2: (5.0, 6.1), 6: (79.9, 60.0)}})
    measured, published = widths(canvas, pictures.MEASURED), widths(canvas, pictures.PUBLISHED)
    scale = assert_to_scale([*measured, *published], [62.5, 5.0, 79.9, 25.0, 6.1, 60.0])
    left = {shape["text"]: shape["x"] for kind, shape in canvas.shapes if kind == "text" and "%" in shape["text"]}
    assert left["62.5 %"] - left["25.0 %"] == pytest.approx(37.5 * scale)


def test_bars_of_reuse_are_as_long_as_their_numbers():
    canvas, _ = pictures.reuse("x", [("turn 1", 40, 10), ("turn 2", 12_345, 100), ("turn 3", 9_999, 20_000)])
    lengths = [*widths(canvas, pictures.CACHED), *widths(canvas, pictures.COMPUTED)]
    scale = assert_to_scale(lengths, [40, 12_345, 9_999, 10, 100, 20_000])
    left = {shape["text"]: shape["x"] for kind, shape in canvas.shapes if kind == "text" and "cached" in shape["text"]}
    assert left["33% of 29,999 cached"] - left["80% of 50 cached"] == pytest.approx((29_999 - 50) * scale)


def test_the_words_say_what_was_saved():
    assert "2 sequences 5.0 and 6.1 %" in pictures.savings("Saved", {"short": {2: (5.0, 6.1)}})[1]


# Widgets

SETTINGS = {
    "sharing": [
        {"num_sequences": n, "prompt_tokens": prompt, "generated": generated, "kind": kind}
        for n, prompt, generated in ((1, 1, 0), (2, 160, 160), (6, 160, 160), (6, 33, 20))
        for kind in widgets.KINDS
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
