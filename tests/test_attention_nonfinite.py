"""NaN and infinity in keys and values that a query sees: every backend tells in the output, and of keys in the lse."""

import math
from functools import partial
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from attention_reference import random_batch, reference  # noqa: E402

from pagedkv.attention.online_softmax import SoftmaxState  # noqa: E402
from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402
from pagedkv.attention.reference import attention, blockwise_attention  # noqa: E402

NAN, INF = math.nan, math.inf
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
BACKENDS = ["torch", pytest.param("triton", marks=needs_triton)]
BAD = {
    "NaN in a whole key": ("keys", slice(None), NAN),
    "NaN in one number of a key": ("keys", 3, NAN),
    "infinity in one number of a key": ("keys", 3, INF),
    "minus infinity in one number of a key": ("keys", 3, -INF),
    "infinity in a whole key": ("keys", slice(None), INF),
    "NaN in one number of a value": ("values", 3, NAN),
    "infinity in one number of a value": ("values", 3, INF),
    "minus infinity in a whole value": ("values", slice(None), -INF),
}
ignore_numpy = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, about inf - inf and 0 / 0


def poisoned(part, dims, bad, position, num_queries=None, length=300):
    """Two sequences of `length` and 9 tokens; in the first the number(s) `dims` of KV head 0 at `position` are bad."""
    batch = random_batch([length, 9], num_queries=num_queries, heads=(4, 2), dtype=torch.float32)
    getattr(batch, part)[0][position, 0, dims] = bad
    cache = batch.k_cache if part == "keys" else batch.v_cache
    at = torch.arange(length)[position]
    cache[batch.block_tables[0][at // 16].long(), at % 16, 0, dims] = bad
    return batch


def same(got, expected):
    """Finite in the same places and equal there; NaN where NaN is expected."""
    assert torch.equal(got.isfinite(), expected.isfinite())
    assert got[expected.isnan()].isnan().all()
    seen = expected.isfinite()
    torch.testing.assert_close(got[seen].double(), expected[seen], rtol=1e-5, atol=1e-5)


@ignore_numpy
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("position", [0, 150, 299])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_decode_tells(bad, position, backend):
    batch = poisoned(*bad, position)
    out, lse = batch.to(DEVICE).run(paged_attention, backend=backend, return_lse=True)
    for got, expected in zip((out.cpu(), lse.cpu()), batch.expected(), strict=True):
        same(got, expected)


@ignore_numpy
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_prefill_tells_from_the_bad_token_on(bad, backend):
    batch = poisoned(*bad, 80, [90, 2], length=100)  # query 70 is the first that sees it
    out, lse = batch.to(DEVICE).run(paged_attention, backend=backend, return_lse=True)
    for got, expected in zip((out.cpu(), lse.cpu()), batch.expected(), strict=True):
        same(got[70:], expected[70:])
        before = got[:70].isfinite()  # 0 · NaN may reach them
        torch.testing.assert_close(got[:70][before].double(), expected[:70][before], rtol=1e-5, atol=1e-5)


@ignore_numpy
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_queries", [None, [3, 2]], ids=["decode", "prefill"])
@pytest.mark.parametrize("hidden", [slice(0, 200), slice(130, 290), slice(None)], ids=["first", "last", "all"])
def test_keys_of_minus_infinity_weigh_nothing_and_where_all_do_it_is_zero_over_zero(hidden, num_queries, backend):
    batch = poisoned("keys", slice(None), -INF, hidden, num_queries)
    batch.q.abs_()
    out, lse = batch.to(DEVICE).run(paged_attention, backend=backend, return_lse=True)
    expected, expected_lse = batch.expected()
    assert expected[:1, :2].isnan().all() == (hidden == slice(None))
    same(out.cpu(), expected)
    assert torch.equal(lse.cpu() == -INF, expected_lse == -INF) and not lse.isnan().any()


@pytest.mark.parametrize("bad", [NAN, INF])
def test_the_references_tell(bad):
    batch = poisoned("keys", slice(None), bad, 20, [1, 1], length=40)
    q, k, v = batch.q[:1], batch.keys[0], batch.values[0]
    expected, _ = reference(q, k, v)
    by_block = blockwise_attention(q, batch.k_cache, batch.v_cache, batch.block_tables[0], 40)
    for got in (attention(q, k, v), by_block):
        same(got, expected)
    for place in range(3):
        scores, state = torch.zeros(3, 2, 4), SoftmaxState()
        scores[place, 1] = bad
        for block in scores:
            state.update(block, torch.ones(4, 5))
        assert state.output()[1].isnan().all() and state.lse()[1].isnan()
        assert (state.output()[0] == 1).all() and state.lse()[0].isfinite()


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_in_an_fp8_cache_is_told(backend):
    batch = random_batch([9], heads=(4, 2), dtype=torch.float32, poison=0.0)
    rest = batch.block_tables, batch.seq_lens
    caches = [cache.to(torch.float8_e4m3fn) for cache in (batch.k_cache, batch.v_cache)]
    new = torch.ones(1, 2, 16, device=DEVICE)
    new[0, 0, 5] = NAN
    slot = batch.block_tables[0, :1].long() * 16 + 4
    attend = partial(paged_attention, backend=backend, return_lse=True)
    q, caches, rest = batch.q.to(DEVICE), [cache.to(DEVICE) for cache in caches], [x.to(DEVICE) for x in rest]
    write_kv(new, new, *caches, slot.to(DEVICE), backend=backend)
    assert caches[0].float().isnan().sum() == caches[1].float().isnan().sum() == 1
    starts = torch.tensor([0, 1], dtype=torch.int32, device=DEVICE)
    for out, lse in (attend(q, *caches, *rest), attend(q, *caches, *rest, query_start_loc=starts)):
        assert out[0, :2].isnan().all() and lse[0, :2].isnan().all()
        assert out[0, 2:].isfinite().all() and lse[0, 2:].isfinite().all()
