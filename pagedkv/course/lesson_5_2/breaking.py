"""Exercises of the third question of lesson 5.2: a test that finds wrong merges, and inputs that break wrong versions."""

import math

import numpy as np

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part
from pagedkv.course.lesson_5_2.merging import INF, merge, merge_outputs, merge_with
from pagedkv.course.lesson_5_2.wrong_softmax import VERSIONS, in_one_piece


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
                raise Wrong("a right merge is called wrong; is there a tolerance?" if right else "a wrong merge passes; try other inputs")

    return Part(title, test)


PROPERTY = Exercise("5.2-property", "a test that finds wrong merges", (
    _tells("nothing rescaled", merge_with((False, False), (False, False))),
    _tells("one base rescaled and not the other", merge_with((True, False), (True, False)), merge_with((False, True), (False, True))),
    _tells("l and o at different bases", merge_with(o_factors=(False, False)), merge_with(l_factors=(False, False))),
    _tells("normalised outputs averaged", merge_outputs),
))


def _breaks(number, version, hint):
    def test(blocks):
        if not isinstance(blocks, (list, tuple)) or not blocks:
            raise Wrong("a list of blocks is expected, each (scores, values)")
        for block in blocks:
            if not isinstance(block, (list, tuple)) or len(block) != 2 or not all(isinstance(part, (list, tuple)) for part in block):
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
            if not abs(version(blocks) - in_one_piece(blocks)) > 1e-3 * max(abs(v) for _, values in blocks for v in values):
                raise Wrong(hint)
        except (ArithmeticError, ValueError):
            raise Wrong("these numbers are so extreme that it fails for another reason; use smaller ones") from None

    return Part(f"{version.__name__} gives another output", test, of=number)


BREAK = Exercise("5.2-break", "inputs that break three wrong versions", tuple(
    _breaks(number, version, hint) for number, (version, hint) in enumerate(zip(VERSIONS, (
        "the first version still gives the right output; which block's sums are never multiplied by a factor, and when is it not 1?",
        "the second version still gives the right output; give the blocks different shares of the total weight, and different values",
        "the third version still gives the right output; how low must the visible scores be for -10000 to matter?",
    ), strict=True))
))
