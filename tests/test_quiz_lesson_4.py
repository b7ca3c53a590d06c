"""The checks of lessons 4.1 and 4.2: right answers in several guises pass, and each wrong one gets a sentence that helps."""

import math

import pytest

torch = pytest.importorskip("torch")

from pagedkv.quiz import lesson_4_1 as reading  # noqa: E402
from pagedkv.quiz.check import check  # noqa: E402


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


@pytest.mark.parametrize("name, answer", [("4.1-seen", (stub, stub)), ("4.1-decode", stub), ("4.1-prefill", stub)])
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


@pytest.mark.parametrize("answer", [reading.decode, by_block, gathered, online])
def test_the_block_loop(capsys, answer):
    passes(capsys, "4.1-decode", answer)


def changed(q, k_cache, v_cache, block_table, seq_len):
    v_cache.nan_to_num_(0.0)
    return by_block(q, k_cache, v_cache, block_table, seq_len, mask_v=False)


def mean_of_blocks(q, k, v, table, n):
    parts = [torch.softmax(k[table[j], : n - 4 * j] @ q * 8**-0.5, 0) @ v[table[j], : n - 4 * j] for j in range(-(-n // 4))]
    return sum(parts) / len(parts)


WRONG_DECODES = {
    "logical as physical": (lambda *a: by_block(*a, table=False), "the logical block number is used as the physical one"),
    "no scale": (lambda *a: by_block(*a, scale=1.0), "square root of head_dim"),
    "rounded down": (lambda *a: by_block(*a, rounded=lambda n: max(1, n // 4)), "round the number of blocks up"),
    "scores masked, values not": (lambda *a: by_block(*a, mask_v=False), "0 · NaN is NaN"),
    "last block whole": (lambda q, k, v, t, n: gathered(q, k, v, t, -(-n // 4) * 4), "only the slots below seq_len count"),
    "mean of softmaxes": (mean_of_blocks, "all scores must share one denominator"),
    "without the last token": (lambda q, k, v, t, n: gathered(q, k, v, t, max(1, n - 1)), "some elements are wrong"),
    "the whole table": (lambda q, k, v, t, n: gathered(q, k, v, t, len(t) * 4), "past the last block in use"),
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


@pytest.mark.parametrize("answer", [reading.prefill, one_by_one, masked])
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
    "values not masked": (over_whole_blocks, "0 · NaN is NaN"),
    "one query": (lambda *a: masked(*a)[0], "the shape is not the right one"),
}


@pytest.mark.parametrize("answer, sentence", WRONG_PREFILLS.values(), ids=WRONG_PREFILLS)
def test_wrong_prefills(capsys, answer, sentence):
    fails(capsys, "4.1-prefill", answer, sentence)
