"""The identities of online softmax, on which every kernel rests."""
# ruff: noqa: E741 (l is the papers' name)

import math
import random

import pytest

torch = pytest.importorskip("torch")

from pagedkv.attention.online_softmax import SoftmaxState  # noqa: E402

SHAPE = (2, 3)  # heads, queries


def blocks(sizes, seed=0, spread=3.0):
    """Scores [2, 3, n] and values [2, n, 8] for each n, in float64."""
    g = torch.Generator().manual_seed(seed)
    return [
        (
            spread * torch.randn(*SHAPE, n, generator=g, dtype=torch.float64),
            torch.randn(2, n, 8, generator=g, dtype=torch.float64),
        )
        for n in sizes
    ]


def whole(parts):
    scores, values = torch.cat([s for s, _ in parts], -1), torch.cat([v for _, v in parts], -2)
    return torch.softmax(scores, -1) @ values, torch.logsumexp(scores, -1)


def close(state, expected):
    torch.testing.assert_close(state.output(), expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(state.lse(), expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [[1], [7], [4, 4, 4], [1, 9, 2, 30]], ids=str)
def test_one_pass_over_blocks_is_exact(sizes):
    state = SoftmaxState()
    for scores, values in (parts := blocks(sizes)):
        assert state.update(scores, values) is state
    close(state, whole(parts))


def test_the_numbers_shrink_when_the_maximum_rises():
    state = SoftmaxState()
    for scores, values in blocks([4] * 30):
        m = torch.maximum(state.m, scores.amax(-1))
        l, o = state.at_base(m)
        rises = m > state.m
        assert (torch.exp(state.m - m) <= 1).all()
        assert (l <= state.l).all() and (o.abs() <= state.o.abs()).all()
        if state.l.dim():  # something has been seen
            assert (l < state.l)[rises].all() and torch.equal(l[~rises], state.l[~rises])
        state.update(scores, values)
        assert torch.equal(state.m, m)


def test_a_block_that_is_masked_whole_leaves_the_state_as_it_was():
    (scores, values), (_, other_values) = blocks([5, 4])
    state = SoftmaxState().update(scores, values)
    before = state.m.clone(), state.l.clone(), state.o.clone()
    state.update(torch.full((*SHAPE, 4), -math.inf, dtype=torch.float64), other_values)
    assert all(torch.equal(a, b) for a, b in zip((state.m, state.l, state.o), before, strict=True))


def test_rows_may_begin_with_masked_blocks_or_see_nothing():
    (scores, values), (later, later_values) = blocks([5, 4])
    hidden = torch.full_like(scores, -math.inf)
    state = SoftmaxState().update(hidden, values)
    assert (state.output() == 0).all() and (state.lse() == -math.inf).all()
    close(state.update(later, later_values), whole([(later, later_values)]))
    half = scores.clone()
    half[:, 1] = -math.inf
    state = SoftmaxState().update(half, values)
    assert (
        (state.output()[:, 1] == 0).all() and (state.lse()[:, 1] == -math.inf).all() and state.output().isfinite().all()
    )


def test_a_new_state_has_seen_nothing():
    state = SoftmaxState()
    assert (state.m.item(), state.l.item(), state.o.item()) == (-math.inf, 0, 0)
    assert state.output().item() == 0 and state.lse().item() == -math.inf
    (block,) = blocks([6])
    close(SoftmaxState().merge(SoftmaxState().update(*block)), whole([block]))
    close(SoftmaxState().update(*block).merge(SoftmaxState()), whole([block]))
    assert (SoftmaxState().merge(SoftmaxState()).lse() == -math.inf).all()


@pytest.mark.parametrize("seed", range(10))
def test_any_order_and_any_tree_of_merges_gives_the_same(seed):
    parts = blocks([3, 1, 4, 1, 5, 9, 2, 6], seed=seed)
    rng = random.Random(seed)
    states = [SoftmaxState().update(*part) for part in parts]
    while len(states) > 1:
        a, b = (states.pop(rng.randrange(len(states))) for _ in range(2))
        states.append(a.merge(b))
    close(states[0], whole(parts))


def test_merging_commutes_to_the_bit():
    a, b = blocks([5, 3])
    one, two = (
        SoftmaxState().update(*a).merge(SoftmaxState().update(*b)),
        SoftmaxState().update(*b).merge(SoftmaxState().update(*a)),
    )
    assert torch.equal(one.l, two.l) and torch.equal(one.o, two.o)


def test_merge_leaves_the_other_state_alone():
    a, b = (SoftmaxState().update(*part) for part in blocks([5, 3]))
    before = b.m.clone(), b.l.clone(), b.o.clone()
    a.merge(b).update(*blocks([2])[0])
    assert all(torch.equal(x, y) for x, y in zip((b.m, b.l, b.o), before, strict=True))


def test_huge_scores_neither_overflow_nor_vanish():
    for dtype in (torch.float16, torch.float32, torch.float64):
        values = torch.tensor([[1.0], [3.0]], dtype=dtype)
        for scores, expected in (([60000.0, 60000.0], 2.0), ([60000.0, -60000.0], 1.0), ([-60000.0, -60000.0], 2.0)):
            state = SoftmaxState()
            for score, value in zip(torch.tensor(scores, dtype=dtype), values, strict=True):
                state.update(score.view(1, 1), value.view(1, 1))
            assert state.output().item() == expected and state.o.dtype == dtype


def test_without_a_heads_dimension():
    scores, values = torch.tensor([0.0, 0.0, math.log(2)]), torch.tensor([[1.0], [2.0], [3.0]])
    assert SoftmaxState().update(scores, values).output().item() == pytest.approx(9 / 4)
