"""Lesson 4.1: what its checks accept and refuse, and that its pictures show what a query reads."""

import itertools
import math

import numpy as np
import pytest
from exercise_rules import exercise_tests
from picture_rules import assert_legible, assert_to_scale, boxes, widths
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.course.draw import style
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_4_1 import exercises, pictures, predictions, reading, widgets

torch = pytest.importorskip("torch")

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "4.1-decode": {"0 → -1": "the scores have one dimension, the first and the last"},
}


# Exercises

# What a query sees

SEEN = {
    "the reference": (exercises.blocks_read, exercises.seen),
    "math and a loop": (
        lambda position, block_size: math.ceil((position + 1) / block_size),
        lambda p, logical, b: (
            [True] * max(0, min(b, p + 1 - logical * b)) + [False] * (b - max(0, min(b, p + 1 - logical * b)))
        ),
    ),
    "a tensor": (lambda p, b: (p + b) // b, lambda p, logical, b: p >= logical * b + torch.arange(b)),
}


WRONG_SEEN = {
    "position // block": ((lambda p, b: p // b, None), "p + 1 tokens"),
    "rounded down": ((lambda p, b: (p + 1) // b, None), "round up"),
    "always one more": ((lambda p, b: (p + 1) // b + 1, None), "one block too many"),
    "a fraction": ((lambda p, b: math.ceil((p + 1) / b) * 1.0, None), "a whole number is expected"),
    "without itself": ((None, lambda p, j, b: [j * b + t < p for t in range(b)]), "its own token too"),
    "slots": ((None, lambda p, j, b: [t <= p % b for t in range(b)]), "earlier blocks are seen whole"),
    "the opposite": ((None, lambda p, j, b: [j * b + t > p for t in range(b)]), "the opposite"),
    "numbers": (
        (None, lambda p, j, b: [t for t in range(b) if j * b + t <= p]),
        "True or False is expected, not a whole number",
    ),
}


WRONG_SEEN |= {
    "whole blocks and one": ((lambda p, b: max(1, -(-p // b)), None), "that block is missing"),
    "the last block alone": ((lambda p, b: 1, None), "the earlier ones are read too"),
    "later blocks like the last": (
        (None, lambda p, j, b: [True] * b if j < p // b else [t <= p % b for t in range(b)]),
        "later than the query's own is hidden whole",
    ),
    "its own block alone": (
        (None, lambda p, j, b: [j == p // b and t <= p % b for t in range(b)]),
        "the blocks before the query's own are seen whole",
    ),
    "whole blocks": ((None, lambda p, j, b: [j * b <= p] * b), "only the slots up to its position"),
}


# The block loop


def by_block(
    q, k_cache, v_cache, block_table, seq_len, *, scale=8**-0.5, rounded=lambda n: -(-n // 4), mask_v=True, table=True
):
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


def by_slots(q, k_cache, v_cache, block_table, seq_len):
    slots = [int(block_table[p // 4]) * 4 + p % 4 for p in range(seq_len)]
    return torch.softmax(k_cache.reshape(-1, 8)[slots] @ q / 8**0.5, 0) @ v_cache.reshape(-1, 8)[slots]


def by_slots_in_numpy(q, k_cache, v_cache, block_table, seq_len):
    k, v = (cache.numpy().reshape(-1, 8) for cache in (k_cache, v_cache))
    slots = np.array([int(block_table[p // 4]) * 4 + p % 4 for p in range(seq_len)])
    scores = k[slots] @ q.numpy() / 8**0.5
    weights = np.exp(scores - scores.max())
    return torch.from_numpy(weights / weights.sum() @ v[slots])


def by_block_into_buffers(q, k_cache, v_cache, block_table, seq_len):
    """Into tensors of another size, which start with whatever was in memory."""
    k, v = torch.empty(2, 64, len(q), dtype=q.dtype)
    for j, block in enumerate([int(block) for block in block_table][: -(-seq_len // 4)]):
        k[4 * j : 4 * j + 4].copy_(k_cache[block])
        v[4 * j : 4 * j + 4].copy_(v_cache[block])
    return torch.softmax(k[:seq_len] @ q / 8**0.5, 0) @ v[:seq_len]


def mapped(q, k_cache, v_cache, block_table, seq_len):
    slots = torch.tensor([4 * int(block_table[p // 4]) + p % 4 for p in range(seq_len)])
    k, v = (cache.view(-1, 8)[slots] for cache in (k_cache, v_cache))
    return torch.softmax(torch.vmap(lambda key: (key * q).sum() / 8**0.5)(k), 0) @ v


def the_whole_table_clamped(q, k_cache, v_cache, block_table, seq_len):
    entries = block_table.clamp(0, len(k_cache) - 1).long()
    k, v = (cache[entries].flatten(0, 1) for cache in (k_cache, v_cache))
    beyond = torch.arange(len(k)) >= seq_len
    return torch.softmax((k @ q / 8**0.5).masked_fill(beyond, -math.inf), 0) @ v.masked_fill(beyond[:, None], 0.0)


def clamped_and_cut(q, k_cache, v_cache, block_table, seq_len):
    entries = block_table.clamp(0, len(k_cache) - 1).long()
    k, v = (cache[entries].reshape(-1, len(q))[:seq_len] for cache in (k_cache, v_cache))
    return torch.softmax(k @ q / 8**0.5, 0) @ v


def one_entry_too_many(q, k_cache, v_cache, block_table, seq_len):
    return clamped_and_cut(q, k_cache, v_cache, block_table[: seq_len // 4 + 2], seq_len)


def each_entry_masked(q, k_cache, v_cache, block_table, seq_len):
    """Scores of each block that the table names, cleared and hidden where they are of others."""
    scores, values = [], []
    for j, block in enumerate(block_table.clamp(0, len(k_cache) - 1).tolist()):
        hidden = 4 * j + torch.arange(4) >= seq_len
        scores.append((k_cache[block] @ q / 8**0.5).masked_fill(hidden, -math.inf))
        values.append(v_cache[block].masked_fill(hidden[:, None], 0.0))
    return torch.softmax(torch.cat(scores), 0) @ torch.cat(values)


def clamped_in_numpy(q, k_cache, v_cache, block_table, seq_len):
    k, v = (cache.numpy()[block_table.numpy().clip(0, len(cache) - 1)] for cache in (k_cache, v_cache))
    scores = k.reshape(-1, 8)[:seq_len] @ q.numpy() / 8**0.5
    weights = np.exp(scores - scores.max())
    return torch.from_numpy(weights / weights.sum() @ v.reshape(-1, 8)[:seq_len])


def searched(q, k_cache, v_cache, block_table, seq_len):
    """Finds its blocks by a mask over the pool, which loses their order; attention without positions forgives that."""
    used = torch.isin(torch.arange(len(k_cache)), block_table[: seq_len // 4])
    tail, last = seq_len % 4, int(block_table[(seq_len - 1) // 4])
    k, v = (torch.cat([c[used].flatten(0, 1), c[last, : tail or 0]]) for c in (k_cache, v_cache))
    return torch.softmax(k @ q * 8**-0.5, 0) @ v


def changed(q, k_cache, v_cache, block_table, seq_len):
    v_cache.nan_to_num_(0.0)
    return by_block(q, k_cache, v_cache, block_table, seq_len, mask_v=False)


def mean_of_blocks(q, k, v, table, n):
    parts = [
        torch.softmax(k[table[j], : n - 4 * j] @ q * 8**-0.5, 0) @ v[table[j], : n - 4 * j] for j in range(-(-n // 4))
    ]
    return sum(parts) / len(parts)


def blocks_of_16(q, k, v, table, n):
    cut = [(k[table[j], : n - 16 * j], v[table[j], : n - 16 * j]) for j in range(-(-n // 16))]
    keys, values = (torch.cat(part) for part in zip(*cut, strict=True))
    return torch.softmax(keys @ q * 8**-0.5, 0) @ values


def slots_of_16(q, k, v, table, n):
    p = torch.arange(n)
    return torch.softmax(k[table[p // 16], p % 16] @ q * 8**-0.5, 0) @ v[table[p // 16], p % 16]


def over_the_pool(q, k_cache, v_cache, block_table, seq_len, clean=lambda cache: cache.clone()):
    """Scores of every slot of the pool, hidden where they are not this sequence's."""
    n, block_size, d = k_cache.shape
    last, tail = int(block_table[(seq_len - 1) // block_size]), seq_len % block_size
    k, v = clean(k_cache), clean(v_cache)
    if tail:
        k[last, tail:] = v[last, tail:] = 0
    hidden = torch.full((n, block_size), -math.inf)
    for p in range(seq_len):
        hidden[block_table[p // block_size], p % block_size] = 0
    scores = k.reshape(-1, d) @ q / d**0.5 + hidden.reshape(-1)
    return torch.softmax(scores, 0) @ v.reshape(-1, d)


def over_a_clean_pool(*inputs):
    return over_the_pool(*inputs, clean=torch.nan_to_num)


def converted_first(q, k_cache, v_cache, block_table, seq_len):
    return gathered(q.float(), k_cache.float(), v_cache.float(), block_table, seq_len)


def over_a_numpy_pool(q, k_cache, v_cache, block_table, seq_len):
    k, v = (torch.from_numpy(np.nan_to_num(cache.numpy())) for cache in (k_cache, v_cache))
    return gathered(q, k, v, block_table, seq_len)


def weighted(weigh):
    """Normalised outputs of the blocks, averaged by `weigh(scores)`."""

    def decode(q, k, v, table, n):
        total, output = 0.0, 0.0
        for j in range(-(-n // 4)):
            scores = k[table[j], : n - 4 * j] @ q * 8**-0.5
            total, output = (
                total + weigh(scores),
                output + weigh(scores) * (scores.softmax(0) @ v[table[j], : n - 4 * j]),
            )
        return output / total

    return decode


def window_of_one_block(q, k, v, table, n):
    first = (n - 1) // 4 * 4
    return torch.softmax(k[table[first // 4], : n - first] @ q * 8**-0.5, 0) @ v[table[first // 4], : n - first]


STALE = "entries of block_table past the last block in use are followed"
WRONG_DECODES = {
    "over the whole pool": (over_the_pool, "a block that block_table does not name is read"),
    "over the whole pool, too": (over_the_pool, "all blocks of the pool are copied, converted or scored"),
    "over a pool without NaN": (over_a_clean_pool, "all blocks of the pool are copied, converted or scored"),
    "converted first": (converted_first, "all blocks of the pool are copied, converted or scored"),
    "over a clean NumPy pool": (over_a_numpy_pool, "all blocks of the pool are copied, converted or scored"),
    "the whole table, clamped": (the_whole_table_clamped, STALE),
    "clamped and cut": (clamped_and_cut, STALE),
    "one entry too many": (one_entry_too_many, STALE),
    "each entry, masked": (each_entry_masked, STALE),
    "clamped, in NumPy": (clamped_in_numpy, STALE),
    "by number of tokens": (weighted(len), "the blocks count by their number of tokens"),
    "a maximum for each block": (weighted(lambda s: (s - s.max()).exp().sum()), "relative to its own maximum"),
    "the last block alone": (window_of_one_block, "only the last block is read"),
    "logical as physical": (
        lambda *a: by_block(*a, table=False),
        "the logical block number is used as the physical one",
    ),
    "no scale": (lambda *a: by_block(*a, scale=1.0), "square root of head_dim"),
    "rounded down": (lambda *a: by_block(*a, rounded=lambda n: max(1, n // 4)), "round the number of blocks up"),
    "scores masked, values not": (lambda *a: by_block(*a, mask_v=False), "0 · NaN is NaN"),
    "last block whole": (
        lambda q, k, v, t, n: gathered(q, k, v, t, -(-n // 4) * 4),
        "only the slots below seq_len count",
    ),
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


# The prefill


def one_by_one(q, k_cache, v_cache, block_table, seq_len):
    first = seq_len - len(q) + 1
    return torch.stack([by_block(row, k_cache, v_cache, block_table, first + i) for i, row in enumerate(q)])


def masked(q, k_cache, v_cache, block_table, seq_len, *, diagonal=None, scale=None, size=4):
    used = block_table[: -(-seq_len // size)].long()
    k, v = (cache[used].flatten(0, 1)[:seq_len] for cache in (k_cache, v_cache))
    see = torch.ones(len(q), seq_len, dtype=torch.bool).tril(
        seq_len - len(q) if diagonal is None else diagonal(seq_len, len(q))
    )
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=see, scale=scale)[0]


def rows_in_float32(q, k_cache, v_cache, block_table, seq_len):
    output = torch.zeros(q.shape)
    for i, row in enumerate(q):
        output[i] = in_float32(row, k_cache, v_cache, block_table, seq_len - len(q) + i + 1)
    return output


def over_whole_blocks(q, k_cache, v_cache, block_table, seq_len):
    used = block_table[: -(-seq_len // 4)].long()
    k, v = (cache[used].flatten(0, 1) for cache in (k_cache, v_cache))
    hidden = torch.arange(len(k)) > torch.arange(seq_len - len(q), seq_len)[:, None]
    return (q @ k.T * 8**-0.5).masked_fill(hidden, -math.inf).softmax(-1) @ v


def masked_by(sees):
    """The prefill with `sees(position of the query, of the key, first query)`."""

    def prefill(q, k_cache, v_cache, block_table, seq_len):
        first, p = seq_len - len(q), torch.arange(seq_len)
        k, v = (cache[block_table[p // 4].long(), p % 4] for cache in (k_cache, v_cache))
        see = sees(p[first:, None], p[None], first)
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=see)[0]

    return prefill


def prefill_over_the_pool(q, k_cache, v_cache, block_table, seq_len):
    rows = [over_a_clean_pool(row, k_cache, v_cache, block_table, seq_len - len(q) + i + 1) for i, row in enumerate(q)]
    return torch.stack(rows)


def prefill_clamped(q, k_cache, v_cache, block_table, seq_len):
    entries = block_table.clamp(0, len(k_cache) - 1).long()
    k, v = (cache[entries].reshape(-1, 8)[:seq_len] for cache in (k_cache, v_cache))
    return masked(q, k.view(-1, 1, 8), v.view(-1, 1, 8), torch.arange(seq_len), seq_len, size=1)


WRONG_PREFILLS = {
    "scaled by the queries": (
        lambda q, *rest: reading.prefill(q, *rest, scale=1 / math.sqrt(len(q))),
        "divided by the square root of the number of queries",
    ),
    "clamped and cut": (prefill_clamped, STALE),
    "masked by block": (masked_by(lambda query, key, first: key // 4 <= query // 4), "the mask is by block"),
    "the context and itself": (
        masked_by(lambda query, key, first: (key < first) | (key == query)),
        "the queries do not see one another",
    ),
    "without the context": (
        masked_by(lambda query, key, first: (key >= first) & (key <= query)),
        "the stored context is left out",
    ),
    "over a pool without NaN": (prefill_over_the_pool, "all blocks of the pool are copied, converted or scored"),
    "no mask": (lambda *a: masked(*a, diagonal=lambda n, m: n), "there is no causal mask"),
    "from the top left": (
        lambda *a: masked(*a, diagonal=lambda n, m: 0),
        "query i is at position seq_len - len(q) + i",
    ),
    "without itself": (lambda *a: masked(*a, diagonal=lambda n, m: n - m - 1).nan_to_num(), "its own token too"),
    "one too many": (lambda *a: masked(*a, diagonal=lambda n, m: n - m + 1), "one token too many"),
    "no scale": (lambda *a: masked(*a, scale=1.0), "square root of head_dim"),
    "head_dim of the notebook": (lambda *a: masked(*a, scale=64**-0.5), "head_dim is 8 here, not 64"),
    "values not masked": (over_whole_blocks, "0 · NaN is NaN"),
    "one query": (lambda *a: masked(*a)[0], "the shape is not the right one"),
}


def without_itself(q, k_cache, v_cache, block_table, seq_len):
    """Query 0 of a prompt sees nothing, and its softmax is NaN."""
    k, v = (cache[block_table[: -(-seq_len // 4)].long()].flatten(0, 1)[:seq_len] for cache in (k_cache, v_cache))
    hidden = torch.arange(seq_len) >= torch.arange(seq_len - len(q), seq_len)[:, None]
    return (q @ k.T * 8**-0.5).masked_fill(hidden, -math.inf).softmax(-1) @ v


RIGHT = {
    "4.1-seen": [*SEEN.values()],
    "4.1-decode": [
        reading.decode,
        by_block,
        gathered,
        online,
        in_float32,
        by_slots,
        by_slots_in_numpy,
        by_block_into_buffers,
        mapped,
        searched,
    ],
    "4.1-prefill": [reading.prefill, one_by_one, masked, rows_in_float32],
}
WRONG = {
    "4.1-seen": [*WRONG_SEEN.values()],
    "4.1-decode": [*WRONG_DECODES.values()],
    "4.1-prefill": [*WRONG_PREFILLS.values()],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_nan_is_put_down_to_unused_slots_only_where_they_cause_it(capsys):
    def verdict(answer):
        check("4.1-prefill", answer)
        return capsys.readouterr().out

    assert verdict(without_itself).count("its own token too") == 3
    assert verdict(over_whole_blocks).count("0 · NaN is NaN") == 1
    assert "0 · NaN" not in verdict(lambda *a: masked(*a) * math.nan)


# Pictures

COPIES = {"read in place": {"read K and V": 1.0}, "gather first": {"read the blocks": 1.0, "write the copy": 1.0}}
CANVASES = {
    **{
        f"reading {p} by {b}": pictures.reading(p, 50, list(range(90, 90 + math.ceil(50 / b))), b)[0]
        for p in (0, 31, 49)
        for b in (8, 16, 32)
    },
    **{
        f"causal {n} {b} {t}": pictures.causal_blocks(n, 32, b, t)[0]
        for n, b, t in ((16, 8, 4), (32, 16, 8), (10, 4, 4), (1, 8, 4))
    },
    "bytes": pictures.bytes_moved(COPIES)[0],
}


@pytest.mark.parametrize("canvas", list(CANVASES.values()), ids=CANVASES)
def test_texts_are_apart_and_inside(canvas):
    assert_legible(canvas.svg("a picture"))


@pytest.mark.parametrize("position, block_size", list(itertools.product((0, 15, 16, 37, 49), (8, 16, 32))))
def test_as_many_slots_are_drawn_as_seen_as_the_query_sees(position, block_size):
    canvas, _ = pictures.reading(position, 50, range(-(-50 // block_size)), block_size)
    fills = [shape["fill"] for kind, shape in canvas.shapes if kind == "polygon"]
    seen, own = (fills.count(fill) - 1 for fill in (pictures.SEEN, pictures.OWN))  # one more of each in the legend
    assert (seen, own) == (position, 1)


@pytest.mark.parametrize("block_size", [8, 16, 32, 48])
def test_slots_are_wide_enough_for_their_numbers_and_what_is_not_read_is_as_wide(block_size):
    canvas, alt = pictures.reading(0, 100, range(-(-100 // block_size)), block_size)
    slots = boxes(canvas, edge=style.INK)
    assert len(slots) == block_size and min(width for _, _, width, _ in slots) > 30
    (row,) = {width for width in widths(canvas, edge=style.MUTED)}
    assert row == pytest.approx(slots[0][2] * min(block_size, 16))
    assert_legible(canvas.svg(alt))


@pytest.mark.parametrize("n, tokens, block_size, tile", [(16, 32, 8, 4), (10, 32, 4, 4), (64, 64, 32, 16)])
def test_blocks_and_tiles_are_as_large_as_their_pairs(n, tokens, block_size, tile):
    canvas, alt = pictures.causal_blocks(n, tokens, block_size, tile)
    tiles = [boxes(canvas, fill) for _, fill in pictures.KINDS.values()]
    columns, rows = -(-tokens // block_size), -(-n // tile)
    size = min(16, (style.WIDTH - 164) / (columns * block_size))
    assert {round(width / size, 6) for _, _, width, _ in sum(tiles, [])} == {block_size}
    assert {round(height / size, 6) for *_, height in sum(tiles, [])} <= {tile, n % tile or tile}
    assert sum(map(len, tiles)) == columns * rows
    dots = boxes(canvas, style.INK)
    assert len(dots) == sum(tokens - n + q + 1 for q in range(n))
    assert {(round(width / size, 6), round(height / size, 6)) for _, _, width, height in dots} == {(0.4, 0.4)}
    assert_legible(canvas.svg(alt))


def test_bars_of_bytes_are_as_long_as_their_numbers():
    canvas, _ = pictures.bytes_moved({"in place": {"read": 2.0**31}, "first": {"read": 2.0**30, "write": 2.0**32}})
    lengths = [*widths(canvas, pictures.FILLS[0]), *widths(canvas, pictures.FILLS[1])]
    scale = assert_to_scale(lengths, [2, 1, 4])
    left = {shape["text"]: shape["x"] for kind, shape in canvas.shapes if kind == "text" and "GiB" in shape["text"]}
    assert left["5.00 GiB"] - left["2.00 GiB"] == pytest.approx(3 * scale)


def test_the_kinds_of_a_block_are_those_of_its_pairs():
    for first, size, logical, block_size in itertools.product(range(0, 20, 3), (1, 4), range(5), (1, 4, 8)):
        pairs = [logical * block_size + t <= q for q in range(first, first + size) for t in range(block_size)]
        kind = "whole" if all(pairs) else "mask" if any(pairs) else "skip"
        assert pictures.kind_of(first, first + size - 1, logical, block_size) == kind


# Widgets

SETTINGS = {
    "reading": [
        {"position": position, "block_size": size}
        for position, size in itertools.product((0, 15, 16, 37, 49), (8, 16, 32))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)

# Predictions


def rotated():
    """Must keys with rotary positions be turned anew when they move? Their scores from scattered memory say."""
    generator = np.random.default_rng(0)
    keys, query = generator.standard_normal((2, 32, 8)).view(complex)  # pairs of numbers
    turns = np.exp(1j * np.arange(32)[:, None] * 10_000.0 ** -(np.arange(4) / 4))
    moved = generator.permutation(32)
    memory = np.empty_like(keys)
    memory[moved] = keys * turns
    scores = (memory[moved] * (query * turns)[-1].conj()).real.sum(1)
    right = (keys * turns * (query * turns)[-1].conj()).real.sum(1)
    return "no" if np.array_equal(scores, right) else "yes, by the slots they now lie in"


def nan_in_unused_slots():
    weights, values = np.array([0.5, 0.5, 0.0, 0.0]), np.ones((4, 8))
    values[2:] = np.nan
    nans = np.isnan(weights @ values).sum()
    return {0: "the right numbers: those weights are 0", 8: "NaN in every element"}.get(nans, "NaN in some elements")


def last_queries():
    first, second = (np.arange(5)[: position + 1].mean() for position in (3, 4))
    return f"{first:g} and {second:g}"


def masks():
    words = ("none", "one", "two")
    needed = [sum(pictures.kind_of(q, q + 3, block, 8) == "mask" for block in range(3)) for q in (6, 7)]
    return ", and ".join(words[n] for n in needed)


ANSWERS = {"4.1-rotated": rotated, "4.1-nan": nan_in_unused_slots, "4.1-last": last_queries, "4.1-masks": masks}
test_answers = prediction_test(predictions.PREDICTIONS, ANSWERS)
