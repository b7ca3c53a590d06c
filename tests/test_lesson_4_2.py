"""Lesson 4.2: what its checks accept and refuse, and that its pictures show the numbers of a softmax."""
# ruff: noqa: E741 (l is the papers' name)

import itertools
import math

import numpy as np
import pytest
from exercise_rules import exercise_tests
from picture_rules import assert_legible, assert_to_scale, boxes, chart_crossings
from prediction_rules import prediction_test
from widget_rules import widget_tests

torch = pytest.importorskip("torch")

from pagedkv.attention.online_softmax import SoftmaxState  # noqa: E402
from pagedkv.course.judge.check import check  # noqa: E402
from pagedkv.course.lesson_4_2 import exercises, one_pass, pictures, predictions, widgets  # noqa: E402

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "4.2-one-pass": {
        "0.0 → ...": "any start of l and o is multiplied by e^(-inf - m) = 0, and any finite base serves where nothing "
        "is visible",
        "0 → 1": "where l is not above 1 it is 1, and o / l is o",
    },
    "4.2-merge": {"0.0 → ...": "any finite base serves where nothing was visible"},
    "4.2-bugs": {"... → ...": "other scores that expose the same slip"},
}


# Exercises

# One pass


def with_states(blocks):
    state = SoftmaxState()
    for scores, values in blocks:
        state.update(scores, values)
    return state.output()


def key_by_key(blocks):
    m, total, o = -math.inf, 0.0, 0.0
    for scores, values in blocks:
        o = o + torch.zeros(values.shape[1], dtype=values.dtype)
        for s, v in zip(scores.tolist(), values, strict=True):
            if s > m:
                total, o, m = total * math.exp(m - s), o * math.exp(m - s), s
            if s > -math.inf:
                total, o = total + math.exp(s - m), o + math.exp(s - m) * v
    return o / total if total else o


def sums_in_float32(blocks):
    m, total = -math.inf, 0.0
    for i, (scores, values) in enumerate(blocks):
        if i == 0:
            o = torch.zeros(values.shape[1])
        top = max(m, scores.max().item())
        if top > -math.inf:
            weights, factor, m = torch.exp(scores - top), math.exp(m - top), top
            total = total * factor + weights.sum().item()
            o *= factor
            o += weights @ values
    return o / total if total else o


def stream(*, guard=True, factor=lambda m, new: math.exp(m - new), rescale_o=True, local=True, base=max, divide=True):
    """The running update with one thing wrong."""

    def one_pass(blocks):
        m, total, o = -math.inf, 0.0, 0.0
        for scores, values in blocks:
            m_j = float(scores.max())
            if guard and m_j == -math.inf:
                o = o + torch.zeros_like(values[0])
                continue
            new = base(m, m_j)
            weights = torch.exp(scores - m_j)
            old = float("nan") if m == new == -math.inf else 0.0 if m == -math.inf else factor(m, new)
            mine = factor(m_j, new) if local else 1.0
            total = total * old + weights.sum() * mine
            o = o * (old if rescale_o else 1.0) + weights @ values * (mine if rescale_o else 1.0)
            m = new
        return o / (total or 1.0) if divide else o

    return one_pass


def two_passes(blocks):
    top = max(float(scores.max()) for scores, _ in blocks)
    parts = [(torch.exp(s - (0 if top == -math.inf else top)), v) for s, v in blocks]
    return sum(w @ v for w, v in parts) / (sum(w.sum() for w, _ in parts) or 1.0)


def everything_kept(blocks):
    scores, values = zip(*blocks, strict=True)
    return torch.softmax(torch.cat(scores), 0).nan_to_num() @ torch.cat(values)


def everything_copied(blocks):
    kept = [(s.clone(), v.clone()) for s, v in blocks]
    s, v = (torch.cat(x) for x in zip(*kept, strict=True))
    return torch.softmax(s, 0) @ v if (s > -math.inf).any() else v[0] * 0


def everything_in_one_tensor(blocks):
    s, v = torch.zeros(0), torch.zeros(0, 4)
    for scores, values in blocks:
        s, v = torch.cat([s, scores]), torch.cat([v, values])
    return torch.softmax(s, 0) @ v if (s > -math.inf).any() else v[0] * 0


def everything_as_numbers(blocks):
    s, v = [], []
    for scores, values in blocks:
        s, v = s + scores.tolist(), v + values.tolist()
    s, v = torch.tensor(s), torch.tensor(v)
    return torch.softmax(s, 0) @ v if (s > -math.inf).any() else v[0] * 0


def a_state_of_every_block(blocks):
    states = [one_pass.state_of(*block) for block in blocks]
    base = max(float(m) for m, _, _ in states)
    factors = [math.exp(m - base) if m > -math.inf else 0.0 for m, _, _ in states]
    total = sum(f * l for f, (_, l, _) in zip(factors, states, strict=True))
    return sum(f * o for f, (_, _, o) in zip(factors, states, strict=True)) / (total or 1.0)


def loop(*, l_factor=True, o_factor=True, turned=False, keep_m=False, divide=False, carry=True, at_the_end=True):
    """The solution's loop, with a slip: it takes the weights of a block at the new base at once."""

    def one_pass(blocks):
        m, l, o = -math.inf, 0.0, 0.0
        for scores, values in blocks:
            m_new = max(m, scores.max().item())
            base = 0.0 if m_new == -math.inf else m_new
            weights = torch.exp(scores - base)
            factor = torch.tensor(m - base).exp()
            if turned and m > -math.inf:
                factor = 1 / factor
            l = (l * (factor if l_factor else 1) if carry else 0) + weights.sum()
            o = (o * (factor if o_factor else 1) if carry else 0) + weights @ values
            if divide and l > 0:
                o = o / l
            m = m if keep_m else m_new
        return o / l if l > 0 and at_the_end else o

    return one_pass


def upside_down_from_the_start(blocks):
    m, l, o = -math.inf, 0.0, 0.0
    for scores, values in blocks:
        m_new = torch.tensor(m).maximum(scores.max())
        weights = torch.exp(scores - m_new)
        l = l * torch.exp(m_new - m) + weights.sum()
        o = o * torch.exp(m_new - m) + weights @ values
        m = m_new
    return o / l


def naive(blocks):
    total, o = 0.0, 0.0
    for scores, values in blocks:
        total, o = total + scores.exp().sum(), o + scores.exp() @ values
    return o / (total or 1.0)


def mean(blocks):
    parts = [torch.softmax(s, 0).nan_to_num() @ v for s, v in blocks]
    return sum(parts) / len(parts)


def zero_by_zero(blocks):
    state = SoftmaxState()
    for block in blocks:
        state.update(*block)
    return state.o / state.l


def plain_zero(blocks):
    output = with_states(blocks)
    return output if output.any() else torch.tensor(0.0)


WRONG_STREAMS = {
    "no guard": (stream(guard=False), "(-inf) - (-inf) is NaN"),
    "no rescaling": (stream(factor=lambda m, new: 1.0), "l and O of different bases are added"),
    "the block is not rescaled": (stream(local=False), "relative to its own maximum"),
    "O is not rescaled": (stream(rescale_o=False), "O must be multiplied by the same factor"),
    "mean of softmaxes": (mean, "divide once, at the end"),
    "naive": (naive, "is every exponential taken of a number that is at most 0"),
    "0 / 0 where nothing is visible": (zero_by_zero, "return zeros of shape [dim]"),
    "a number where nothing is visible": (plain_zero, "return zeros of shape [dim]"),
    "two passes": (two_passes, "more than once"),
    "everything kept": (everything_kept, "memory grows with every block"),
    "everything copied": (everything_copied, "memory grows with every block"),
    "everything in one tensor": (everything_in_one_tensor, "memory grows with every block"),
    "everything as numbers": (everything_as_numbers, "memory grows with every block"),
    "a state of every block": (a_state_of_every_block, "memory grows with every block"),
    "not divided": (stream(divide=False), "divide it by l"),
    "loop: l is not rescaled": (loop(l_factor=False), "l is not brought to the new base"),
    "loop: O is not rescaled": (loop(o_factor=False), "O must be multiplied by the same factor"),
    "loop: nothing is rescaled": (loop(l_factor=False, o_factor=False), "l and O of different bases are added"),
    "loop: upside down": (loop(turned=True), "the factor is upside down|factor upside down"),
    "loop: upside down, in the first block too": (upside_down_from_the_start, "factor upside down"),
    "loop: m is never updated": (loop(keep_m=True), "only the last block counts"),
    "loop: the last block": (loop(carry=False), "only the last block counts"),
    "loop: divided inside": (loop(divide=True), "O is divided by l inside the loop"),
    "loop: divided inside only": (loop(divide=True, at_the_end=False), "O is divided by l inside the loop"),
}
LOOPS = [name for name in WRONG_STREAMS if name.startswith("loop: ") and "upside down" not in name]


@pytest.mark.parametrize(
    "slip",
    ["no rescaling", "the block is not rescaled", "O is not rescaled", "mean of softmaxes", "not divided", *LOOPS],
)
def test_all_parts_blame_the_same_slip(capsys, slip):
    answer, sentence = WRONG_STREAMS[slip]
    check("4.2-one-pass", answer)
    printed = capsys.readouterr().out
    assert printed.count(sentence) == printed.count("not yet") >= 2, printed


@pytest.mark.parametrize(
    "answer",
    [everything_kept, everything_copied, everything_in_one_tensor, everything_as_numbers, a_state_of_every_block],
)
def test_keeping_something_of_every_block_earns_nothing(answer):
    assert check("4.2-one-pass", answer).points == 0


def test_a_slip_by_hand():
    """Scores [0] and [ln 2], values 1 and 3: (1 · 1 + 2 · 3) / 3; l left at its base gives (0.5 + 3) / 2."""
    blocks = [(torch.tensor([0.0]), torch.tensor([[1.0]])), (torch.tensor([math.log(2)]), torch.tensor([[3.0]]))]
    assert one_pass.one_pass(blocks).item() == pytest.approx(7 / 3)
    assert loop(l_factor=False)(blocks).item() == pytest.approx(1.75)


# The merge


def by_state(a, b):
    state = SoftmaxState(*a).merge(SoftmaxState(*b))
    return state.m, state.l, state.o


def by_lse(a, b):
    lses = [m + torch.log(total) for m, total, _ in (a, b)]
    m, lse = torch.maximum(a[0], b[0]), torch.logaddexp(*lses)
    base = torch.where(m == -math.inf, 0.0, m)
    total = torch.exp(lse - base)
    shares = [torch.exp(x[0] - base)[:, None] * x[2] for x in (a, b)]
    return [m, total, shares[0] + shares[1]]


def head_by_head(a, b):
    m, total, o = torch.maximum(a[0], b[0]), torch.zeros(3), torch.zeros(3, 4)
    for head in range(3):
        for part in (a, b):
            if part[0][head] > -math.inf:
                factor = torch.exp(part[0][head] - m[head])
                total[head] += factor * part[1][head]
                o[head] += factor * part[2][head]
    return m, total, o


def unguarded(a, b):
    m = torch.maximum(a[0], b[0])
    f, g = torch.exp(a[0] - m), torch.exp(b[0] - m)
    return m, a[1] * f + b[1] * g, a[2] * f[:, None] + b[2] * g[:, None]


def at_the_lse(a, b):
    """Right outputs from another base: the log-sum-exp of all that was seen."""
    m = torch.logaddexp(a[0] + a[1].log(), b[0] + b[1].log())
    f, g = torch.exp(a[0] - m), torch.exp(b[0] - m)
    return m, a[1] * f + b[1] * g, a[2] * f[:, None] + b[2] * g[:, None]


def at_zero(a, b):
    f, g = a[0].exp(), b[0].exp()
    return torch.zeros(3), a[1] * f + b[1] * g, a[2] * f[:, None] + b[2] * g[:, None]


def guards_the_whole_state(a, b):
    """The guard looks at all heads together; one empty head among others escapes it."""
    if (torch.maximum(a[0], b[0]) == -math.inf).all():
        return a
    return unguarded(a, b)


def one_base_for_all_heads(a, b):
    m = torch.maximum(a[0], b[0])
    f, g = (torch.exp(x - m.max()) for x in (a[0], b[0]))
    return m, a[1] * f + b[1] * g, a[2] * f[:, None] + b[2] * g[:, None]


def larger_only(a, b):
    first = a[0] >= b[0]
    return torch.maximum(a[0], b[0]), torch.where(first, a[1], b[1]), torch.where(first[:, None], a[2], b[2])


def averaged(a, b):
    return by_state(a, b)[0], by_state(a, b)[1], (a[2] + b[2]) / 2


def with_changes(
    a, b, *, f=lambda m, new: torch.exp(m - new), g=lambda m, new: torch.exp(m - new), o=True, normalise=False
):
    m = torch.maximum(a[0], b[0])
    f, g = (x.nan_to_num() for x in (f(a[0], m), g(b[0], m)))
    total = a[1] * f + b[1] * g
    out = a[2] * f[:, None] + b[2] * g[:, None] if o else a[2] + b[2]
    return m, total, out / total[:, None] if normalise else out


def one(m, new):
    return torch.ones_like(m)


WRONG_MERGES = {
    "added": (lambda a, b: with_changes(a, b, f=one, g=one), "l and O of different bases are added"),
    "only the first": (lambda a, b: with_changes(a, b, g=one), "only the first state is brought to the new base"),
    "only the second": (lambda a, b: with_changes(a, b, f=one), "only the second state is brought to the new base"),
    "not O": (lambda a, b: with_changes(a, b, o=False), "O must be multiplied by the same factor"),
    "upside down": (
        lambda a, b: with_changes(a, b, f=lambda m, n: torch.exp(n - m), g=lambda m, n: torch.exp(n - m)),
        "upside down",
    ),
    "normalised": (lambda a, b: with_changes(a, b, normalise=True), "nothing: O stays unnormalised"),
    "no guard": (unguarded, "a state that has seen nothing"),
    "0 as a maximum": (
        lambda a, b: (by_state(a, b)[0].nan_to_num(neginf=0.0), *by_state(a, b)[1:]),
        "m must stay -inf",
    ),
    "no [:, None]": (lambda a, b: (a[0], a[1], a[2] * torch.exp(a[0] - b[0])), "shapes do not fit together"),
    "the log-sum-exp for m": (at_the_lse, "m is expected to be the largest score seen, not the log-sum-exp"),
    "0 for m": (at_zero, "m is expected to be the largest score seen"),
    "a guard over all heads": (guards_the_whole_state, "a state that has seen nothing"),
    "one base for all heads": (one_base_for_all_heads, "each head has a base of its own"),
    "one maximum for all heads": (
        lambda a, b: (torch.maximum(a[0], b[0]).max().expand(3), *one_base_for_all_heads(a, b)[1:]),
        "nothing: each head has a base of its own",
    ),
    "the larger one": (larger_only, "the state with the smaller maximum is thrown away"),
    "O averaged": (averaged, "brought to one base and added, not averaged"),
    "two of three": (lambda a, b: by_state(a, b)[:2], "too short"),
    "in place": (lambda a, b: by_state((a[0], a[1].mul_(2), a[2]), b), "changes its input"),
}


# Find the scores

BUGS = {
    "of NumPy": {"A": [[0, 1], [np.int64(2)]], "B": [[np.float32(800)], [0]], "C": [(-800,)], "D": "RIGHT"},
    "in lower case": {"a": [[0], [1]], "b": [[800], [0]], "c": [[-800]], "d": "right"},
    "short": {"A": [[0], [1]], "B": [[800], [0]], "C": [[-800]], "D": "right"},
    "long": {
        "A": [[1.0, 2.0], [0.5], [7.0, 7.0]],
        "B": [[5, 900], [3, 4], [1]],
        "C": [[-1000, -999], [-998.5]],
        "D": "Right",
    },
}


WRONG_BUGS = {
    "the maximum falls": ({"A": [[3], [1]]}, "does the maximum rise after the first block?"),
    "one block": ({"A": [[3, 5, 7]]}, "does the maximum rise after the first block?"),
    "the base falls a little": ({"B": [[3], [1]]}, "when does e^(m - m_new) overflow?"),
    "not low enough": ({"C": [[-5], [-7]]}, "when do all weights become 0?"),
    "a wrong one called right": ({"B": "right"}, "there are scores on which it is wrong"),
    "the right one accused": ({"D": [[1], [2]]}, "is there any update that it gets wrong?"),
    "a rise that is too small to see": ({"A": [[0.0], [1e-9]]}, "does the maximum rise after the first block?"),
    "the largest score last": ({"B": [[0], [800]]}, "when does e^(m - m_new) overflow?"),
    "low, but not everywhere": ({"C": [[-800], [3]]}, "when do all weights become 0?"),
    "far apart": ({"D": [[-1e300], [1e300]]}, "is there any update that it gets wrong?"),
    "no blocks": ({"A": [1, 2]}, "a list of one to eight blocks is expected"),
    "an infinity": ({"C": [[-math.inf]]}, "every score must be a finite number"),
    "a word": ({"A": "wrong"}, 'the word "right"'),
    "a list": ([[[0], [1]], [[800], [0]], [[-800]], "right"], "a dict with the keys A, B, C, D is expected"),
    "by number": ({1: [[0], [1]]}, "a dict with the keys A, B, C, D is expected"),
}

RIGHT = {
    "4.2-one-pass": [one_pass.one_pass, with_states, key_by_key, sums_in_float32, stream()],
    "4.2-merge": [one_pass.merge, by_state, by_lse, head_by_head],
    "4.2-bugs": [*BUGS.values()],
}
WRONG = {
    "4.2-one-pass": [*WRONG_STREAMS.values()],
    "4.2-merge": [*WRONG_MERGES.values()],
    "4.2-bugs": [*WRONG_BUGS.values()],
}
STUBS = {"4.2-bugs": dict.fromkeys("ABCD", ...)}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG, STUBS)


# Pictures

TREES = [("One after another", (((0, 1), 2), 3)), ("In pairs, shuffled", ((3, 1), (0, 2)))]
STATES = {
    tree: (14.25, 103.5, 12.3456)
    for tree in [0, 1, 2, 3, (0, 1), ((0, 1), 2), (((0, 1), 2), 3), (3, 1), (0, 2), ((3, 1), (0, 2))]
}


def test_the_texts_of_trees_are_apart_and_inside():
    assert_legible(pictures.merge_trees(TREES, STATES)[0].svg("a picture"))


def test_the_statistics_of_a_step_are_those_of_a_softmax():
    m, total, o = pictures.statistics([1.0, 3.0], [5.0, 7.0])
    assert (m, total, o) == (3.0, 1 + math.exp(-2), 7 + 5 * math.exp(-2))
    assert pictures.statistics([], []) == (-math.inf, 0, 0)


def test_bars_of_l_and_o_are_as_long_as_their_numbers():
    scores, values = [[0.3, 1.1], [4.0, 0.2], [1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    canvas, _ = pictures.online_step(scores, values, 1)
    before, alone = (pictures.statistics(*block) for block in zip(scores[:2], values[:2], strict=True))
    after = pictures.statistics(sum(scores[:2], []), sum(values[:2], []))
    shrunk = math.exp(before[0] - after[0])
    bars = {fill: [box for box in boxes(canvas, fill) if box[3] == 24] for fill in (pictures.OLD, pictures.NEW)}
    for row, y in ((1, 154), (2, 188)):
        old, new = ([width for _, top, width, _ in drawn if top == y] for drawn in bars.values())
        numbers = [before[row], before[row] * shrunk, alone[row], alone[row]]
        assert_to_scale([*old, *new], numbers)
        assert old[1] + new[1] == pytest.approx(old[0] * after[row] / before[row])
    assert max(width for drawn in bars.values() for _, _, width, _ in drawn) <= pictures.BAR
    assert_legible(canvas.svg("In words."))


def test_the_errors_are_lines_named_at_their_ends():
    axes = pictures.rounding_errors([16, 64], {"one": [1e-3, 2e-3], "other": [1e-7, 1e-7]})[0].axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1e-3, 2e-3], [1e-7, 1e-7]]
    assert [text.get_text() for text in axes.texts] == ["one", "other"]
    assert chart_crossings(axes.figure) == []


# Widgets

SETTINGS = {
    "online": [
        {"step": step, "jump": jump, "place": place}
        for step, jump, place in itertools.product(range(4), (0.0, 6.0), range(4))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)


def added():
    """Blocks of two keys, scores 0 and 5, values 1 and 3: (O_0 + O_1) / (l_0 + l_1)."""
    parts = [SoftmaxState.of_block(torch.full((1, 2), s), torch.full((2, 1), v)) for s, v in ((0.0, 1.0), (5.0, 3.0))]
    return sum(part.o for part in parts) / sum(part.l for part in parts)


def hidden():
    """Which states the update as the lesson writes it turns into NaN when a block is masked whole."""

    def update(m, l):
        scores = torch.full((4,), -math.inf)
        m_j = scores.max()
        l_j, m_new = torch.exp(scores - m_j).sum(), torch.maximum(m, m_j)
        return l * torch.exp(m - m_new) + l_j * torch.exp(m_j - m_new)

    running, empty = (
        update(torch.tensor(m), torch.tensor(l)).isnan().item() for m, l in ((1.0, 2.0), (-math.inf, 0.0))
    )
    return {(False, False): "neither", (True, False): "that of the running state", (True, True): "both"}[running, empty]


def bases():
    scores = torch.tensor(list(itertools.chain(*widgets.blocks(jump=4.0, place=2))))
    right, found = torch.softmax(scores, 0), []
    for name, base in (("+120", 120.0), ("the maximum", scores.max()), ("0", 0.0), ("-20", -20.0), ("-90", -90.0)):
        weights = torch.exp(scores - base)
        found += [name] if torch.allclose(weights / weights.sum(), right) else []
    return f"{', '.join(found[:-1])} and {found[-1]}"


def bits():
    generator = torch.Generator().manual_seed(0)
    scores, values = torch.randn(1, 200, generator=generator), torch.randn(200, 64, generator=generator)

    def output(size, place):
        slots = torch.randperm(200, generator=torch.Generator().manual_seed(place))
        memory = torch.empty_like(values)
        memory[slots] = values
        state = SoftmaxState()
        for s, v in zip(scores.split(size, dim=1), memory[slots].split(size), strict=True):
            state.update(s, v)
        return state.output()

    places = all(torch.equal(output(16, place), output(16, 0)) for place in range(10))
    sizes = all(torch.equal(output(size, 0), output(16, 0)) for size in (1, 2, 4, 8, 32, 64, 256))
    return {(True, True): "neither", (True, False): "the tile sizes", (False, True): "the places"}.get((places, sizes))


def counting():
    state, score, value = SoftmaxState(), *torch.tensor([[[0.0]], [[1.0]]], dtype=torch.bfloat16)
    for _ in range(1000):
        state.update(score, value)
    return state.l


COMPUTED = {"4.2-added": added, "4.2-hidden": hidden, "4.2-base": bases, "4.2-bits": bits, "4.2-counting": counting}
test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)
