"""The Triton kernels against float64: on a GPU where there is one, in Triton's interpreter elsewhere."""

from functools import partial
from importlib.util import find_spec
from itertools import combinations, product
from random import Random

import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    pytest.skip("needs Triton", allow_module_level=True)

from attention_cases import CASES  # noqa: E402
from attention_reference import random_batch  # noqa: E402

from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402
from pagedkv.attention.reference import attention  # noqa: E402
from pagedkv.attention.triton import INTERPRETED, prefill  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
attend = partial(paged_attention, backend="triton")
FACTORS = {
    "dtype": ("fp16", "bf16", "fp32", "fp8"),
    "head_dim": (16, 64, 80, 96, 128, 192, 256),
    "block_size": (1, 2, 16, 32, 64, 256),
    "heads": ((1, 1), (8, 2), (6, 2), (28, 4), (40, 8), (32, 1), (71, 1)),
    "mode": ("decode", "prefill", "mixed"),
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn}


def pairs(row):
    return set(combinations(enumerate(row), 2))


def covering_rows(factors, enough=1.0):
    """Rows of values in which each pair of values of two factors occurs, chosen greedily; `enough` < 1 stops at that
    share of the pairs.
    """
    everything = list(product(*factors))
    Random(0).shuffle(everything)
    missing = set().union(*map(pairs, everything))
    allowed = (1 - enough) * len(missing)
    rows = []
    while len(missing) > allowed:
        rows.append(max(everything, key=lambda row: len(pairs(row) & missing)))
        missing -= pairs(rows[-1])
    return rows


def error(actual, expected):
    """‖actual - expected‖ / ‖expected‖."""
    return (actual.double() - expected).norm() / expected.norm()


ROWS = covering_rows(FACTORS.values())


def test_the_covering_set_has_every_pair():
    every = set().union(*map(pairs, product(*FACTORS.values())))
    assert set().union(*map(pairs, ROWS)) == every


@pytest.mark.parametrize("case", CASES)
def test_a_case_with_a_known_answer(case):
    case(attend, partial(write_kv, backend="triton"), DEVICE)


def covering():
    """All rows on a GPU; in the interpreter four quick ones, and eight more that nobody need wait for."""
    slow = [pytest.param(row, marks=pytest.mark.thorough) for row in (*ROWS[1:3], *ROWS[6:12])]
    return [ROWS[0], *ROWS[3:6], *slow] if INTERPRETED else ROWS


@pytest.mark.parametrize("row", covering(), ids=lambda row: "-".join(map(str, row)))
def test_errors_are_those_of_contiguous_attention(row):
    dtype, head_dim, block_size, heads, mode = row
    lengths = [300, 1, 0, 130] if INTERPRETED else [1500, 1, 0, 130, 64, 4097, 257]
    num_queries = {
        "decode": None,
        "prefill": [min(n, 37) for n in lengths],
        "mixed": [1, 1, 0, 70, 1, 5, 1][: len(lengths)],
    }[mode]
    query_dtype = torch.bfloat16 if dtype == "fp8" else DTYPES[dtype]
    batch = random_batch(
        lengths, num_queries=num_queries, block_size=block_size, heads=heads, head_dim=head_dim, seed=len(str(row))
    )
    batch.q = batch.q.to(query_dtype)
    for name in ("k_cache", "v_cache"):
        setattr(batch, name, getattr(batch, name).float().to(DTYPES[dtype]))
    batch.keys, batch.values = (
        [x.float().to(DTYPES[dtype]).to(query_dtype) for x in xs] for xs in (batch.keys, batch.values)
    )
    batch = batch.to(DEVICE)
    expected, expected_lse = batch.expected()
    out, lse = batch.run(attend, return_lse=True)
    bounds = range(len(lengths) + 1) if num_queries is None else batch.query_start_loc.tolist()
    each = zip(bounds, bounds[1:], batch.keys, batch.values, strict=False)
    contiguous = torch.cat([attention(batch.q[first:end], k, v) for first, end, k, v in each])
    assert error(out, expected) <= 2 * error(contiguous, expected) + torch.finfo(query_dtype).eps
    seen = expected_lse.isfinite()
    assert torch.equal(lse.isfinite(), seen)
    torch.testing.assert_close(
        lse[seen].double(), expected_lse[seen], rtol=1e-3, atol=1e-3 if query_dtype != torch.float32 else 1e-5
    )


@pytest.mark.parametrize("num_queries", [None, [3, 70]])
def test_k_and_v_may_have_different_strides(num_queries):
    batch = random_batch(
        [5, 130], num_queries=num_queries, heads=(4, 2), head_dim=16, block_size=4, dtype=torch.float32
    ).to(DEVICE)
    wide = torch.full((*batch.v_cache.shape[:2], 5, 24), torch.nan, device=DEVICE)
    wide[:, :, 1:3, 8:] = batch.v_cache
    batch.v_cache = wide[:, :, 1:3, 8:]
    torch.testing.assert_close(batch.run(attend).double(), batch.expected()[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_queries", [None, [3, 70]])
@pytest.mark.parametrize("scale", [-0.3, 0.0])
def test_the_scale_may_be_negative_or_zero(num_queries, scale):
    batch = random_batch([5, 130], num_queries=num_queries, heads=(4, 2), dtype=torch.float32).to(DEVICE)
    torch.testing.assert_close(
        batch.run(attend, scale=scale).double(), batch.expected(scale=scale)[0], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("num_queries", [None, [70]])
def test_a_later_tile_leaves_the_table_entries_past_the_last_block_alone(num_queries):
    batch = random_batch([70], num_queries=num_queries, heads=(2, 1), dtype=torch.float32).to(DEVICE)
    expected = batch.expected()[0]
    wild = torch.full((1, 20), 2**31 - 1, dtype=torch.int32, device=DEVICE)  # following such an id ends the process
    batch.block_tables = torch.cat([batch.block_tables[:, :5], wild], 1)
    torch.testing.assert_close(batch.run(attend).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_queries", [None, [1]], ids=["decode", "prefill"])
@pytest.mark.parametrize("length", [3, 300], ids=["one part", "merged"])
def test_bfloat16_outputs_are_rounded_to_even(length, num_queries):
    """The mean of 1, 1.0078125, 1.0078125 is 1.0052: nearer to 1.0078125, the next number after 1."""
    tables = torch.arange(-(-length // 16), dtype=torch.int32, device=DEVICE)[None]
    v = torch.full((tables.shape[1], 16, 1, 16), 1.0078125, dtype=torch.bfloat16, device=DEVICE)
    v.view(-1, 16)[: length // 3] = 1.0
    q, lens = torch.zeros_like(v[:1, 0]), torch.tensor([length], dtype=torch.int32, device=DEVICE)
    starts = None if num_queries is None else torch.tensor([0, 1], dtype=torch.int32, device=DEVICE)
    assert (attend(q, torch.zeros_like(v), v, tables, lens, query_start_loc=starts) == 1.0078125).all()


def test_bfloat16_outputs_are_the_nearest_where_all_weights_are_the_same():
    """Weights of 1 are exact in bfloat16, so that only the output is rounded; but for sums close to a tie."""
    batch = random_batch([70, 300], heads=(8, 2), head_dim=64, dtype=torch.bfloat16).to(DEVICE)
    batch.q.zero_()
    assert (batch.run(attend) == batch.expected()[0].bfloat16()).double().mean() > 0.99


@pytest.mark.parametrize(("options", "sinks"), [({"window": 40}, False), ({"softcap": 5.0}, True)], ids=str)
def test_a_prefill_in_splits_finds_what_a_whole_one_finds(options, sinks, monkeypatch):
    monkeypatch.setattr(prefill, "prefill_splits", lambda *shape: 3)  # more than there are tiles of keys, for some rows
    lengths, new = [75, 3, 0, 20], [9, 3, 2, 1]
    batch = random_batch(lengths, num_queries=[9, 3, 0, 1], heads=(2, 1), dtype=torch.float32).to(DEVICE)
    q = torch.randn(sum(new), *batch.q.shape[1:], device=DEVICE)  # two of them stand before their sequence
    starts = torch.tensor([0, 9, 12, 14, 15], dtype=torch.int32, device=DEVICE)
    caches = (batch.k_cache, batch.v_cache, batch.block_tables, batch.seq_lens)
    options = options | {"sinks": torch.randn(2, device=DEVICE) if sinks else None, "query_start_loc": starts}
    split = attend(q, *caches, return_lse=True, **options)
    monkeypatch.undo()
    for found, other in zip(split, attend(q, *caches, return_lse=True, **options), strict=True):
        torch.testing.assert_close(found, other, rtol=1e-5, atol=1e-5)
