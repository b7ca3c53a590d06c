"""The third question of lesson 5.2: the merge of two softmax states, derived and written; a test that finds wrong
merges, and inputs that break wrong versions.
"""

import math

import numpy as np

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part, calls
from pagedkv.course.lesson_5_2.wrong_softmax import VERSIONS, in_one_piece

INF = math.inf


def _draw_pairs(rng):
    """(m, m_block) with the larger one on either side, -inf, equal and negative ones too."""
    pairs = [(rng.uniform(-9, 0), rng.uniform(1, 9)) for _ in range(3)]
    return [(-INF, 1.5), (2.0, 2.0), *pairs, *(pair[::-1] for pair in pairs), (-7.0, -2.0), (-2.0, -7.0)]


def _draw_factors(rng):
    return [(m, max(m, other)) for m, other in _draw_pairs(rng)]


def _draw_sums(rng):
    return [(0.0 if m == -INF else rng.uniform(1, 4), m, rng.uniform(1, 4), other) for m, other in _draw_pairs(rng)]


def _draw_outputs(rng):
    return [(rng.uniform(1, 4), rng.uniform(-4, 4)) for _ in range(4)]


def _merged_sum(l, m, l_block, m_block):  # noqa: E741
    return l * math.exp(m - max(m, m_block)) + l_block * math.exp(m_block - max(m, m_block))


DERIVATION = Exercise("5.2-derivation", "the merge, derived", (
    calls("the new base", max, _draw_pairs, of=0, mistakes=(
        (lambda m, b: m + b, "the base is the largest score so far, and two blocks do not add their scores"),
        (lambda m, b: b, "an earlier block may hold the larger score"),
        (lambda m, b: m if m > -INF else b, "a later block may hold a larger score than the first"),
        (lambda m, b: max(m, b, 0.0), "0 is no score that was seen: where all are below it, the base is too"),
    )),
    calls("the factor", lambda m, m_new: math.exp(m - m_new), _draw_factors, of=1, mistakes=(
        (lambda m, new: math.exp(new - m) if m > -INF else INF,
         "it has to shrink what was summed: turn the difference"),
        (lambda m, new: m / new if m > -INF else -INF, "e^(s - m) · factor = e^(s - m_new); solve for the factor"),
    )),
    calls("the merged sum", _merged_sum, _draw_sums, of=2, points=2, mistakes=(
        (lambda old, m, new, b: old + new, "the two sums have different bases"),
        (lambda old, m, new, b: old * math.exp(m - max(m, b)) + new,
         "the block's own sum has to come to the new base as well"),
        (lambda old, m, new, b: old * math.exp(-abs(m - b)) + new,
         "which of the two sums shrinks depends on which maximum is the smaller one"),
        (lambda old, m, new, b: old + new * math.exp(-abs(m - b)),
         "which of the two sums shrinks depends on which maximum is the smaller one"),
        (lambda old, m, new, b: old if m > b else new, "the sum with the smaller maximum counts too, by its factor"),
        (lambda old, m, new, b: old + new * math.exp(b - max(m, b)), "the old sum has to come to the new base as well"),
    )),
    calls("the output", lambda total, o: o / total, _draw_outputs, of=3, mistakes=(
        (lambda total, o: o, "o is not normalised yet"),
        (lambda total, o: o / total**2, "divide by l once"),
        (lambda total, o: total / o, "weighted values over weights, not the other way round"),
    )),
))  # fmt: skip


def state(scores, values):
    """(m, l, o) of one block: scores [n], values [n, d]; -inf marks a masked key."""
    m = max(scores, default=-INF)
    weights = np.exp(np.array(scores) - (m if m > -INF else 0.0))
    return float(m), float(weights.sum()), weights @ values


def merge(a, b):
    m = max(a[0], b[0])
    factors = [math.exp(part[0] - m) if part[0] > -INF else 0.0 for part in (a, b)]
    l, o = (factors[0] * x + factors[1] * y for x, y in zip(a[1:], b[1:], strict=True))  # noqa: E741
    return m, l, o


def merge_with(l_factors=(True, True), o_factors=(True, True)):
    """The merge with some of its factors left out."""

    def wrong(a, b):
        m = max(a[0], b[0])
        fa, fb = (math.exp(part[0] - m) if part[0] > -INF else 0.0 for part in (a, b))
        scale = [
            [f if used else 1.0 for f, used in zip((fa, fb), flags, strict=True)] for flags in (l_factors, o_factors)
        ]
        return m, a[1] * scale[0][0] + b[1] * scale[0][1], a[2] * scale[1][0] + b[2] * scale[1][1]

    return wrong


def merge_outputs(a, b):
    return max(a[0], b[0]), a[1] + b[1], (a[2] / a[1] + b[2] / b[1]) / 2


def merge_at_the_lse(a, b):
    m, l, o = merge(a, b)  # noqa: E741
    return (m + math.log(l), 1.0, o / l) if l else (m, l, o)


def merge_the_larger(a, b):
    return a if a[0] >= b[0] else b


def merge_at_zero(a, b):
    m, l, o = merge(a, b)  # noqa: E741
    return 0.0, l * math.exp(min(m, 700.0)), o * math.exp(min(m, 700.0))


def merge_and_normalise(a, b):
    m, l, o = merge(a, b)  # noqa: E741
    return m, l, o / (l or 1.0)


NORMALISED = merge_and_normalise, "o stays unnormalised in a merge; divide by l once, at the very end"
AT_ZERO = merge_at_zero, "m has to be the largest score seen, and l and o relative to it, not to 0"
MERGE_MISTAKES = (
    NORMALISED,
    (merge_with((False, False), (False, False)),
     "nothing comes to the new base: multiply each part's l and o by e^(its m - m_new)"),
    (merge_with(o_factors=(False, False)), "l comes to the new base, o does not; they share one base"),
    (merge_with(l_factors=(False, False)), "o comes to the new base, l does not; they share one base"),
    (merge_at_the_lse, "o / l is right; m is expected to be the largest score seen, not the log-sum-exp"),
    AT_ZERO,
    (merge_the_larger, "the part with the smaller maximum is thrown away; it counts by e^(its m - m_new)"),
    (merge_with((True, False), (True, False)), "only the first part comes to the new base"),
    (merge_with((False, True), (False, True)), "only the second part comes to the new base"),
)  # fmt: skip


def _drawn_state(rng, low=-5.0, high=5.0):
    n, scale = rng.randrange(1, 6), rng.uniform(1, 3)
    scores = [rng.uniform(low, high) for _ in range(n)]
    values = np.array([[rng.gauss(0, scale) for _ in range(3)] for _ in range(n)])
    return state(scores, values)


def _draw_states(rng, low=-5.0, high=5.0):
    pairs = [(_drawn_state(rng, low, high), _drawn_state(rng, low, high)) for _ in range(3)]
    return pairs + [pair[::-1] for pair in pairs]


def _draw_extremes(rng):
    pair = (_drawn_state(rng, 59990, 60000), _drawn_state(rng, -60000, -59990))
    return [pair, pair[::-1]]


NOTHING = state([], np.zeros((0, 3)))
WHY_NAN = "NaN or infinity: where nothing was seen m is -inf, and (-inf) - (-inf) is NaN"


def _says_why_nan(part: Part) -> Part:
    def test(function):
        try:
            part.test(function)
        except Wrong as wrong:
            raise (Wrong(WHY_NAN) if "not finite" in str(wrong) else wrong) from None

    return Part(part.title, test)


MERGE = Exercise("5.2-merge", "the merge, in code", (
    calls("two blocks", merge, _draw_states, mistakes=MERGE_MISTAKES, points=2),
    _says_why_nan(calls("nothing seen yet", merge,
          lambda rng: [(NOTHING, _drawn_state(rng)), (_drawn_state(rng), NOTHING), (NOTHING, NOTHING)], mistakes=(
        NORMALISED,
        AT_ZERO,
        (lambda a, b: merge(a, b) if a[0] > -INF else a, "the first block has to arrive in an empty state"),
        (lambda a, b: NOTHING if -INF in (a[0], b[0]) else merge(a, b),
         "a state that has seen nothing takes nothing away: the other one stays as it is"),
    ))),
    calls("scores of ±60000", merge, lambda rng: [
        *_draw_states(rng, 59990, 60000), *_draw_states(rng, -60000, -59990), *_draw_extremes(rng)],
          mistakes=MERGE_MISTAKES),
))  # fmt: skip


def _merge_by_lse(a, b):
    """Another right way: through normalised outputs that carry their log-sum-exp."""
    if -INF in (a[0], b[0]):
        return b if a[0] == -INF else a
    lses = np.array([a[0] + math.log(a[1]), b[0] + math.log(b[1])])
    shares = np.exp(lses - np.logaddexp(*lses))
    m = max(a[0], b[0])
    total = math.exp(np.logaddexp(*lses) - m)
    return m, total, total * (shares[0] * a[2] / a[1] + shares[1] * b[2] / b[1])


def _tells(title, *wrong_merges):
    def test(is_exact):
        verdicts = [(merge, True), (_merge_by_lse, True), *((wrong, False) for wrong in wrong_merges)]
        for version, right in verdicts:
            verdict = call(is_exact, version)
            if not isinstance(verdict, (bool, np.bool_)):
                raise Wrong(f"True or False is expected, not {kind(verdict)}")
            if bool(verdict) != right:
                raise Wrong(
                    "a right merge is called wrong; is there a tolerance?"
                    if right
                    else "a wrong merge passes; try other inputs"
                )

    return Part(title, test)


PROPERTY = Exercise("5.2-property", "a test that finds wrong merges", (
    _tells("nothing rescaled", merge_with((False, False), (False, False))),
    _tells("one base rescaled and not the other",
           merge_with((True, False), (True, False)), merge_with((False, True), (False, True))),
    _tells("l and o at different bases", merge_with(o_factors=(False, False)), merge_with(l_factors=(False, False))),
    _tells("normalised outputs averaged", merge_outputs),
))  # fmt: skip


def _breaks(number, version, hint):
    def test(blocks):
        if not isinstance(blocks, (list, tuple)) or not blocks:
            raise Wrong("a list of blocks is expected, each (scores, values)")
        for block in blocks:
            if (
                not isinstance(block, (list, tuple))
                or len(block) != 2
                or not all(isinstance(part, (list, tuple)) for part in block)
            ):
                raise Wrong("each block must be a pair of lists: (scores, values)")
            if len(block[0]) != len(block[1]) or not block[0]:
                raise Wrong("each block needs as many values as scores, at least one")
            for i, x in enumerate([*block[0], *block[1]]):
                masked = i < len(block[0]) and x == -INF
                if isinstance(x, bool) or not isinstance(x, (int, float)) or not (math.isfinite(x) or masked):
                    raise Wrong("scores and values must be finite numbers; only a score may be -inf, for a masked key")
        if all(s == -INF for block in blocks for s in block[0]):
            raise Wrong("at least one key must be visible")
        if number < 2 and any(max(scores) == -INF for scores, _ in blocks):
            raise Wrong("give each block a visible key; masks are what the third version gets wrong")
        try:
            largest = max(abs(v) for _, values in blocks for v in values)
            if not abs(version(blocks) - in_one_piece(blocks)) > 1e-3 * largest:
                raise Wrong(hint)
        except (ArithmeticError, ValueError):
            raise Wrong("these numbers are so extreme that it fails for another reason; use smaller ones") from None

    return Part(f"{version.__name__} gives another output", test, of=number)


BREAK = Exercise("5.2-break", "inputs that break three wrong versions", tuple(
    _breaks(number, version, hint) for number, (version, hint) in enumerate(zip(VERSIONS, (
        "the first version still gives the right output; which block's sums are never multiplied by a factor, and "
        "when is it not 1?",
        "the second version still gives the right output; give the blocks different shares of the total weight, and "
        "different values",
        "the third version still gives the right output; how low must the visible scores be for -10000 to matter?",
    ), strict=True))
))  # fmt: skip
