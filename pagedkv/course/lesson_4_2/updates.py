"""Four versions of the online-softmax update on plain numbers, shown in lesson 4.2: three are wrong, each on some scores only."""
# ruff: noqa: E741 (l is the papers' name)

import math
from math import exp


def start():
    return -math.inf, 0.0, 0.0


def version_a(m, l, o, scores, values):
    m_new = max(m, *scores)
    factor = exp(m - m_new)
    weights = [exp(s - m_new) for s in scores]
    return m_new, l * factor + sum(weights), o + sum(w * v for w, v in zip(weights, values, strict=True))


def version_b(m, l, o, scores, values):
    m_new = max(scores)
    factor = exp(m - m_new)
    weights = [exp(s - m_new) for s in scores]
    return m_new, l * factor + sum(weights), o * factor + sum(w * v for w, v in zip(weights, values, strict=True))


def version_c(m, l, o, scores, values):
    m_new = max(m, 0.0, *scores)
    factor = exp(m - m_new)
    weights = [exp(s - m_new) for s in scores]
    return m_new, l * factor + sum(weights), o * factor + sum(w * v for w, v in zip(weights, values, strict=True))


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
