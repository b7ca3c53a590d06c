"""The exercise of lesson 4.2 in which attention goes over its blocks once: right for any scores, in memory that stays
as it is.
"""
# ruff: noqa: E741 (l is the papers' name)

import gc
import math
import tracemalloc
from functools import partial

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import SINGLE, Wrong, alike, is_tensor, same
from pagedkv.course.judge.exercise import Exercise, Part


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


def merge(a, b):
    """Two states (m [heads], l [heads], o [heads, dim]) -> their union; (-inf, 0, 0) has seen nothing."""
    import torch

    (m_a, l_a, o_a), (m_b, l_b, o_b) = ([torch.as_tensor(x, dtype=torch.float64) for x in state] for state in (a, b))
    m = torch.maximum(m_a, m_b)
    base = torch.where(m == -math.inf, 0.0, m)
    f_a, f_b = (m_a - base).exp(), (m_b - base).exp()
    return m, l_a * f_a + l_b * f_b, o_a * f_a[..., None] + o_b * f_b[..., None]


def state_of(scores, values):
    m = scores.max()
    weights = (scores - (0.0 if m == -math.inf else m)).exp()
    return m, weights.sum(), weights @ values


class Stream:
    """Blocks that come one by one and can be gone over once; counts the passes, and the bytes that are held in addition
    between the block number `EARLY` and the last.
    """

    def __init__(self, blocks):
        self.blocks, self.passes, self.growth = blocks, 0, 0

    def __iter__(self):
        self.passes += 1
        for number, (scores, values) in enumerate(self.blocks):
            if number == EARLY:
                early = _bytes_held()
            elif number > EARLY and number == len(self.blocks) - 1:
                self.growth = _bytes_held() - early
            yield scores.clone(), values.clone()


EARLY, MANY = 100, 1000  # blocks; the first hundred pay for whatever is made once
MAY_GROW = 16_384  # bytes in 900 blocks: of each block's 160, less than one number may be kept


def _bytes_held() -> int:
    """The bytes of all tensors, and what Python and NumPy have allocated since `tracemalloc` was started."""
    storages = [x.untyped_storage() for x in gc.get_objects() if is_tensor(x)]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values()) + tracemalloc.get_traced_memory()[0]


def _memory_grows(function, blocks) -> bool:
    stream = Stream(blocks * (MANY // len(blocks)))
    started_here = not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        call(function, stream, changes=(0,))
    finally:
        if started_here:
            tracemalloc.stop()
    return stream.growth > MAY_GROW


def _blocks(seed, sizes, spread=2.0, masked=(), shift=0.0):
    """Random float64 blocks; block numbers in `masked` are hidden whole, and one key in five everywhere else."""
    import torch

    draw, blocks = torch.Generator().manual_seed(seed), []
    for index, n in enumerate(sizes):
        scores = shift + spread * torch.randn(n, generator=draw, dtype=torch.float64)
        hidden = torch.rand(n, generator=draw) < (2.0 if index in masked else 0.2 if n > 1 and masked else 0.0)
        blocks.append((scores.masked_fill(hidden, -math.inf), torch.randn(n, 4, generator=draw, dtype=torch.float64)))
    return blocks


def _one_pass_part(title, *draws, memory=False):
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
        if memory and _memory_grows(function, draws[0]()):
            raise Wrong(
                "the output is right, but memory grows with every block: all blocks, or something of each, is kept to "
                "the end; keep m, l and O only"
            )

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
        return (
            "NaN or infinity: is every exponential taken of a number that is at most 0? With the factor upside down, "
            "e^(new m - old m), the first block already gives infinity"
        )
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


def _loop(l_factor=True, o_factor=True, turned=False, divide=False, then=lambda l, o: o / (l + (l == 0))):
    """The output of the lesson's loop, which takes each block's weights at the new base at once, with a slip."""

    def run(blocks):
        m, l, o = -math.inf, 0.0, 0.0
        for scores, values in blocks:
            m_new = max(m, float(scores.max()))
            base = 0.0 if m_new == -math.inf else m_new
            weights, factor = (scores - base).exp(), math.exp(min(m - base, 700.0))
            if turned and m > -math.inf:
                factor = math.exp(min(base - m, 700.0))
            l = l * (factor if l_factor else 1.0) + weights.sum()
            o = o * (factor if o_factor else 1.0) + weights @ values
            o = o / (l + (l == 0)) if divide else o
            m = m_new
        return then(l, o)

    return run


def _mean(blocks):
    parts = [o / (l + (l == 0)) for _, l, o in (state_of(*block) for block in blocks)]
    return sum(parts) / len(parts)


def added(a, b):
    return merge(a, b)[0], a[1] + b[1], a[2] + b[2]


def first_only(a, b):
    m, factor = merge(a, b)[0], (a[0] - merge(a, b)[0]).exp()
    return m, a[1] * factor + b[1], a[2] * factor[..., None] + b[2]


def o_left(a, b):
    return *merge(a, b)[:2], a[2] + b[2]


UPSIDE_DOWN = "the factor is upside down: it is e^(old m - new m), which is at most 1"
DIVIDED_EARLY = "O is divided by l inside the loop, and is no sum from then on; divide once, at the end"
STREAM_MISTAKES = (
    (
        _mean,
        "each block has a softmax of its own, and their mean is taken; bring l and O to one base and divide once, at "
        "the end",
    ),
    (_stream(added), "l and O of different bases are added; multiply each by e^(its m - the new m) first"),
    (_stream(first_only), "the block's own l and O are relative to its own maximum; bring them to the new base too"),
    (lambda blocks: _state(blocks)[2], "O is a sum of weighted values; divide it by l, once, at the end"),
    (_stream(o_left), "O must be multiplied by the same factor as l"),
    (_loop(o_factor=False), "O must be multiplied by the same factor as l"),
    (
        _loop(l_factor=False),
        "l is not brought to the new base: multiply it by e^(m - the new m) before the block's sum is added",
    ),
    (
        _loop(l_factor=False, o_factor=False),
        "l and O of different bases are added; multiply each by e^(its m - the new m) first",
    ),
    (_loop(turned=True), UPSIDE_DOWN),
    (_loop(divide=True), DIVIDED_EARLY),
    (_loop(divide=True, then=lambda l, o: o), DIVIDED_EARLY),
    (
        lambda blocks: one_pass(blocks[-1:]),
        "only the last block counts in the output: is m updated at the end of the loop, and are l and O carried on?",
    ),
    (lambda blocks: one_pass(blocks[:1]), "only the first block counts in the output; the return stands in the loop"),
)

ONE_PASS = Exercise("4.2-one-pass", "attention in one pass", (
    _one_pass_part("blocks without masks", partial(_blocks, 1, [4, 4, 4]), partial(_blocks, 2, [1, 5, 2, 7]),
                   partial(_blocks, 3, [6]), memory=True),
    _one_pass_part("large scores", partial(_blocks, 5, [4, 4, 4], shift=2000.0),
                   partial(_blocks, 5, [4, 4], shift=-2000.0), partial(_blocks, 4, [3, 3, 3, 3], spread=400.0)),
    _one_pass_part(
        "masked keys, and blocks that are masked whole",
        partial(_blocks, 6, [4, 4, 4], masked=(1,)), partial(_blocks, 7, [3, 3], masked=(0,)),
        partial(_blocks, 8, [4, 4, 4, 4], masked=(0, 1, 3)), partial(_blocks, 9, [4, 4], masked=(0, 1)),
    ),
), dict.fromkeys(  # where memory is watched
    ("large scores", "masked keys, and blocks that are masked whole"), "blocks without masks"
))  # fmt: skip
