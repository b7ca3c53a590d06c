"""Attention of one query over blocks, right and in three wrong versions with one slip each. Lesson 5.2 breaks them.

A block is (scores, values), two lists of numbers of the same length; a masked key has the score -inf. Values are
numbers, not vectors:
every slip shows without the rest.
"""

from math import exp, inf


def in_one_piece(blocks):
    """The standard attention: one softmax over all keys."""
    scores, values = ([x for block in blocks for x in block[part]] for part in (0, 1))
    weights = [exp(s - max(scores)) for s in scores]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def one_base_forgotten(blocks):
    m, total, o = -inf, 0.0, 0.0
    for scores, values in blocks:
        m_block = max(scores)
        weights = [exp(s - m_block) for s in scores]
        m_new = max(m, m_block)
        total = total * exp(m - m_new) + sum(weights)
        o = o * exp(m - m_new) + sum(w * v for w, v in zip(weights, values, strict=True))
        m = m_new
    return o / total


def normalised_too_early(blocks):
    outputs = []
    for scores, values in blocks:
        m_block = max(scores)
        weights = [exp(s - m_block) for s in scores]
        outputs.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    return sum(outputs) / len(outputs)


def finite_mask(blocks):
    m, total, o = -inf, 0.0, 0.0
    for scores, values in blocks:
        scores = [-10_000.0 if s == -inf else s for s in scores]
        m_new = max(m, *scores)
        weights = [exp(s - m_new) for s in scores]
        total = total * exp(m - m_new) + sum(weights)
        o = o * exp(m - m_new) + sum(w * v for w, v in zip(weights, values, strict=True))
        m = m_new
    return o / total


VERSIONS = (one_base_forgotten, normalised_too_early, finite_mask)
