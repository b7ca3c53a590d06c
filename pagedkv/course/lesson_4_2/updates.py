"""Four versions of the online-softmax update on plain numbers, shown in lesson 4.2: three are wrong, each on some
scores only; and the exercise that finds those scores.
"""
# ruff: noqa: E741 (l is the papers' name)

import math
from math import exp
from numbers import Real

from pagedkv.course.judge.calling import NotAttempted
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Part
from pagedkv.course.judge.stub import is_stub


def start():
    return -math.inf, 0.0, 0.0


def version_a(m, l, o, scores, values):
    m_new = max(m, *scores)
    factor = exp(m - m_new)
    weights = [exp(s - m_new) for s in scores]
    weighted = sum(w * v for w, v in zip(weights, values, strict=True))
    return m_new, l * factor + sum(weights), o + weighted


def version_b(m, l, o, scores, values):
    m_new = max(scores)
    factor = exp(m - m_new)
    weights = [exp(s - m_new) for s in scores]
    weighted = sum(w * v for w, v in zip(weights, values, strict=True))
    return m_new, l * factor + sum(weights), o * factor + weighted


def version_c(m, l, o, scores, values):
    m_new = max(m, 0.0, *scores)
    factor = exp(m - m_new)
    weights = [exp(s - m_new) for s in scores]
    weighted = sum(w * v for w, v in zip(weights, values, strict=True))
    return m_new, l * factor + sum(weights), o * factor + weighted


def version_d(m, l, o, scores, values):
    for s, v in zip(scores, values, strict=True):
        if s > m:
            m, l, o = s, l * exp(m - s) + 1.0, o * exp(m - s) + v
        else:
            l, o = l + exp(s - m), o + exp(s - m) * v
    return m, l, o


VERSIONS = {"A": version_a, "B": version_b, "C": version_c, "D": version_d}


def run(version, blocks):
    """The output of a version over blocks of scores; the values are 1, 2, 3, … NaN where it breaks down."""
    state, count = start(), 0
    try:
        for scores in blocks:
            state = version(*state, scores, [float(count + i + 1) for i in range(len(scores))])
            count += len(scores)
        return state[2] / state[1]
    except (OverflowError, ZeroDivisionError):
        return math.nan


def exact(blocks):
    """What `run` ought to return."""
    scores = [s for block in blocks for s in block]
    weights = [exp(s - max(scores)) for s in scores]
    return math.fsum(w * (i + 1) for i, w in enumerate(weights)) / math.fsum(weights)


def bug_part(name, hint):
    def test(answer):
        if not isinstance(answer, dict) or not {str(key).upper() for key in answer} <= {*VERSIONS}:
            raise Wrong(f"a dict with the keys {', '.join(VERSIONS)} is expected")
        mine = answer.get(name, answer.get(name.lower()))
        if is_stub(mine):
            raise NotAttempted
        if isinstance(mine, str):
            if mine.strip().lower() != "right":
                raise Wrong('a list of blocks is expected, or the word "right"')
            if name != "D":
                raise Wrong("there are scores on which it is wrong")
            return
        right, got = exact(_valid(mine)), run(VERSIONS[name], mine)
        if name == "D" or math.isclose(right, got, rel_tol=1e-6):
            raise Wrong(f"version {name} gives the right output on these scores; {hint}")

    return Part(f"version {name}", test)


def _valid(blocks):
    """The answer, if it is a list of up to 8 blocks of finite scores."""
    lists = isinstance(blocks, (list, tuple)) and all(isinstance(block, (list, tuple)) for block in blocks)
    if not lists or not 0 < len(blocks) <= 8 or not all(0 < len(block) <= 8 for block in blocks):
        raise Wrong("a list of one to eight blocks is expected, each a list of one to eight scores")
    if not all(isinstance(s, Real) and math.isfinite(s) for block in blocks for s in block):
        raise Wrong("every score must be a finite number")
    return blocks
