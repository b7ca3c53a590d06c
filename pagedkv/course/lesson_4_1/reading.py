"""The exercises of lesson 4.1 that read by block: a decode and a prefill, over a pool in which all else is poison."""

from functools import partial

from pagedkv.course.judge.compare import SINGLE, Wrong
from pagedkv.course.judge.exercise import Exercise, Part, Role, calls
from pagedkv.course.lesson_4_1.whole_pool import reads_its_own

BLOCK, DIM = 4, 8


def decode(q, k_cache, v_cache, block_table, seq_len):
    """The attention of the last token, q [DIM], over its sequence; a cache [num_blocks, BLOCK, DIM]."""
    return prefill(q[None], k_cache, v_cache, block_table, seq_len)[0]


def prefill(q, k_cache, v_cache, block_table, seq_len, scale=None, shift=0, strict=0):
    """The same for the last len(q) tokens; the keyword arguments make the usual mistakes."""
    import torch

    p = torch.arange(seq_len)
    k, v = (cache[block_table[p // BLOCK].long(), p % BLOCK] for cache in (k_cache, v_cache))
    scores = q @ k.T * (DIM**-0.5 if scale is None else scale)
    last = torch.arange(len(q))[:, None] + (seq_len - len(q) + shift - strict)
    return scores.masked_fill(p > last, float("-inf")).softmax(-1).nan_to_num() @ v


def _sequence(random, seq_len, rubbish=0.0, num_queries=None, stale=(-1, -1), others=None):
    """The arguments of one call: a shuffled pool, `rubbish` in every slot of the last block past seq_len, `others` in
    the blocks of other sequences, `stale` table entries behind.
    """
    import torch

    draw = torch.Generator().manual_seed(random.randrange(10**6))
    blocks, used = torch.randperm(12, generator=draw), -(-seq_len // BLOCK)
    k, v = torch.randn(2, 12, BLOCK, DIM, generator=draw, dtype=torch.float64)
    if seq_len % BLOCK:
        k[blocks[used - 1], seq_len % BLOCK :], v[blocks[used - 1], seq_len % BLOCK :] = rubbish, rubbish
    if others is not None:
        k[blocks[used:]], v[blocks[used:]] = others, others
    table = torch.tensor([*blocks[:used].tolist(), *stale], dtype=torch.int32)
    q = torch.randn(*(() if num_queries is None else (num_queries,)), DIM, generator=draw, dtype=torch.float64)
    return q, k, v, table, seq_len


def _large_pool(*num_queries, stale=False):
    """The arguments of one call for 9 tokens in a pool of 4096 blocks; `stale` entries name a thousand others."""
    import torch

    draw = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, 4096, BLOCK, DIM, generator=draw, dtype=torch.float64)
    q = torch.randn(*num_queries, DIM, generator=draw, dtype=torch.float64)
    own = [300, 7, 4095]
    table = [*own, *(set(range(0, 4096, 4)) - set(own))] if stale else own
    return q, k, v, torch.tensor(table, dtype=torch.int32), 9


def _cases(*lengths, **options):
    return lambda random: [_sequence(random, length, **options) for length in lengths]


def _mean_of_blocks(q, k, v, table, seq_len):
    blocks = range(0, seq_len, BLOCK)
    return sum(decode(q, k, v, table[b // BLOCK :], min(BLOCK, seq_len - b)) for b in blocks) / len(blocks)


def _sum_of_blocks(q, k, v, table, seq_len):
    return _mean_of_blocks(q, k, v, table, seq_len) * -(-seq_len // BLOCK)


def _by_block(q, k, v, table, seq_len, weigh):
    """The blocks' outputs, each weighted by `weigh(its scores)`."""
    import torch

    outputs, weights = [], []
    for first in range(0, seq_len, BLOCK):
        block, valid = int(table[first // BLOCK]), min(BLOCK, seq_len - first)
        scores = k[block, :valid] @ q / DIM**0.5
        outputs.append(scores.softmax(0) @ v[block, :valid])
        weights.append(weigh(scores))
    weights = torch.stack(weights)
    return weights / weights.sum() @ torch.stack(outputs)


def _wrong_table(q, k, v, table, seq_len):
    import torch

    return decode(q, k, v, torch.arange(len(table), dtype=torch.int32), seq_len)


def _blocks_of_16(q, k, v, table, seq_len):
    """What slices give where 16 slots a block are taken for granted: each 16 tokens end after the BLOCK slots that a
    block has.
    """
    return decode(q, k, v, table, sum(min(BLOCK, seq_len - first) for first in range(0, seq_len, 16)))


NOT_BY_8 = "the scores are divided by 8; head_dim is 8 here, not 64, so divide by the square root of 8"
DECODE_MISTAKES = (
    (_wrong_table, "the logical block number is used as the physical one; look it up in block_table"),
    (lambda *a: prefill(a[0][None], *a[1:], scale=1.0)[0], "the scores are not divided by the square root of head_dim"),
    (lambda *a: prefill(a[0][None], *a[1:], scale=1 / 8)[0], NOT_BY_8),
    (
        _mean_of_blocks,
        "each block has a softmax of its own, and their mean is taken; all scores must share one denominator",
    ),
    (_sum_of_blocks, "each block has a softmax of its own, and these are added; all scores must share one denominator"),
    (lambda q, k, v, t, n: prefill(q[None], k, v, t, n, shift=-1)[0], "the last token is left out; it sees itself"),
    (
        lambda q, k, v, t, n: decode(q, k, v, t, n - n % BLOCK),
        "the part-filled last block is left out: round the number of blocks up",
    ),
    (
        lambda q, k, v, t, n: decode(q, k, v, t, -(-n // BLOCK) * BLOCK),
        "the last block is used whole; only the slots below seq_len count",
    ),
    (_blocks_of_16, "blocks have k_cache.shape[1] slots here, not 16"),
    (
        lambda *a: _by_block(*a, weigh=lambda scores: scores.new_tensor(len(scores))),
        "the blocks count by their number of tokens; all scores must share one denominator",
    ),
    (
        lambda *a: _by_block(*a, weigh=lambda scores: (scores - scores.max()).exp().sum()),
        "each block's exponentials are relative to its own maximum when they are added; subtract one for all",
    ),
    (lambda q, k, v, t, n: decode(q, k, v, t[(n - 1) // BLOCK :], (n - 1) % BLOCK + 1), "only the last block is read"),
)


def _tensors(title, reference, cases, mistakes=(), large_pool=None):
    """`calls`, with sentences for what comes of reading too far; `large_pool` gives a call with others' blocks, which
    stale entries name or do not.
    """
    judge = calls(title, reference, cases, mistakes=mistakes, rtol=SINGLE)

    def test(function):
        try:
            judge.test(function)
        except Wrong as wrong:
            if "some elements" in str(wrong):
                raise Wrong(
                    _about_elements(judge, function, str(wrong), [sentence for _, sentence in mistakes])
                ) from None
            if "IndexError" in str(wrong):
                raise Wrong(
                    "an entry of block_table past the last block in use is looked up, or a slot that a block lacks; "
                    "blocks have k_cache.shape[1] slots here"
                ) from None
            raise
        if large_pool is not None:
            reads_its_own(function, large_pool)

    return Part(title, test)


def _about_elements(judge, function, said, sentences) -> str:
    """A softmax over nothing is NaN where the references have 0; NaN of a place that is not to be read goes when that
    is cleared.
    """
    with_zeros = _said(judge, lambda *inputs: function(*inputs).nan_to_num())
    if with_zeros in sentences:
        return with_zeros
    if "not finite" not in said:
        return said
    if "not finite" in _said(judge, lambda q, k, v, *rest: function(q, k.nan_to_num(), v.nan_to_num(), *rest)):
        return "some elements are NaN or infinite; is there a softmax over nothing?"
    if "not finite" not in _said(
        judge, lambda q, k, v, *rest: function(q, _cleared(k, *rest), _cleared(v, *rest), *rest)
    ):
        return "a block that block_table does not name is read: it belongs to another sequence and may hold anything"
    return "NaN of an unused slot reaches the output: a weight of 0 does not help, since 0 · NaN is NaN"


def _cleared(cache, table, seq_len):
    """The cache with 0 for NaN in the blocks of other sequences."""
    own = table[: -(-seq_len // BLOCK)].long()
    cleared = cache.nan_to_num()
    cleared[own] = cache[own]
    return cleared


def _said(judge, function) -> str:
    """The sentence about `function`, empty where it passes."""
    try:
        judge.test(function)
    except Wrong as wrong:
        return str(wrong)
    return ""


POISON = {"rubbish": float("nan"), "others": float("nan")}


def _of_the_package():
    """The package's attention as the exercise asks for it: one query of one head."""
    from pagedkv.attention.reference import blockwise_attention

    def decode(q, k_cache, v_cache, block_table, seq_len):
        caches = (cache[:, :, None] for cache in (k_cache, v_cache))  # one KV head
        return blockwise_attention(q[None, None], *caches, block_table, seq_len)[0, 0]

    return decode


DECODE = Exercise("4.1-decode", "the block loop", (
    _tensors("whole blocks, found through the table", decode, _cases(4, 8, 12, 20), DECODE_MISTAKES, _large_pool),
    _tensors("a last block that is filled in part", decode, _cases(1, 3, 6, 9, 15, rubbish=3.0), DECODE_MISTAKES),
    _tensors("NaN in the slots that hold no token", decode, _cases(2, 5, 11, **POISON), DECODE_MISTAKES),
    _tensors("stale entries behind the table", decode, _cases(4, 7, 16, stale=(10**6, -(10**6))), DECODE_MISTAKES),
), role=Role("attention", _of_the_package))  # fmt: skip


def _with_mask(q, k_cache, v_cache, table, seq_len, sees):
    """The prefill with `sees(position of the query, of the key, length of the stored context)` for its mask."""
    import torch

    p, context = torch.arange(seq_len), seq_len - len(q)
    k, v = (cache[table[p // BLOCK].long(), p % BLOCK] for cache in (k_cache, v_cache))
    hidden = ~sees(p[context:, None], p, context)
    return (q @ k.T * DIM**-0.5).masked_fill(hidden, float("-inf")).softmax(-1) @ v


PREFILL_MISTAKES = (
    (lambda *a: prefill(*a, shift=10**6), "there is no causal mask: a query must not see later tokens"),
    (
        lambda q, k, v, t, n: prefill(q, k, v, t, n, shift=len(q) - n),
        "query i is at position seq_len - len(q) + i, not at i",
    ),
    (lambda *a: prefill(*a, strict=1), "each query sees its own token too"),
    (lambda *a: prefill(*a, scale=1.0), "the scores are not divided by the square root of head_dim"),
    (lambda *a: prefill(*a, scale=1 / 8), NOT_BY_8),
    (
        lambda *a: prefill(*a, scale=len(a[0]) ** -0.5),
        "the scores are divided by the square root of the number of queries; head_dim is q.shape[1]",
    ),
    (lambda *a: prefill(*a, shift=1), "each query sees one token too many"),
    (
        lambda *a: _with_mask(*a, lambda query, key, context: key // BLOCK <= query // BLOCK),
        "the mask is by block; inside its own block a query must not see later tokens either",
    ),
    (
        lambda *a: _with_mask(*a, lambda query, key, context: (key < context) | (key == query)),
        "the queries do not see one another; each sees those before it, besides the stored context",
    ),
    (
        lambda *a: _with_mask(*a, lambda query, key, context: (key >= context) & (key <= query)),
        "the stored context is left out; each query sees all that came before it",
    ),
)

PREFILL = Exercise("4.1-prefill", "a prefill with its causal mask", (
    _tensors("a prompt from its first token", prefill, lambda r: [
        _sequence(r, n, num_queries=n) for n in (1, 4, 7, 10)], PREFILL_MISTAKES,
        partial(_large_pool, 3)),
    _tensors("the last queries over a stored context", prefill, lambda r: [
        _sequence(r, n, num_queries=m) for n, m in ((9, 2), (12, 5), (17, 1), (6, 6))], PREFILL_MISTAKES),
    _tensors("NaN in the slots that hold no token", prefill, lambda r: [
        _sequence(r, n, num_queries=m, **POISON) for n, m in ((5, 5), (11, 3))], PREFILL_MISTAKES),
))  # fmt: skip
