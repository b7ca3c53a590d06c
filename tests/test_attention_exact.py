"""Paged attention equals standard attention in float64 to 1e-12, whatever the shapes, the pool's order and the rubbish
around it.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from attention_reference import random_batch, reference  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from pagedkv.attention import torch_backend  # noqa: E402
from pagedkv.attention.options import Options  # noqa: E402
from pagedkv.attention.paged import paged_attention  # noqa: E402
from pagedkv.attention.reference import attention, blockwise_attention  # noqa: E402

HEADS = [(1, 1), (8, 8), (8, 2), (6, 2), (71, 1)]


def check(batch, **options):
    """Compare the torch backend with the definition, and, where the options allow, the block loop and standard
    attention too.
    """
    expected, expected_lse = batch.expected(**options)
    out, lse = batch.run(paged_attention, backend="torch", return_lse=True, **options)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(lse, expected_lse.float(), rtol=1e-6, atol=1e-6)
    if options.keys() <= {"scale"}:
        starts = range(len(batch.keys) + 1) if batch.query_start_loc is None else batch.query_start_loc.tolist()
        for row, (first, end) in enumerate(zip(starts, starts[1:], strict=False)):
            q, k, v, length = batch.q[first:end], batch.keys[row], batch.values[row], len(batch.keys[row])
            by_block = blockwise_attention(q, batch.k_cache, batch.v_cache, batch.block_tables[row], length, **options)
            torch.testing.assert_close(by_block, expected[first:end], rtol=0, atol=1e-12)
            torch.testing.assert_close(attention(q, k, v, **options), expected[first:end], rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize(
    "block_size", [1, 16, *(pytest.param(size, marks=pytest.mark.thorough) for size in (2, 64, 256))]
)
def test_lengths_around_a_block_at_every_head_dim(block_size, heads):
    lengths = [0, 1, block_size - 1, block_size, block_size + 1, 2 * block_size, 2 * block_size + 3]
    for seed, head_dim in enumerate([16, 64, 80, 96, 128, 192, 256]):
        check(random_batch(lengths, block_size=block_size, heads=heads, head_dim=head_dim, seed=seed))
    num_queries = [2, 1, block_size - 1, 1, min(block_size + 1, 70), 0, 3]
    check(random_batch(lengths, num_queries=num_queries, block_size=block_size, heads=heads))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_batch(data):
    draw = data.draw
    block_size, heads = draw(st.sampled_from([1, 2, 4, 16, 64])), draw(st.sampled_from(HEADS))
    lengths = draw(st.lists(st.integers(0, 3 * block_size + 40), min_size=1, max_size=4))
    num_queries = draw(st.none() | st.lists(st.integers(0, 80), min_size=len(lengths), max_size=len(lengths)))
    sink = st.just(float("-inf")) | st.floats(-20, 20, width=32)
    sinks = st.lists(sink, min_size=heads[0], max_size=heads[0]).map(torch.tensor)
    numbers = dict(scale=st.floats(-2, 2), window=st.integers(1, 60), softcap=st.floats(0.1, 30))
    options = draw(st.fixed_dictionaries({}, optional=numbers | dict(sinks=sinks)))
    head_dim, poison = draw(st.sampled_from([16, 24, 80])), draw(st.sampled_from([torch.nan, torch.inf, -torch.inf]))
    seed = draw(st.integers(0, 1000))
    check(
        random_batch(
            lengths,
            num_queries=num_queries,
            block_size=block_size,
            heads=heads,
            head_dim=head_dim,
            poison=poison,
            seed=seed,
        ),
        **options,
    )


@pytest.mark.parametrize("lengths", [[3000], [1, 700, 0, 2049, 12], [256, 512, 257, 255]], ids=str)
def test_sequences_of_several_chunks_and_slabs(lengths, monkeypatch):
    monkeypatch.setattr("pagedkv.attention.torch_backend.SLAB_BYTES", 1 << 18)
    check(random_batch(lengths))
    check(random_batch(lengths, num_queries=[min(length, 150) for length in lengths]))
    check(random_batch(lengths, num_queries=[min(length, 150) for length in lengths]), window=300)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_queries", [None, [5, 100, 1]], ids=["decode", "prefill"])
def test_the_error_is_at_most_twice_that_of_contiguous_attention(dtype, num_queries):
    batch = random_batch([40, 1000, 17], num_queries=num_queries, heads=(8, 2), head_dim=64, dtype=dtype, spread=2.0)
    out, expected = batch.run(paged_attention, backend="torch"), batch.expected()[0]
    contiguous = []
    for q, k, v in zip(batch.q.split(num_queries or [1, 1, 1]), batch.keys, batch.values, strict=True):
        visible = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
        heads_first = (x.transpose(0, 1)[None] for x in (q, k, v))
        contiguous.append(
            scaled_dot_product_attention(*heads_first, attn_mask=visible, enable_gqa=True)[0].transpose(0, 1)
        )
    error, peer = ((x - expected).norm() / expected.norm() for x in (out, torch.cat(contiguous)))
    assert out.dtype == dtype
    assert 0 < error < 2 * peer + torch.finfo(dtype).eps


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("lengths", [[40, 0, 1, 600, 256], [0, 1]], ids=str)
def test_an_upper_bound_does_for_the_lengths(lengths, window):
    """What decode does on a GPU, where the host does not look at the lengths: every sequence gets items enough for the
    longest.
    """
    batch = random_batch(lengths)
    row, out, lse = torch.arange(len(lengths)), torch.empty_like(batch.q), torch.empty(batch.q.shape[:2])
    tiles = torch_backend.Tiles(row, row, batch.seq_lens.long() - 1, torch.ones_like(row), 1)
    options = Options(scale=0.5, window=window)
    torch_backend.attend(
        tiles, window or 1000, batch.q, batch.k_cache, batch.v_cache, batch.block_tables, options, out, lse
    )
    expected, expected_lse = batch.expected(scale=0.5, window=window)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(lse, expected_lse.float())


def test_addresses_alone_change_no_bit():
    results = []
    for seed in range(
        4
    ):  # the pool's order is drawn first, so these are different pools; K, V and q are then made the same
        batch, first = (
            random_batch([300, 40, 7], seed=seed, dtype=torch.float32),
            random_batch([300, 40, 7], seed=0, dtype=torch.float32),
        )
        for row, table in enumerate(batch.block_tables.long()):
            position = torch.arange(len(first.keys[row]))
            for cache, new in ((batch.k_cache, first.keys[row]), (batch.v_cache, first.values[row])):
                cache[table[position // 16], position % 16] = new
        batch.q = first.q
        results.append(batch.run(paged_attention, backend="torch"))
    assert all(torch.equal(result, results[0]) for result in results)


def test_standard_attention_without_a_mask():
    batch = random_batch([9], num_queries=[4])
    expected, _ = reference(
        batch.q[:1], batch.keys[0], batch.values[0]
    )  # its one query is the last token: it sees everything
    torch.testing.assert_close(
        attention(batch.q, batch.keys[0], batch.values[0], causal=False)[:1], expected, rtol=0, atol=1e-12
    )
