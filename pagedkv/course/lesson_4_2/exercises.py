"""Exercises of lesson 4.2: attention in one pass over blocks, the merge of two states, and scores that expose a wrong
update.
"""
# ruff: noqa: E741 (l is the papers' name)

import math
import weakref
from functools import partial

from pagedkv.course.judge.compare import SINGLE, Wrong, alike, same
from pagedkv.course.judge.exercise import Exercise, Part, call, calls
from pagedkv.course.lesson_4_2.updates import bug_part

# One pass


def one_pass(blocks):
    """blocks of (scores [n], values [n, dim]), -inf where masked -> softmax-weighted sum of the values; zeros where
    nothing is visible.
    """
    _, l, o = _state(blocks)
    return o / (l + (l == 0))


def _state(blocks):
    state = -math.inf, 0.0, 0.0
    for scores, values in blocks:
        state = merge(state, state_of(scores, values))
    return state


def state_of(scores, values):
    m = scores.max()
    weights = (scores - (0.0 if m == -math.inf else m)).exp()
    return m, weights.sum(), weights @ values


class Stream:
    """Blocks that come one by one and can be gone over once; counts the passes, and how many blocks are held at the
    same time.
    """

    def __init__(self, blocks):
        self.blocks, self.passes, self.held = blocks, 0, 0

    def __iter__(self):
        self.passes += 1
        alive = []
        for scores, values in self.blocks:
            fresh = scores.clone(), values.clone()
            alive.append(weakref.ref(fresh[1]))
            yield fresh
            del fresh
            self.held = max(self.held, sum(ref() is not None for ref in alive))


def _blocks(seed, sizes, spread=2.0, masked=(), shift=0.0):
    """Random float64 blocks; block numbers in `masked` are hidden whole, and one key in five everywhere else."""
    import torch

    draw, blocks = torch.Generator().manual_seed(seed), []
    for index, n in enumerate(sizes):
        scores = shift + spread * torch.randn(n, generator=draw, dtype=torch.float64)
        hidden = torch.rand(n, generator=draw) < (2.0 if index in masked else 0.2 if n > 1 and masked else 0.0)
        blocks.append((scores.masked_fill(hidden, -math.inf), torch.randn(n, 4, generator=draw, dtype=torch.float64)))
    return blocks


def _one_pass_part(title, *draws):
    def test(function):
        seen = []
        for draw in draws:
            case = draw()
            stream = Stream(case)
            result = call(function, stream, changes=(0,))
            seen.append((case, result))
            try:
                same(one_pass(case), result, SINGLE)
            except Wrong as wrong:
                raise Wrong(_why(seen, str(wrong))) from None
            if stream.passes > 1:
                raise Wrong("the output is right, but it goes over the blocks more than once")
            if stream.held > 3:
                raise Wrong("the output is right, but all blocks are kept until the end; keep m, l and O only")

    return Part(title, test)


def _why(seen, otherwise):
    """A sentence for the usual mistakes of a stream, told by what comes out: (blocks, output) for each stream, the last
    one wrong.
    """
    case = seen[-1][0]
    if all(bool((scores == -math.inf).all()) for scores, _ in case):
        return "where nothing is visible, return zeros of shape [dim]; O / l is 0 / 0 there"
    if "not finite" in otherwise:
        if any(bool((scores == -math.inf).all()) for scores, _ in case):
            return (
                "NaN or infinity: for a block that is masked whole, or before the first visible key, (-inf) - (-inf) "
                "is NaN"
            )
        return "NaN or infinity: is every exponential taken of a number that is at most 0?"
    for wrong, sentence in STREAM_MISTAKES:
        if all(alike(wrong(blocks), result, SINGLE) for blocks, result in seen):
            return sentence
    return otherwise


def _stream(combine):
    """The output when blocks are combined by `combine(old, new)` of (m, l, o)."""

    def run(blocks):
        state = None
        for scores, values in blocks:
            state = state_of(scores, values) if state is None else combine(state, state_of(scores, values))
        return state[2] / (state[1] + (state[1] == 0))

    return run


def _mean(blocks):
    parts = [o / (l + (l == 0)) for _, l, o in (state_of(*block) for block in blocks)]
    return sum(parts) / len(parts)


# The merge


def merge(a, b):
    """Two states (m [heads], l [heads], o [heads, dim]) -> their union; (-inf, 0, 0) has seen nothing."""
    import torch

    (m_a, l_a, o_a), (m_b, l_b, o_b) = ([torch.as_tensor(x, dtype=torch.float64) for x in state] for state in (a, b))
    m = torch.maximum(m_a, m_b)
    base = torch.where(m == -math.inf, 0.0, m)
    f_a, f_b = (m_a - base).exp(), (m_b - base).exp()
    return m, l_a * f_a + l_b * f_b, o_a * f_a[..., None] + o_b * f_b[..., None]


def _added(a, b):
    return merge(a, b)[0], a[1] + b[1], a[2] + b[2]


def _first_only(a, b):
    m, factor = merge(a, b)[0], (a[0] - merge(a, b)[0]).exp()
    return m, a[1] * factor + b[1], a[2] * factor[..., None] + b[2]


def _o_left(a, b):
    return *merge(a, b)[:2], a[2] + b[2]


def _inverted(a, b):
    m = merge(a, b)[0]
    f_a, f_b = (m - a[0]).exp(), (m - b[0]).exp()
    return m, a[1] * f_a + b[1] * f_b, a[2] * f_a[..., None] + b[2] * f_b[..., None]


def _base_as_maximum(a, b):
    m, l, o = merge(a, b)
    return m.nan_to_num(neginf=0.0), l, o


def _normalised(a, b):
    m, l, o = merge(a, b)
    return m, l, o / l[..., None]


STREAM_MISTAKES = (
    (
        _mean,
        "each block has a softmax of its own, and their mean is taken; bring l and O to one base and divide once, at "
        "the end",
    ),
    (_stream(_added), "l and O of different bases are added; multiply each by e^(its m - the new m) first"),
    (_stream(_first_only), "the block's own l and O are relative to its own maximum; bring them to the new base too"),
    (lambda blocks: _state(blocks)[2], "O is a sum of weighted values; divide it by l, once, at the end"),
    (_stream(_o_left), "O must be multiplied by the same factor as l"),
)

MERGE_MISTAKES = (
    (_added, "l and O of different bases are added; multiply each by e^(its m - the new m) first"),
    (
        _first_only,
        "only the first state is brought to the new base; the second may be the one with the smaller maximum",
    ),
    (
        lambda a, b: _first_only(b, a),
        "only the second state is brought to the new base; the first may be the one with the smaller maximum",
    ),
    (_o_left, "O must be multiplied by the same factor as l"),
    (_inverted, "the factor is upside down: it is e^(old m - new m), which is at most 1"),
    (_base_as_maximum, "where neither state has seen anything, m must stay -inf; 0 is a base to subtract, no maximum"),
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


def _merge_part(title, cases):
    judge = calls(title, merge, cases, mistakes=MERGE_MISTAKES, rtol=SINGLE)

    def test(function):
        try:
            judge.test(function)
        except Wrong as wrong:
            if "not finite" in str(wrong):
                raise Wrong(
                    "NaN or infinity: a state that has seen nothing has m = -inf, and (-inf) - (-inf) is NaN"
                ) from None
            raise

    return Part(title, test)


EXERCISES = (
    Exercise("4.2-one-pass", "attention in one pass", (
        _one_pass_part("blocks without masks", partial(_blocks, 1, [4, 4, 4]), partial(_blocks, 2, [1, 5, 2, 7]),
                       partial(_blocks, 3, [6])),
        _one_pass_part("large scores", partial(_blocks, 5, [4, 4, 4], shift=2000.0),
                       partial(_blocks, 5, [4, 4], shift=-2000.0), partial(_blocks, 4, [3, 3, 3, 3], spread=400.0)),
        _one_pass_part(
            "masked keys, and blocks that are masked whole",
            partial(_blocks, 6, [4, 4, 4], masked=(1,)), partial(_blocks, 7, [3, 3], masked=(0,)),
            partial(_blocks, 8, [4, 4, 4, 4], masked=(0, 1, 3)), partial(_blocks, 9, [4, 4], masked=(0, 1)),
        ),
    )),
    Exercise("4.2-merge", "the merge of two states", (
        _merge_part("states that have seen something", lambda r: [_states(r.randrange(10**6)) for _ in range(6)]),
        _merge_part("states that have seen nothing", lambda r: [_states(r.randrange(10**6), empty) for empty in (
            ((0,), ()), ((), (1, 2)), ((0,), (0,)), ((0, 1, 2), (0, 1, 2)))]),
    )),
    Exercise("4.2-bugs", "scores that expose a wrong update", (
        bug_part("A", "does the maximum rise after the first block?"),
        bug_part("B", "its base may fall, which is harmless in exact arithmetic; when does e^(m - m_new) overflow?"),
        bug_part("C", "its base is never below 0, which is harmless in exact arithmetic; "
                      "when do all weights become 0?"),
        bug_part("D", "is there any update that it gets wrong?"),
    ), {"version D": "version A"}),
)  # fmt: skip
