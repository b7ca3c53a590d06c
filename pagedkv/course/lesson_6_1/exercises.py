"""Exercises of lesson 6.1: a ragged batch made flat, and when two rows of logits say the same; attention for the hole
in a model is in `attending`.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_6_1.attending import ATTEND

# Flat


def flatten(sequences):
    """(tokens, positions, query_start_loc) of [(token_ids, num_stored, n)]."""
    return _flat(sequences)


def _flat(sequences, first=lambda stored, total, n: stored, position=lambda stored, row: stored, starts=None, end=None):
    """The keyword arguments make the usual mistakes."""
    tokens, positions, ends = [], [], [0]
    for token_ids, stored, n in sequences:
        begin = first(stored, len(token_ids), n)
        run = token_ids[begin : begin + n if end is None else end(stored, len(token_ids), n)]
        base = position(stored, len(tokens))
        positions += range(base, base + len(run))
        tokens += run
        ends.append(len(tokens))
    return tokens, positions, ends if starts is None else starts(sequences, ends)


def _one(random):
    yield ([([5, 8, 6], 0, 3)],)
    yield ([([5, 8, 6], 2, 1)],)
    yield ([([5, 8, 6, 9], 1, 2)],)
    for _ in range(6):
        tokens = [random.randrange(100) for _ in range(random.randrange(4, 30))]
        stored = random.randrange(1, len(tokens) - 2)
        yield ([(tokens, stored, random.randrange(1, len(tokens) - stored))],)


def _several(random):
    yield ([([5, 8, 6], 2, 1), ([7, 7, 3, 4, 2], 1, 3), ([9, 1], 0, 2)],)
    yield ([([5, 8], 1, 1), ([7, 3, 3], 2, 1), ([9, 2, 2, 4], 3, 1)],)
    for _ in range(6):
        batch = []
        for _ in range(random.randrange(2, 6)):
            tokens = [random.randrange(100) for _ in range(random.randrange(2, 20))]
            stored = random.randrange(len(tokens))
            batch.append((tokens, stored, random.randrange(1, len(tokens) - stored + 1)))
        yield (batch,)


FLAT_MISTAKES = (
    (lambda s: _flat(s, position=lambda stored, row: 0),
     "positions begin at 0 in each sequence; they go on after what is stored"),
    (lambda s: _flat(s, position=lambda stored, row: row),
     "these positions are rows of the batch; a position is a place in its own sequence"),
    (lambda s: _flat(s, position=lambda stored, row: stored + 1),
     "positions count from 0: with num_stored stored, the next token is at num_stored"),
    (lambda s: _flat(s, first=lambda stored, total, n: total - n),
     "these are the last n tokens; the n after those that are stored are run, and the rest waits for a later step"),
    (lambda s: _flat(s, first=lambda stored, total, n: 0),
     "these tokens are stored already: begin at num_stored"),
    (lambda s: _flat(s, end=lambda stored, total, n: total),
     "all that is not stored is run; this step runs n tokens of it"),
    (lambda s: _flat(s, first=lambda stored, total, n: 0, position=lambda stored, row: 0,
                     end=lambda stored, total, n: stored + n),
     "what is stored is run again; its K and V are in the cache"),
    (lambda s: _flat(s, starts=lambda sequences, ends: ends[1:]),
     "query_start_loc has an entry more than there are sequences: it begins with 0"),
    (lambda s: _flat(s, starts=lambda sequences, ends: ends[:-1]),
     "query_start_loc has an entry more than there are sequences: it ends with the number of tokens"),
    (lambda s: _flat(s, starts=lambda sequences, ends: [n for *_, n in sequences]),
     "these are the counts; query_start_loc has where each sequence begins, so add them up, from 0"),
    (lambda s: _flat(s, starts=lambda sequences, ends: [0, *(n for *_, n in sequences)]),
     "these are the counts; query_start_loc has where each sequence begins, so add them up, from 0"),
    (lambda s: _flat(s, starts=lambda sequences, ends: [
        sum(stored + n for _, stored, n in sequences[:i]) for i in range(len(sequences) + 1)]),
     "query_start_loc counts rows of this batch; what is stored has no row in it"),
    (lambda s: tuple(map(list, zip(*(_flat([one]) for one in s), strict=True))),
     "one list for each sequence; the batch is flat, so that all tokens stand in one"),
)  # fmt: skip

FLATTEN = Exercise("6.1-flatten", "a ragged batch, flat", (
    calls("one sequence", flatten, _one, mistakes=FLAT_MISTAKES),
    calls("several sequences", flatten, _several, mistakes=FLAT_MISTAKES),
))  # fmt: skip

# The same


def same_token(reference, other, tolerance, *, apart=None, twice=2, margin_of=None, close_first=False):
    """True, False, or None where it is too close to tell. The keyword arguments make the usual mistakes."""
    import torch

    differ = apart or (lambda a, b, most: not bool(((a - b).abs() <= most).all()))
    best = torch.topk(reference if margin_of is None else margin_of(reference, other), 2).values
    close = bool(best[0] - best[1] <= twice * tolerance)
    if close_first:
        return None if close else not differ(reference, other, tolerance)
    if differ(reference, other, tolerance):
        return False
    return None if close else True


TOLERANCE = 0.25  # with numbers that are sums of a few powers of two, so that nothing is rounded


def _row(random, margin):
    """Nine logits; the largest is `margin` ahead of the next."""
    rest = [random.randrange(-64, 32) / 16 for _ in range(7)]
    row = [4.0, 4.0 - margin, *rest]
    random.shuffle(row)
    return row


def _moved(random, row, most, sign):
    """The row with one of its numbers that are not the largest two moved by `sign * most`, others by less."""
    order = sorted(range(len(row)), key=lambda i: -row[i])
    picked, new = random.choice(order[2:]), list(row)
    for i in order[:2]:
        new[i] += random.choice((-0.125, 0.0, 0.125))
    new[picked] += sign * most
    return new


def _pairs(margins, moves):
    def cases(random):
        import torch

        for margin in margins:
            for most in moves:
                for sign in (1, -1):
                    row = _row(random, margin)
                    yield torch.tensor(row), torch.tensor(_moved(random, row, most, sign)), TOLERANCE

    return cases


def _apart(random):
    import torch

    yield from _pairs((2.0, 0.5, 0.0), (1.0, 0.5, 0.25, 0.1875))(random)
    row = torch.tensor([9.0, 1.0, 2.0, 3.0])
    nan = torch.tensor([9.0, 1.0, torch.nan, 3.0])
    yield from ((row, nan, TOLERANCE), (nan, row, TOLERANCE), (nan, nan.clone(), TOLERANCE))
    yield row, row + 0.5, TOLERANCE
    yield row, torch.tensor([9.0, 4.0, 2.0, 3.0]), TOLERANCE
    yield row * 2**20, row * 2**20 + 1.0, TOLERANCE
    yield row, row.clone(), TOLERANCE


def _too_close(random):
    import torch

    yield from _pairs((0.0, 0.25, 0.375, 0.5, 0.5625, 0.75, 2.0), (0.25, 0.0))(random)
    for one, other in ((0.75, 0.5), (0.5, 0.75)):  # the reference's margin counts
        yield torch.tensor([4.0, 4.0 - one, 0.0]), torch.tensor([4.0, 4.0 - other, 0.0]), TOLERANCE
    yield torch.tensor([4.0, 3.5, 0.0]), torch.tensor([3.75, 3.75, 0.0]), TOLERANCE
    for low, high in ((0.0, 0.5), (1.0, 0.0)):
        yield torch.tensor([4.0, 4.0, low]), torch.tensor([4.0, 4.0, high]), TOLERANCE


def _margin_equal(a, b, t):
    said = same_token(a, b, t)
    first, second = a.topk(2).values
    return True if said is None and bool(first - second == 2 * t) else said


SAME_MISTAKES = (
    (lambda a, b, t: same_token(a, b, t, apart=lambda a, b, most: not bool((a == b).all())),
     "equality to the last bit is asked for; differences of up to the tolerance are rounding"),
    (lambda a, b, t: bool(a.argmax() == b.argmax()),
     "only the likeliest token is compared; logits that are far apart are a fault, even where it is the same"),
    (lambda a, b, t: bool(((a - b).abs() <= t).all()),
     "None is missing: where the first two are hardly apart, rounding alone could exchange them"),
    (lambda a, b, t: same_token(a, b, t, twice=1),
     "the first may fall by the tolerance and the second rise by it: twice the tolerance is needed"),
    (lambda a, b, t: same_token(a, b, t, apart=lambda a, b, most: not bool((a - b <= most).all())),
     "a difference downwards counts too: take its absolute value"),
    (lambda a, b, t: same_token(a, b, t, apart=lambda a, b, most: not bool(((a - b).abs().mean() <= most).all())),
     "the mean of the differences hides one that is large; every logit counts"),
    (lambda a, b, t: same_token(a, b, t, apart=lambda a, b, most: bool(((a - b).abs() > most).any())),
     "NaN is taken for equal: no comparison with it is true, so ask whether all are within, not whether one is beyond"),
    (lambda a, b, t: same_token(a, b, t, apart=lambda a, b, most: not bool(((a - b).abs() < most).all())),
     "a difference of exactly the tolerance is allowed"),
    (lambda a, b, t: same_token(a, b, t, apart=lambda a, b, most: not bool(((a - b).abs() <= most + 1e-5 * b.abs()
                                                                           ).all())),
     "torch.allclose adds a relative tolerance unless it is told rtol=0; with large logits that lets a fault through"),
    (lambda a, b, t: same_token(a, b, t, close_first=True),
     "logits that are far apart are a fault, whatever the margin: look at that first"),
    (lambda a, b, t: same_token(a, b, t, margin_of=lambda a, b: b),
     "the margin is that of the reference, which is what is known to be right"),
    (lambda a, b, t: same_token(a, b, t, margin_of=lambda a, b: a.softmax(-1)),
     "the margin is one of logits, as the tolerance is; probabilities are another scale"),
    (_margin_equal,
     "a margin of exactly twice the tolerance can still become a tie: None"),
    (lambda a, b, t: False if not bool(((a - b).abs() < t).all()) else _margin_equal(a, b, t),
     "a difference of exactly the tolerance is allowed, and a margin of exactly twice the tolerance is None"),
)  # fmt: skip


SAME = Exercise("6.1-same", "do two rows of logits say the same", (
    calls("logits that are apart", same_token, _apart, mistakes=SAME_MISTAKES),
    calls("too close to tell", same_token, _too_close, mistakes=SAME_MISTAKES),
), only_with={"too close to tell": "logits that are apart"})  # fmt: skip

EXERCISES = (FLATTEN, ATTEND, SAME)
