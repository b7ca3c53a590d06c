"""The checks of lessons 4.1 and 4.2: right answers in several guises pass, and each wrong one gets a sentence that helps."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pagedkv.attention.online_softmax import SoftmaxState  # noqa: E402
from pagedkv.course.judge.check import check  # noqa: E402
from pagedkv.course.lesson_4_1 import exercises as reading  # noqa: E402
from pagedkv.course.lesson_4_2 import exercises as merging  # noqa: E402

pytestmark = pytest.mark.usefixtures("references_are_answers")


def verdict(capsys, name, answer):
    result = check(name, answer)
    return result, capsys.readouterr().out


def passes(capsys, name, answer):
    result, printed = verdict(capsys, name, answer)
    assert result.points == result.max_points, printed


def fails(capsys, name, answer, sentence):
    result, printed = verdict(capsys, name, answer)
    assert result.points < result.max_points
    assert sentence in printed, printed


def stub(*_):
    ...


@pytest.mark.parametrize("name, answer", [("4.1-seen", (stub, stub)), ("4.1-decode", stub), ("4.1-prefill", stub),
                                          ("4.2-one-pass", stub), ("4.2-merge", stub), ("4.2-bugs", dict.fromkeys("ABCD", ...))])
def test_a_stub_is_not_attempted(capsys, name, answer):
    result, printed = verdict(capsys, name, answer)
    assert result.points == 0 and "not attempted" in printed


# 4.1, what a query sees

SEEN = {
    "the reference": (reading.blocks_read, reading.seen),
    "math and a loop": (
        lambda position, block_size: math.ceil((position + 1) / block_size),
        lambda p, logical, b: [True] * max(0, min(b, p + 1 - logical * b)) + [False] * (b - max(0, min(b, p + 1 - logical * b))),
    ),
    "a tensor": (lambda p, b: (p + b) // b, lambda p, logical, b: p >= logical * b + torch.arange(b)),
}


@pytest.mark.parametrize("answer", SEEN.values(), ids=SEEN)
def test_what_a_query_sees(capsys, answer):
    passes(capsys, "4.1-seen", answer)


WRONG_SEEN = {
    "position // block": ((lambda p, b: p // b, None), "p + 1 tokens"),
    "rounded down": ((lambda p, b: (p + 1) // b, None), "round up"),
    "always one more": ((lambda p, b: (p + 1) // b + 1, None), "one block too many"),
    "a fraction": ((lambda p, b: math.ceil((p + 1) / b) * 1.0, None), "a whole number is expected"),
    "without itself": ((None, lambda p, j, b: [j * b + t < p for t in range(b)]), "its own token too"),
    "slots": ((None, lambda p, j, b: [t <= p % b for t in range(b)]), "earlier blocks are seen whole"),
    "the opposite": ((None, lambda p, j, b: [j * b + t > p for t in range(b)]), "the opposite"),
    "numbers": ((None, lambda p, j, b: [t for t in range(b) if j * b + t <= p]), "True or False is expected, not a whole number"),
}


@pytest.mark.parametrize("answer, sentence", WRONG_SEEN.values(), ids=WRONG_SEEN)
def test_wrong_answers_to_what_a_query_sees(capsys, answer, sentence):
    fails(capsys, "4.1-seen", answer, sentence)


# 4.1, the block loop


def by_block(q, k_cache, v_cache, block_table, seq_len, *, scale=8**-0.5, rounded=lambda n: -(-n // 4), mask_v=True, table=True):
    scores, values = [], []
    for j in range(rounded(seq_len)):
        block = int(block_table[j]) if table else j
        valid = min(4, seq_len - 4 * j) if mask_v else 4
        s = k_cache[block, :valid] @ q * scale
        scores.append(s.masked_fill(4 * j + torch.arange(valid) >= seq_len, -math.inf))
        values.append(v_cache[block, :valid])
    return torch.softmax(torch.cat(scores), 0) @ torch.cat(values)


def gathered(q, k_cache, v_cache, block_table, seq_len):
    used = block_table[: -(-seq_len // 4)].long()
    k, v = (cache[used].flatten(0, 1)[:seq_len] for cache in (k_cache, v_cache))
    return torch.nn.functional.scaled_dot_product_attention(q[None, None], k[None], v[None])[0, 0]


def online(q, k_cache, v_cache, block_table, seq_len):
    m, total, o = -math.inf, 0.0, torch.zeros_like(q)
    for p in range(seq_len):
        s = float(k_cache[block_table[p // 4], p % 4] @ q) / 8**0.5
        new = max(m, s)
        total = total * math.exp(m - new) + math.exp(s - new)
        o = o * math.exp(m - new) + math.exp(s - new) * v_cache[block_table[p // 4], p % 4]
        m = new
    return o / total


def in_float32(q, k_cache, v_cache, block_table, seq_len):
    scores, output = torch.zeros(seq_len), torch.zeros(len(q))
    places = [(int(block_table[p // 4]), p % 4) for p in range(seq_len)]
    for p, place in enumerate(places):
        scores[p] = q @ k_cache[place] * 8**-0.5
    for weight, place in zip(scores.softmax(0), places, strict=True):
        output += weight * v_cache[place]
    return output


@pytest.mark.parametrize("answer", [reading.decode, by_block, gathered, online, in_float32])
def test_the_block_loop(capsys, answer):
    passes(capsys, "4.1-decode", answer)


def changed(q, k_cache, v_cache, block_table, seq_len):
    v_cache.nan_to_num_(0.0)
    return by_block(q, k_cache, v_cache, block_table, seq_len, mask_v=False)


def mean_of_blocks(q, k, v, table, n):
    parts = [torch.softmax(k[table[j], : n - 4 * j] @ q * 8**-0.5, 0) @ v[table[j], : n - 4 * j] for j in range(-(-n // 4))]
    return sum(parts) / len(parts)


def blocks_of_16(q, k, v, table, n):
    cut = [(k[table[j], : n - 16 * j], v[table[j], : n - 16 * j]) for j in range(-(-n // 16))]
    keys, values = (torch.cat(part) for part in zip(*cut, strict=True))
    return torch.softmax(keys @ q * 8**-0.5, 0) @ values


def slots_of_16(q, k, v, table, n):
    p = torch.arange(n)
    return torch.softmax(k[table[p // 16], p % 16] @ q * 8**-0.5, 0) @ v[table[p // 16], p % 16]


WRONG_DECODES = {
    "logical as physical": (lambda *a: by_block(*a, table=False), "the logical block number is used as the physical one"),
    "no scale": (lambda *a: by_block(*a, scale=1.0), "square root of head_dim"),
    "rounded down": (lambda *a: by_block(*a, rounded=lambda n: max(1, n // 4)), "round the number of blocks up"),
    "scores masked, values not": (lambda *a: by_block(*a, mask_v=False), "0 · NaN is NaN"),
    "last block whole": (lambda q, k, v, t, n: gathered(q, k, v, t, -(-n // 4) * 4), "only the slots below seq_len count"),
    "mean of softmaxes": (mean_of_blocks, "all scores must share one denominator"),
    "without the last token": (lambda q, k, v, t, n: gathered(q, k, v, t, max(1, n - 1)), "some elements are wrong"),
    "the whole table": (lambda q, k, v, t, n: gathered(q, k, v, t, len(t) * 4), "past the last block in use"),
    "head_dim of the notebook": (lambda *a: by_block(*a, scale=64**-0.5), "head_dim is 8 here, not 64"),
    "nothing to see": (lambda *a: by_block(*a) * math.nan, "is there a softmax over nothing?"),
    "blocks of 16": (blocks_of_16, "blocks have k_cache.shape[1] slots here, not 16"),
    "slots of 16": (slots_of_16, "blocks have k_cache.shape[1] slots here"),
    "changes the cache": (changed, "changes its input `v_cache`"),
    "a list": (lambda *a: by_block(*a).tolist(), "a tensor of float64 is expected, not a list"),
    "nothing": (lambda *a: print(end=""), "is the return missing"),
}


@pytest.mark.parametrize("answer, sentence", WRONG_DECODES.values(), ids=WRONG_DECODES)
def test_wrong_block_loops(capsys, answer, sentence):
    fails(capsys, "4.1-decode", answer, sentence)


# 4.1, the prefill


def one_by_one(q, k_cache, v_cache, block_table, seq_len):
    first = seq_len - len(q) + 1
    return torch.stack([by_block(row, k_cache, v_cache, block_table, first + i) for i, row in enumerate(q)])


def masked(q, k_cache, v_cache, block_table, seq_len, *, diagonal=None, scale=None):
    used = block_table[: -(-seq_len // 4)].long()
    k, v = (cache[used].flatten(0, 1)[:seq_len] for cache in (k_cache, v_cache))
    see = torch.ones(len(q), seq_len, dtype=torch.bool).tril(seq_len - len(q) if diagonal is None else diagonal(seq_len, len(q)))
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=see, scale=scale)[0]


def rows_in_float32(q, k_cache, v_cache, block_table, seq_len):
    output = torch.zeros(q.shape)
    for i, row in enumerate(q):
        output[i] = in_float32(row, k_cache, v_cache, block_table, seq_len - len(q) + i + 1)
    return output


@pytest.mark.parametrize("answer", [reading.prefill, one_by_one, masked, rows_in_float32])
def test_the_prefill(capsys, answer):
    passes(capsys, "4.1-prefill", answer)


def over_whole_blocks(q, k_cache, v_cache, block_table, seq_len):
    used = block_table[: -(-seq_len // 4)].long()
    k, v = (cache[used].flatten(0, 1) for cache in (k_cache, v_cache))
    hidden = torch.arange(len(k)) > torch.arange(seq_len - len(q), seq_len)[:, None]
    return (q @ k.T * 8**-0.5).masked_fill(hidden, -math.inf).softmax(-1) @ v


WRONG_PREFILLS = {
    "no mask": (lambda *a: masked(*a, diagonal=lambda n, m: n), "there is no causal mask"),
    "from the top left": (lambda *a: masked(*a, diagonal=lambda n, m: 0), "query i is at position seq_len - len(q) + i"),
    "without itself": (lambda *a: masked(*a, diagonal=lambda n, m: n - m - 1).nan_to_num(), "its own token too"),
    "one too many": (lambda *a: masked(*a, diagonal=lambda n, m: n - m + 1), "one token too many"),
    "no scale": (lambda *a: masked(*a, scale=1.0), "square root of head_dim"),
    "head_dim of the notebook": (lambda *a: masked(*a, scale=64**-0.5), "head_dim is 8 here, not 64"),
    "values not masked": (over_whole_blocks, "0 · NaN is NaN"),
    "one query": (lambda *a: masked(*a)[0], "the shape is not the right one"),
}


@pytest.mark.parametrize("answer, sentence", WRONG_PREFILLS.values(), ids=WRONG_PREFILLS)
def test_wrong_prefills(capsys, answer, sentence):
    fails(capsys, "4.1-prefill", answer, sentence)


def without_itself(q, k_cache, v_cache, block_table, seq_len):
    """Query 0 of a prompt sees nothing, and its softmax is NaN."""
    k, v = (cache[block_table[: -(-seq_len // 4)].long()].flatten(0, 1)[:seq_len] for cache in (k_cache, v_cache))
    hidden = torch.arange(seq_len) >= torch.arange(seq_len - len(q), seq_len)[:, None]
    return (q @ k.T * 8**-0.5).masked_fill(hidden, -math.inf).softmax(-1) @ v


def test_nan_is_put_down_to_unused_slots_only_where_they_cause_it(capsys):
    assert verdict(capsys, "4.1-prefill", without_itself)[1].count("its own token too") == 3
    assert verdict(capsys, "4.1-prefill", over_whole_blocks)[1].count("0 · NaN is NaN") == 1
    assert "0 · NaN" not in verdict(capsys, "4.1-prefill", lambda *a: masked(*a) * math.nan)[1]


# 4.2, one pass


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


@pytest.mark.parametrize("answer", [merging.one_pass, with_states, key_by_key, sums_in_float32])
def test_one_pass(capsys, answer):
    passes(capsys, "4.2-one-pass", answer)


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
    "everything kept": (everything_kept, "all blocks are kept until the end"),
    "not divided": (stream(divide=False), "divide it by l"),
}


def test_the_running_update_of_these_tests_is_right(capsys):
    passes(capsys, "4.2-one-pass", stream())


@pytest.mark.parametrize("answer, sentence", WRONG_STREAMS.values(), ids=WRONG_STREAMS)
def test_wrong_passes(capsys, answer, sentence):
    fails(capsys, "4.2-one-pass", answer, sentence)


@pytest.mark.parametrize("slip", ["no rescaling", "the block is not rescaled", "O is not rescaled", "mean of softmaxes", "not divided"])
def test_all_parts_blame_the_same_slip(capsys, slip):
    answer, sentence = WRONG_STREAMS[slip]
    printed = verdict(capsys, "4.2-one-pass", answer)[1]
    assert printed.count(sentence) == printed.count("not yet") >= 2, printed


def test_keeping_every_block_earns_nothing():
    assert check("4.2-one-pass", everything_kept).points == 0


# 4.2, the merge


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


@pytest.mark.parametrize("answer", [merging.merge, by_state, by_lse, head_by_head])
def test_the_merge(capsys, answer):
    passes(capsys, "4.2-merge", answer)


def unguarded(a, b):
    m = torch.maximum(a[0], b[0])
    f, g = torch.exp(a[0] - m), torch.exp(b[0] - m)
    return m, a[1] * f + b[1] * g, a[2] * f[:, None] + b[2] * g[:, None]


def with_changes(a, b, *, f=lambda m, new: torch.exp(m - new), g=lambda m, new: torch.exp(m - new), o=True, normalise=False):
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
    "upside down": (lambda a, b: with_changes(a, b, f=lambda m, n: torch.exp(n - m), g=lambda m, n: torch.exp(n - m)), "upside down"),
    "normalised": (lambda a, b: with_changes(a, b, normalise=True), "divide by l once, at the very end"),
    "no guard": (unguarded, "a state that has seen nothing"),
    "0 as a maximum": (lambda a, b: (by_state(a, b)[0].nan_to_num(neginf=0.0), *by_state(a, b)[1:]), "m must stay -inf"),
    "no [:, None]": (lambda a, b: (a[0], a[1], a[2] * torch.exp(a[0] - b[0])), "shapes do not fit together"),
    "two of three": (lambda a, b: by_state(a, b)[:2], "too short"),
    "in place": (lambda a, b: by_state((a[0], a[1].mul_(2), a[2]), b), "changes its input"),
}


@pytest.mark.parametrize("answer, sentence", WRONG_MERGES.values(), ids=WRONG_MERGES)
def test_wrong_merges(capsys, answer, sentence):
    fails(capsys, "4.2-merge", answer, sentence)


# 4.2, find the scores

BUGS = {
    "of NumPy": {"A": [[0, 1], [np.int64(2)]], "B": [[np.float32(800)], [0]], "C": [(-800,)], "D": "RIGHT"},
    "in lower case": {"a": [[0], [1]], "b": [[800], [0]], "c": [[-800]], "d": "right"},
    "short": {"A": [[0], [1]], "B": [[800], [0]], "C": [[-800]], "D": "right"},
    "long": {"A": [[1.0, 2.0], [0.5], [7.0, 7.0]], "B": [[5, 900], [3, 4], [1]], "C": [[-1000, -999], [-998.5]], "D": "Right"},
}


@pytest.mark.parametrize("answer", BUGS.values(), ids=BUGS)
def test_scores_that_expose_the_bugs(capsys, answer):
    passes(capsys, "4.2-bugs", answer)


WRONG_BUGS = {
    "the maximum falls": ({"A": [[3], [1]]}, "does the maximum rise after the first block?"),
    "one block": ({"A": [[3, 5, 7]]}, "does the maximum rise after the first block?"),
    "the base falls a little": ({"B": [[3], [1]]}, "when does e^(m - m_new) overflow?"),
    "not low enough": ({"C": [[-5], [-7]]}, "when do all weights become 0?"),
    "a wrong one called right": ({"B": "right"}, "there are scores on which it is wrong"),
    "the right one accused": ({"D": [[1], [2]]}, "is there any update that it gets wrong?"),
    "no blocks": ({"A": [1, 2]}, "a list of one to eight blocks is expected"),
    "an infinity": ({"C": [[-math.inf]]}, "every score must be a finite number"),
    "a word": ({"A": "wrong"}, 'the word "right"'),
    "a list": ([[[0], [1]], [[800], [0]], [[-800]], "right"], "a dict with the keys A, B, C, D is expected"),
    "by number": ({1: [[0], [1]]}, "a dict with the keys A, B, C, D is expected"),
}


@pytest.mark.parametrize("answer, sentence", WRONG_BUGS.values(), ids=WRONG_BUGS)
def test_wrong_scores(capsys, answer, sentence):
    fails(capsys, "4.2-bugs", answer, sentence)
