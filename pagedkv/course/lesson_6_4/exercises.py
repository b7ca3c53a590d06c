"""Exercises of lesson 6.4: tokens that need not run, admission beside idle blocks, and what a window has left."""

import copy

from pagedkv.course.judge.compare import Wrong, alike
from pagedkv.course.judge.exercise import Exercise, Part, call, calls, hidden

# reuse


def reusable_tokens(num_tokens, block_size, known_blocks):
    """Tokens of a prompt that need not run, when its first `known_blocks` full blocks are known."""
    return min(known_blocks, (num_tokens - 1) // block_size) * block_size


REUSABLE_MISTAKES = [
    (lambda n, b, k: min(k * b, n), "the last token always runs: its output is what the caller waits for"),
    (lambda n, b, k: min(k * b, n - 1), "only whole blocks are found"),
    (lambda n, b, k: min(k, n // b) * b, "the block that the last token fills is not used: that token has to run"),
    (lambda n, b, k: min(k, max(0, n // b - 1)) * b, "only where the last token fills it is a full block left out"),
    (lambda n, b, k: min(k, (n - 1) // b), "the answer is in tokens, not in blocks"),
    (lambda n, b, k: k * b, "more blocks may be known than the prompt has"),
    (lambda n, b, k: (n - 1) // b * b, "only known blocks are found"),
    (lambda n, b, k: n - min(k, (n - 1) // b) * b, "that is what runs; asked is what need not"),
]


def _reusable_cases(random):
    yield from ((1, 1, 1), (2, 4, 4), (3, 2, 2), (8, 4, 2), (9, 4, 2), (9, 4, 1), (100, 16, 0), (82, 4, 18))
    for _ in range(60):
        size = random.choice((1, 2, 4, 16))
        yield random.randint(1, 6 * size), size, random.randint(0, 8)


def _boundary_cases(random):
    for _ in range(20):
        size, blocks = random.choice((1, 2, 4, 16)), random.randint(1, 6)
        for more in (0, 1):
            yield blocks * size + more, size, random.randint(0, blocks + 1)


# admission


def can_admit(tokens, block_size, in_use, idle, free, watermark, running):
    """Whether a request has room now: `in_use` and `idle` of its blocks are found, `free` counts the idle ones too."""
    needed = -(-tokens // block_size) - in_use - idle
    return needed <= free - idle - (watermark if running else 0)


def _admits(needed=None, left=None):
    needed = needed or (lambda t, b, u, i: -(-t // b) - u - i)
    left = left or (lambda i, f, w, r: f - i - (w if r else 0))
    return lambda t, b, u, i, f, w, r: needed(t, b, u, i) <= left(i, f, w, r)


ADMIT_MISTAKES = [
    (
        _admits(left=lambda i, f, w, r: f - (w if r else 0)),
        "an idle block that it takes is not free for its other tokens",
    ),
    (_admits(needed=lambda t, b, u, i: -(-t // b)), "blocks that are found need no new one"),
    (
        _admits(needed=lambda t, b, u, i: -(-t // b) - u, left=lambda i, f, w, r: f - i - (w if r else 0)),
        "an idle block that is found is counted twice: it is not needed anew, and it is not free any more",
    ),
    (
        _admits(left=lambda i, f, w, r: f - i - w),
        "with nothing running the watermark does not count, or it waits for ever",
    ),
    (_admits(left=lambda i, f, w, r: f - i), "while others run, the watermark stays free"),
    (_admits(needed=lambda t, b, u, i: t // b - u - i), "round up: the last, partly filled block is a block too"),
    (_admits(needed=lambda t, b, u, i: -(-t // b) - i), "blocks that others hold are shared: they need no new one"),
    (
        lambda *case: _admits(left=lambda i, f, w, r: f - i - (w if r else 0) - 1)(*case),
        "exactly as many as it needs is enough",
    ),
    (_admits(needed=lambda t, b, u, i: t - u - i), "the request's length is in tokens, the pool in blocks"),
    (_admits(left=lambda i, f, w, r: f - i - (0 if r else w)), "the watermark counts while others run, and only then"),
]


def _admit_cases(random):
    yield from ((9, 4, 1, 1, 1, 0, 1), (9, 2, 3, 0, 4, 2, 1), (7, 2, 0, 1, 4, 2, 0), (27, 4, 0, 3, 5, 0, 1))
    for _ in range(150):
        size = random.choice((1, 2, 4, 16))
        blocks = random.randint(2, 10)
        in_use = random.randint(0, blocks - 1)
        idle = random.randint(0, blocks - 1 - in_use)
        watermark, running = random.choice((0, 1, 2)), random.choice((0, 1, 4))
        edge = blocks - in_use - idle + idle + watermark
        free = max(idle, edge + random.choice((-2, -1, 0, 0, 1, 2)))
        yield (blocks - 1) * size + random.randint(1, size), size, in_use, idle, free, watermark, running


def _nothing_known(random):
    for case in _admit_cases(random):
        tokens, size, _, _, free, watermark, running = case
        yield tokens, size, 0, 0, free, watermark, running


# windows


def drop_left(blocks, num_tokens, window, block_size):
    """Set the entries that no coming query sees to -1, in place; return the blocks given back, in order."""
    gone = []
    for column in range(max(0, num_tokens - window + 1) // block_size):
        if blocks[column] != -1:
            gone.append(blocks[column])
            blocks[column] = -1
    return gone


def _dropping(
    first=lambda n, w, b: max(0, n - w + 1) // b, again=False, leave=lambda blocks, end: [-1] * end, back=None
):
    def wrong(blocks, num_tokens, window, block_size):
        end = first(num_tokens, window, block_size)
        gone = [block for block in blocks[:end] if again or block != -1]
        result = back(blocks, end, gone) if back else gone
        blocks[:end] = leave(blocks, end)
        return result

    return wrong


DROP_MISTAKES = [
    (
        _dropping(lambda n, w, b: max(0, n - w) // b),
        "the next query is at position num_tokens and sees itself too: one more is out of sight",
    ),
    (_dropping(lambda n, w, b: max(0, n - w + 2) // b), "a block goes that the next query still sees"),
    (_dropping(lambda n, w, b: -(-max(0, n - w + 1) // b)), "a block of which the next query sees a part has to stay"),
    (_dropping(lambda n, w, b: (n - w + 1) // b), "while all is in sight nothing is given back; mind negative indices"),
    (_dropping(again=True), "an entry that is -1 already is no block to give back"),
    (_dropping(leave=lambda blocks, end: []), "entries stay in the table as -1: later ones keep their place"),
    (_dropping(leave=lambda blocks, end: blocks[:end]), "the entries become -1, in place"),
    (
        _dropping(back=lambda blocks, end, gone: list(range(end - len(gone), end))),
        "return block ids, not places in the table",
    ),
    (_dropping(back=lambda blocks, end, gone: len(gone)), "return the blocks given back, as a list"),
    (
        _dropping(lambda n, w, b: max(0, -(-n // b) - -(-w // b))),
        "count in tokens, then divide: a window may begin inside a block",
    ),
    (_dropping(lambda n, w, b: 0), "blocks that no coming query sees are given back"),
]


def _observe(function, case):
    blocks, *rest = copy.deepcopy(case)
    return call(function, blocks, *rest, changes=(0,)), blocks


def _drop_part(title, cases):
    def test(function):
        drawn = list(cases(hidden(title)))
        right, seen = ([_observe(one, case) for case in drawn] for one in (drop_left, function))
        if alike(right, seen):
            return
        for wrong, sentence in DROP_MISTAKES:
            if alike([_observe(wrong, case) for case in drawn], seen):
                raise Wrong(sentence)
        if any(gone is None for gone, _ in seen):
            raise Wrong("it returns nothing; is the return missing?")
        for (gone, table), (my_gone, my_table) in zip(right, seen, strict=True):
            if not alike(table, my_table):
                raise Wrong("the table is not what is expected afterwards")
            if not alike(gone, my_gone):
                raise Wrong("the table is right, the list of blocks given back is not")

    return Part(title, test)


def _tables(random, known, windows):
    for _ in range(40):
        size, count = random.choice((1, 2, 4, 16)), random.randint(1, 9)
        num_tokens = count * size - random.randrange(size)
        blocks = random.sample(range(30), count)
        window = windows(random, num_tokens, size)
        before = max(0, num_tokens - window + 1) // size
        dropped = random.randint(0, before) if known else 0
        yield [-1] * dropped + blocks[dropped:], num_tokens, window, size


def _short(random):
    yield from _tables(random, False, lambda random, n, b: n + random.randint(1, 20))


def _first_time(random):
    yield from (([7, 3, 9], 10, 4, 4), ([7, 3, 9], 11, 4, 4), ([5, 6], 8, 1, 4), ([5, 6], 7, 8, 4))
    yield from _tables(random, False, lambda random, n, b: random.randint(1, n + 2))


def _again(random):
    yield from (([-1, 3, 9], 11, 4, 4), ([-1, -1, 9, 2], 16, 5, 4))
    yield from _tables(random, True, lambda random, n, b: random.randint(1, n))


EXERCISES = [
    Exercise(
        "6.4-reusable",
        "tokens that need not run",
        (
            calls("around the end of a block", reusable_tokens, _boundary_cases, mistakes=REUSABLE_MISTAKES),
            calls("any prompt", reusable_tokens, _reusable_cases, mistakes=REUSABLE_MISTAKES),
        ),
    ),
    Exercise(
        "6.4-admit",
        "admission beside idle blocks",
        (
            calls("nothing is found", can_admit, _nothing_known, mistakes=ADMIT_MISTAKES),
            calls("blocks are found", can_admit, _admit_cases, mistakes=ADMIT_MISTAKES, points=2),
        ),
    ),
    Exercise(
        "6.4-drop",
        "what a window has left behind",
        (
            _drop_part("all is in sight", _short),
            _drop_part("the window moves on", _first_time),
            _drop_part("it moves on again", _again),
        ),
        only_with={"all is in sight": "the window moves on"},
    ),
]
