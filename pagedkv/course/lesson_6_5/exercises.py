"""Exercises of lesson 6.5: every token as a decode, so that parts for one query serve a batch. Faults to be found are
in `watchman`, a policy of one's own in `own_policy`.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.judge.stub import is_stub
from pagedkv.course.lesson_6_5.own_policy import POLICY
from pagedkv.course.lesson_6_5.watchman import FAULTS


def as_decodes(positions, block_tables, query_start_loc):
    """(the table and the number of visible tokens of each query of a flat batch), as tensors of int32."""
    lens = (positions + 1).int()
    return (block_tables if query_start_loc is None else _repeated(block_tables, query_start_loc)), lens


def or_the_lessons(function):
    """`as_decodes` as the learner wrote it, the lesson's until then."""
    if not is_stub(function):
        return function
    print("as_decodes: the lesson's, until yours is written")
    return as_decodes


def _repeated(block_tables, starts):
    return block_tables.repeat_interleave(starts.diff(), 0)


def _batch(random, work):
    """The three arguments for [(num_stored, n), ...] in blocks of 4."""
    import torch

    width = max(-(-(stored + n) // 4) for stored, n in work) + 1
    free, rows, positions, starts = random.sample(range(100), 90), [], [], [0]
    for stored, n in work:
        blocks = -(-(stored + n) // 4)
        rows.append([free.pop() for _ in range(blocks)] + [-1] * (width - blocks))
        positions += range(stored, stored + n)
        starts.append(len(positions))
    one_each = len(positions) == len(work)
    return (
        torch.tensor(positions),
        torch.tensor(rows, dtype=torch.int32),
        None if one_each else torch.tensor(starts, dtype=torch.int32),
    )


def _one_each(random):
    for work in ([(8, 1), (4, 1), (0, 1)], [(6, 1)], [(3, 1), (11, 1), (5, 1), (9, 1)]):
        yield _batch(random, work)


def _chunks(random):
    for work in ([(9, 1), (4, 5), (0, 3)], [(0, 7), (6, 6)], [(2, 4)], [(0, 3), (0, 2), (12, 1)]):
        yield _batch(random, work)
    for _ in range(6):
        yield _batch(random, [(random.randrange(9), random.randrange(2, 6)) for _ in range(random.randrange(1, 4))])


def _with(tables=None, lens=None):
    """`as_decodes` with another first or second result: tables(block_tables, starts, right), lens(positions,
    starts).
    """

    def wrong(positions, block_tables, starts):
        right, right_lens = as_decodes(positions, block_tables, starts)
        starts = list(range(len(positions) + 1)) if starts is None else starts.tolist()
        return (
            tables(block_tables, starts, right) if tables else right,
            positions.new_tensor(lens(positions.tolist(), starts)).int() if lens else right_lens,
        )

    return wrong


def _each(counts, value):
    return [value(a, b) for a, b in zip(counts, counts[1:], strict=False) for _ in range(b - a)]


MISTAKES = (
    (_with(lens=lambda p, s: p), "a query sees itself too: one token more than its position says"),
    (_with(lens=lambda p, s: _each(s, lambda a, b: p[b - 1] + 1)),
     "a query must not see the tokens that come behind it in its own chunk"),
    (_with(lens=lambda p, s: _each(s, lambda a, b: p[a] + 1)),
     "the later queries of a chunk see its earlier ones too"),
    (_with(lens=lambda p, s: _each(s, lambda a, b: p[a])),
     "a query sees what was stored before, and of its own chunk all up to itself"),
    (_with(lens=lambda p, s: _each(s, lambda a, b: b - a)),
     "that is how many queries its sequence has in this step; a query sees the tokens up to itself"),
    (_with(lens=lambda p, s: [i + 1 for a, b in zip(s, s[1:], strict=False) for i in range(b - a)]),
     "what was stored in earlier steps is seen too: count from the beginning of the sequence"),
    (_with(lens=lambda p, s: range(1, len(p) + 1)), "lengths count in the sequence, not along the batch"),
    (_with(tables=lambda t, s, right: t), "a table is due for each query, not for each sequence"),
    (_with(tables=lambda t, s, right: t[:1].expand(len(right), -1)),
     "every query has the first sequence's table; each reads by that of its own"),
    (_with(tables=lambda t, s, right: t.repeat(-(-len(right) // len(t)), 1)[: len(right)]),
     "the queries of a sequence stand side by side in the batch, so the copies of its table do too"),
    (_with(tables=lambda t, s, right: right.flip(0)), "the tables come in the order of the queries"),
    (lambda p, t, s: (as_decodes(p, t, s)[0], p + 1), "the lengths have to be int32; positions are int64"),
    (lambda p, t, s: as_decodes(p, t, s)[::-1], "the tables come first, then the lengths"),
    (lambda p, t, s: as_decodes(p, t, s)[0], "two tensors are expected, the tables and the lengths"),
    (lambda p, t, s: as_decodes(p, t, s)[1], "two tensors are expected, the tables and the lengths"),
)  # fmt: skip


DECODES = Exercise(
    "6.5-decodes",
    "every token a decode",
    (
        calls("one token each", as_decodes, _one_each, mistakes=MISTAKES),
        calls("chunks and prompts", as_decodes, _chunks, mistakes=MISTAKES, points=2),
    ),
)

EXERCISES = (DECODES, FAULTS, POLICY)
