"""Exercises of lesson 4.2: the merge of two states, and scores that expose a wrong update; attention in one pass is in
`one_pass`.
"""
# ruff: noqa: E741 (l is the papers' name)

import math

from pagedkv.course.judge.compare import SINGLE, Wrong
from pagedkv.course.judge.exercise import Exercise, Part, calls
from pagedkv.course.lesson_4_2.one_pass import ONE_PASS, added, first_only, merge, o_left
from pagedkv.course.lesson_4_2.updates import bug_part

# The merge


def _inverted(a, b):
    m = merge(a, b)[0]
    f_a, f_b = (m - a[0]).exp(), (m - b[0]).exp()
    return m, a[1] * f_a + b[1] * f_b, a[2] * f_a[..., None] + b[2] * f_b[..., None]


def _base_as_maximum(a, b):
    m, l, o = merge(a, b)
    return m.nan_to_num(neginf=0.0), l, o


def _by_lengths(a, b):
    m, l, o = merge(a, b)
    return m, l, (a[2] + b[2]) / 2


def _one_base(a, b):
    m, l, o = merge(a, b)
    factor = (m - m.max()).exp()
    return m, l * factor, o * factor[..., None]


def _larger_only(a, b):
    import torch

    m, first = merge(a, b)[0], a[0] >= b[0]
    return m, torch.where(first, a[1], b[1]), torch.where(first[..., None], a[2], b[2])


def _normalised(a, b):
    m, l, o = merge(a, b)
    return m, l, o / l[..., None]


ONE_BASE = "each head has a base of its own; here l and O of all heads are at the largest of all"
MERGE_MISTAKES = (
    (added, "l and O of different bases are added; multiply each by e^(its m - the new m) first"),
    (
        first_only,
        "only the first state is brought to the new base; the second may be the one with the smaller maximum",
    ),
    (
        lambda a, b: first_only(b, a),
        "only the second state is brought to the new base; the first may be the one with the smaller maximum",
    ),
    (o_left, "O must be multiplied by the same factor as l"),
    (_inverted, "the factor is upside down: it is e^(old m - new m), which is at most 1"),
    (_base_as_maximum, "where neither state has seen anything, m must stay -inf; 0 is a base to subtract, no maximum"),
    (
        _by_lengths,
        "the states count alike here, whatever their maxima; l and O are brought to one base and added, not averaged",
    ),
    (_one_base, ONE_BASE),
    (lambda a, b: (merge(a, b)[0].max().expand(len(a[0])), *_one_base(a, b)[1:]), ONE_BASE),
    (_larger_only, "the state with the smaller maximum is thrown away; it counts by e^(its m - the new m)"),
    (_normalised, "O stays unnormalised in a merge; divide by l once, at the very end"),
)


def _states(seed, empty=((), ())):
    """Two states of 3 heads; head numbers in empty[i] have seen nothing in state i."""
    import torch

    draw, states = torch.Generator().manual_seed(seed), []
    for heads in empty:
        m = 3 * torch.randn(3, generator=draw, dtype=torch.float64)
        l = 1 + 4 * torch.rand(3, generator=draw, dtype=torch.float64)
        o = torch.randn(3, 4, generator=draw, dtype=torch.float64)
        for head in heads:
            m[head], l[head], o[head] = -math.inf, 0.0, 0.0
        states.append((m, l, o))
    return tuple(states)


def _merge_part(title, cases, simpler=None):
    """`simpler`: a part whose sentence is told where this one has none."""
    judge = calls(title, merge, cases, mistakes=MERGE_MISTAKES, rtol=SINGLE)
    same_ratio = calls(title, _finished, cases, rtol=SINGLE)

    def test(function):
        try:
            judge.test(function)
        except Wrong as wrong:
            if "not finite" in str(wrong):
                raise Wrong(
                    "NaN or infinity: a state that has seen nothing has m = -inf, and (-inf) - (-inf) is NaN"
                ) from None
            told = str(wrong) in (sentence for _, sentence in MERGE_MISTAKES)
            if not told and _passes(same_ratio, lambda a, b: _finish(*function(a, b))):
                raise Wrong(
                    "O / l is right; m is expected to be the largest score seen, not the log-sum-exp or another base"
                ) from None
            if simpler and not told:
                simpler.test(function)
            raise

    return Part(title, test)


def _finished(a, b):
    return _finish(*merge(a, b))


def _finish(m, l, o):
    """What no change of base touches: the output, and the log-sum-exp."""
    return o / (l + (l == 0))[..., None], m + l.log()


def _passes(part, function) -> bool:
    try:
        part.test(function)
    except Wrong:
        return False
    return True


SEEN = _merge_part("states that have seen something", lambda r: [_states(r.randrange(10**6)) for _ in range(6)])
EXERCISES = (
    ONE_PASS,
    Exercise("4.2-merge", "the merge of two states", (
        SEEN,
        _merge_part("states that have seen nothing", lambda r: [_states(r.randrange(10**6), empty) for empty in (
            ((0,), ()), ((), (1, 2)), ((0,), (0,)), ((0, 1, 2), (0, 1, 2)))], SEEN),
    )),
    Exercise("4.2-bugs", "scores that expose a wrong update", (
        bug_part("A", "does the maximum rise after the first block?"),
        bug_part("B", "its base may fall, which is harmless in exact arithmetic; when does e^(m - m_new) overflow?"),
        bug_part("C", "its base is never below 0, which is harmless in exact arithmetic; "
                      "when do all weights become 0?"),
        bug_part("D", "is there any update that it gets wrong?"),
    ), {"version D": "version A"}),
)  # fmt: skip
