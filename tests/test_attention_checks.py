"""Bad arguments are refused by name, and nothing is computed or written then."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pagedkv.attention import checks  # noqa: E402
from pagedkv.attention.online_softmax import SoftmaxState  # noqa: E402
from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402
from pagedkv.attention.reference import attention, blockwise_attention  # noqa: E402


def good():
    """Two sequences of 5 and 3 tokens, blocks of 4, 4 query heads on 2 KV heads."""
    return dict(
        q=torch.ones(2, 4, 16),
        k_cache=torch.ones(3, 4, 2, 16),
        v_cache=torch.ones(3, 4, 2, 16),
        block_tables=torch.tensor([[0, 1], [2, -1]], dtype=torch.int32),
        seq_lens=torch.tensor([5, 3], dtype=torch.int32),
    )


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


BAD = [
    (dict(q=None), TypeError, "q must be a tensor [num_tokens, num_q_heads, head_dim], not NoneType"),
    (dict(q=torch.ones(2, 64)), ValueError, "q must be [num_tokens, num_q_heads, head_dim], not of shape [2, 64]"),
    (
        dict(q=torch.ones(2, 4, 16, dtype=torch.int32)),
        TypeError,
        "q must be of float16 or bfloat16 or float32 or float64, not int32",
    ),
    (dict(q=torch.ones(2, 4, 16).half()), TypeError, "k_cache must be of float16 or float8_e4m3fn, not float32"),
    (dict(q=torch.ones(2, 4, 24)), ValueError, "q must have the caches' head_dim of 16, not 24"),
    (dict(q=torch.ones(2, 5, 16)), ValueError, "q must have a multiple of the 2 KV heads as num_q_heads, not 5"),
    (dict(q=torch.ones(2, 0, 16)), ValueError, "num_q_heads, not 0"),
    (
        dict(q=torch.ones(3, 4, 16)),
        ValueError,
        "q must have one token for each of the 2 sequences, not 3; give query_start_loc",
    ),
    (
        dict(k_cache=torch.ones(3, 8, 16)),
        ValueError,
        "k_cache must be [num_blocks, block_size, num_kv_heads, head_dim], not of shape",
    ),
    (dict(v_cache=torch.ones(3, 4, 2, 16).double()), TypeError, "v_cache must be of float32, not float64"),
    (
        dict(v_cache=torch.ones(2, 4, 2, 16)),
        ValueError,
        "v_cache must have k_cache's shape [3, 4, 2, 16], not [2, 4, 2, 16]",
    ),
    (
        dict(k_cache=torch.ones(3, 4, 0, 16), v_cache=torch.ones(3, 4, 0, 16)),
        ValueError,
        "k_cache must have at least one KV head",
    ),
    (
        dict(k_cache=torch.ones(3, 4, 2, 20), v_cache=torch.ones(3, 4, 2, 20)),
        ValueError,
        "multiple of 8 from 16 to 256, not 20",
    ),
    *(
        (
            dict(k_cache=torch.ones(3, 4, 2, dim), v_cache=torch.ones(3, 4, 2, dim)),
            ValueError,
            f"k_cache must have a head_dim (dimension 3) that is a multiple of 8 from 16 to 256, not {dim}",
        )
        for dim in (36, 100, 512, 576)
    ),
    (
        dict(k_cache=torch.ones(3, 4, 2, 192), v_cache=torch.ones(3, 4, 2, 128)),
        ValueError,
        "v_cache must have k_cache's shape [3, 4, 2, 192], not [3, 4, 2, 128]",
    ),
    (
        dict(k_cache=torch.ones(3, 4, 2, 264), v_cache=torch.ones(3, 4, 2, 264)),
        ValueError,
        "multiple of 8 from 16 to 256, not 264",
    ),
    (dict(block_tables=[[0, 1], [2, 0]]), TypeError, "block_tables must be a tensor [num_seqs, max_blocks], not list"),
    (dict(block_tables=ints(0, 1)), ValueError, "block_tables must be [num_seqs, max_blocks], not of shape [2]"),
    (
        dict(block_tables=ints(0, 1).view(1, 2)),
        ValueError,
        "block_tables must have a row for each of the 2 sequences of seq_lens, not 1",
    ),
    (
        dict(block_tables=ints(0, 2, 1, -1).view(2, 2).t()),
        ValueError,
        "block_tables must have stride 1 along a row, not 2",
    ),
    (
        dict(block_tables=ints(0, 1).view(2, 1)),
        ValueError,
        "block_tables has room for 4 tokens (1 blocks of 4), not for 5",
    ),
    (
        dict(block_tables=ints(0, 1, -1, 0).view(2, 2)),
        ValueError,
        "block_tables[1, 0] must be a block from 0 to 2, not -1",
    ),
    (
        dict(block_tables=ints(0, 3, 1, 0).view(2, 2)),
        ValueError,
        "block_tables[0, 1] must be a block from 0 to 2, not 3",
    ),
    (dict(seq_lens=ints(5, -3)), ValueError, "seq_lens must be at least 0, not -3"),
    (dict(seq_lens=ints(5, 0, 3)[::2]), ValueError, "seq_lens must be contiguous, not have stride 2"),
    (dict(seq_lens=ints(5, 3).float()), TypeError, "seq_lens must be of int32, not float32"),
    (dict(query_start_loc=ints(0, 2)), ValueError, "query_start_loc must have num_seqs + 1 = 3 entries, not 2"),
    (
        dict(query_start_loc=ints(0, 1, 3)),
        ValueError,
        "query_start_loc must rise from 0 to q's 2 tokens, not be [0, 1, 3]",
    ),
    (dict(query_start_loc=ints(1, 1, 2)), ValueError, "query_start_loc must rise from 0"),
    (dict(query_start_loc=ints(0, 3, 2)), ValueError, "query_start_loc must rise from 0"),
    (dict(query_start_loc=[0, 1, 2]), TypeError, "query_start_loc must be a tensor"),
    (dict(max_seq_len=4), ValueError, "max_seq_len must be at least the longest of seq_lens, 5, not 4"),
    (dict(max_seq_len=5.0), TypeError, "max_seq_len must be a whole number"),
    (dict(window=0), ValueError, "window must be a whole number of at least 1, not 0; None turns it off"),
    (dict(window=-1), ValueError, "window must be a whole number of at least 1, not -1; None turns it off"),
    (dict(window=(-1, -1)), TypeError, "window must be a whole number of at least 1, not (-1, -1); None turns it off"),
    (dict(softcap=0), ValueError, "softcap must be a finite number above 0, not 0.0; None turns it off"),
    (dict(softcap=-1.0), ValueError, "softcap must be a finite number above 0, not -1.0; None turns it off"),
    (dict(scale=torch.tensor(0.25)), TypeError, "scale must be a finite number, not tensor(0.2500)"),
    (dict(scale=[0.25]), TypeError, "scale must be a finite number, not [0.25]"),
    (dict(scale=np.bool_(True)), TypeError, "scale must be a finite number, not np.True_"),
    (dict(scale=np.float32("inf")), ValueError, "scale must be a finite number, not inf"),
    (dict(seq_lens=[5, 3]), TypeError, "seq_lens must be a tensor [num_seqs], not list"),
    (dict(window=True), TypeError, "window must be a whole number"),
    (dict(softcap=0.0), ValueError, "softcap must be a finite number above 0, not 0.0"),
    (dict(scale=float("nan")), ValueError, "scale must be a finite number, not nan"),
    (dict(scale=10**400), ValueError, "scale must be a finite number, not inf"),
    (dict(softcap=-(10**400)), ValueError, "softcap must be a finite number above 0, not inf"),
    (dict(scale="1"), TypeError, "scale must be a finite number, not '1'"),
    (dict(k_scale=2.0), ValueError, "k_scale is for caches of float8_e4m3fn, not of float32; leave it out"),
    (
        dict(out=torch.ones(1, 4, 16).expand(2, 4, 16)),
        ValueError,
        "out must have a place for each number, not strides [0, 16, 1]",
    ),
    (dict(out=torch.ones(2, 4, 24)), ValueError, "out must have q's shape [2, 4, 16], not [2, 4, 24]"),
    (dict(out=torch.ones(2, 4, 16).half()), TypeError, "out must be of float32, not float16"),
    (dict(sinks=[0.0] * 4), TypeError, "sinks must be a tensor [num_q_heads], not list"),
    (dict(sinks=torch.zeros(4).bfloat16()), TypeError, "sinks must be of float32, not bfloat16"),
    (dict(sinks=torch.zeros(4, 1)), ValueError, "sinks must be [num_q_heads], not of shape [4, 1]"),
    (dict(sinks=torch.zeros(2)), ValueError, "sinks must have one number for each of q's 4 heads, not 2"),
    (dict(sinks=torch.zeros(8)[::2]), ValueError, "sinks must be contiguous, not have stride 2"),
    (dict(sinks=torch.zeros(4).to("meta")), ValueError, "sinks must be on the same device as the other tensors, cpu"),
    *(
        (
            dict(sinks=torch.tensor([0, -torch.inf, bad, 0])),
            ValueError,
            f"sinks[2] must be finite, or -inf for a head without a sink, not {bad}",
        )
        for bad in (float("nan"), float("inf"))
    ),
    (dict(plan=3), TypeError, "plan must be one that plan_attention made, or None, not 3"),
    (dict(return_lse="no"), TypeError, "return_lse must be True or False, not 'no'"),
    (dict(validate=1), TypeError, "validate must be True or False, not 1"),
    (dict(backend="cuda"), ValueError, "backend must be one of 'auto', 'torch', 'triton', not 'cuda'"),
    (
        dict(seq_lens=ints(5, 3).to("meta")),
        ValueError,
        "seq_lens must be on the same device as the other tensors, cpu, not on meta",
    ),
]


@pytest.mark.parametrize("change, error, message", BAD, ids=[message[:60] for _, _, message in BAD])
def test_a_bad_call_to_paged_attention(change, error, message):
    out = torch.full((2, 4, 16), 777.0)
    with pytest.raises(error, match=re.escape(message)):
        paged_attention(**{**good(), "out": out, **change})
    assert (out == 777).all()


@pytest.mark.parametrize(
    "allowed, refused, error",
    [
        (dict(window=1), dict(window=True), TypeError),
        (dict(max_seq_len=5), dict(max_seq_len=5.0), TypeError),
        (dict(scale=1.0), dict(scale=torch.tensor(1.0)), TypeError),
        (dict(softcap=1.0), dict(softcap=True), TypeError),
        (dict(return_lse=True), dict(return_lse=1), TypeError),
        (dict(), dict(seq_lens=torch.tensor([5, 3])), TypeError),
        (dict(), dict(block_tables=ints(0, 2, 1, -1).view(2, 2).t()), ValueError),
        (dict(out=torch.empty(2, 4, 16)), dict(out=torch.empty(1, 1, 16).expand(2, 4, 16)), ValueError),
        (dict(sinks=torch.zeros(4)), dict(sinks=torch.zeros(4).double()), TypeError),
    ],
)
def test_a_call_that_nearly_looks_like_a_good_one_is_refused_all_the_same(allowed, refused, error):
    """What a call of the same form had found must not let it pass."""
    for _ in range(2):
        paged_attention(**good() | allowed)
        with pytest.raises(error, match=next(iter(refused))):
            paged_attention(**good() | refused)


def test_calls_of_one_form_are_checked_once(monkeypatch):
    seen, check = [], checks.shapes_attention
    monkeypatch.setattr(checks, "shapes_attention", lambda *given: seen.append(given) or check(*given))
    for num_blocks, expected in ((7, 1), (7, 1), (8, 2), (7, 2)):
        caches = dict(k_cache=torch.ones(num_blocks, 4, 2, 16), v_cache=torch.ones(num_blocks, 4, 2, 16))
        paged_attention(**good() | caches)
        assert len(seen) == expected


def test_the_good_call_passes():
    assert (paged_attention(**good(), max_seq_len=100) == 1).all()


def good_write():
    return dict(
        k=torch.ones(2, 2, 16),
        v=torch.ones(2, 2, 16),
        k_cache=torch.zeros(3, 4, 2, 16),
        v_cache=torch.zeros(3, 4, 2, 16),
        slot_mapping=torch.tensor([0, 11]),
    )


BAD_WRITES = [
    (dict(k=[1]), TypeError, "k must be a tensor [num_tokens, num_kv_heads, head_dim], not list"),
    (dict(v=torch.ones(2, 2, 16).half()), TypeError, "v must be of float32, not float16"),
    (dict(v=torch.ones(1, 2, 16)), ValueError, "v must have k's 2 tokens, not 1"),
    (dict(k=torch.ones(2, 4, 16)), ValueError, "heads and head_dim [2, 16], not [4, 16]"),
    (
        dict(k=torch.ones(2, 2, 16).half(), v=torch.ones(2, 2, 16).half()),
        TypeError,
        "k_cache must be of float16 or float8_e4m3fn",
    ),
    (
        dict(slot_mapping=torch.tensor([0])),
        ValueError,
        "slot_mapping must have one slot for each of the 2 tokens, not 1",
    ),
    (
        dict(slot_mapping=torch.tensor([0, 12])),
        ValueError,
        "slot_mapping[1] must be a slot from 0 to 11, or -1 for padding, not 12",
    ),
    (
        dict(slot_mapping=torch.tensor([-2, 0])),
        ValueError,
        "slot_mapping[0] must be a slot from 0 to 11, or -1 for padding, not -2",
    ),
    (dict(slot_mapping=torch.tensor([0, 5, 1])[::2]), ValueError, "slot_mapping must be contiguous"),
    (dict(v_scale=1.0), ValueError, "v_scale is for caches of float8_e4m3fn"),
    (dict(backend=None), ValueError, "backend must be one of"),
    (dict(backend=np.zeros(2)), ValueError, "backend must be one of"),
]


@pytest.mark.parametrize("change, error, message", BAD_WRITES, ids=[message[:60] for _, _, message in BAD_WRITES])
def test_a_bad_call_to_write_kv(change, error, message):
    call = {**good_write(), **change}
    with pytest.raises(error, match=re.escape(message)):
        write_kv(**call)
    assert (call["k_cache"] == 0).all() and (call["v_cache"] == 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(q=None), "q must be a tensor"),
        (dict(q=torch.ones(2, 16)), "q must have 3 dimensions"),
        (dict(k=torch.ones(3, 2, 16).double()), "k must be torch.float32 on cpu as q is"),
        (dict(v=torch.ones(4, 2, 16)), "v must have the shape of k"),
        (dict(q=torch.ones(2, 3, 16)), "q must have k's head_dim, 16, and a multiple of its 2 heads"),
        (dict(causal=1), "causal must be True or False"),
        (dict(scale="1"), "scale must be a finite number"),
    ],
)
def test_a_bad_call_to_attention(change, message):
    call = dict(q=torch.ones(2, 4, 16), k=torch.ones(3, 2, 16), v=torch.ones(3, 2, 16)) | change
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        attention(**call)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(block_table=[-1, 0]), "block_table must be a whole number of at least 0 and at most 2, not -1"),
        (dict(block_table=[0, 3]), "block_table must be a whole number of at least 0 and at most 2, not 3"),
        (dict(block_table=3), "block_table must be an iterable of block ids"),
        (dict(seq_len=9), "seq_len must be a whole number of at least 0 and at most 8, not 9"),
        (dict(v_cache=torch.ones(3, 4, 16)), "v_cache must have 4 dimensions"),
    ],
)
def test_a_bad_call_to_blockwise_attention(change, message):
    cache = torch.ones(3, 4, 2, 16)
    call = dict(q=torch.ones(2, 4, 16), k_cache=cache, v_cache=cache, block_table=[2, 0], seq_len=5) | change
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        blockwise_attention(**call)
    assert blockwise_attention(torch.ones(2, 4, 16), cache, cache, [2, -1], 4).shape == (2, 4, 16)


@pytest.mark.parametrize("keys", [(3, 4), (0, 0)])
def test_scores_and_values_of_a_block_have_the_same_keys(keys):
    with pytest.raises(ValueError, match="^values must have a row for each key of scores"):
        SoftmaxState().update(torch.ones(2, keys[0]), torch.ones(keys[1], 16))
    assert SoftmaxState().update(torch.ones(4), torch.arange(4.0)).output() == 1.5  # one query, numbers as values
