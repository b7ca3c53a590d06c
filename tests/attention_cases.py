"""Small cases with known answers that every backend must get right. Each is a function of (attend, write, device);
`CASES` lists them all.

Two tricks: with K of 0 all scores are equal and the output is the plain mean of the visible V; with V[position] =
position it says which were visible.
"""

import math
from itertools import product

import numpy as np
import pytest
import torch
from attention_reference import random_batch, reference

CASES = []
NAN, INF = math.nan, math.inf


def case(function):
    CASES.append(pytest.param(function, id=function.__name__))
    return function


def ints(values, device):
    return torch.tensor(values, dtype=torch.int32, device=device)


def close(actual, expected, tolerance=1e-5):
    """Compare in float64; `expected` may be one number, a number per row, or a tensor."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    actual = actual.detach().double().cpu()
    while expected.dim() < actual.dim():
        expected = expected.unsqueeze(-1)
    torch.testing.assert_close(actual, expected.cpu().expand_as(actual), rtol=tolerance, atol=tolerance)


def mean_caches(rows, block_size, num_blocks, device, num_kv_heads=1, head_dim=16, elsewhere=1000.0):
    """Caches in which position p of each (table, values) of `rows` has K = 0 and V = values[p], and any other slot
    holds `elsewhere`.
    """
    k_cache = torch.full((num_blocks, block_size, num_kv_heads, head_dim), elsewhere, device=device)
    v_cache = k_cache.clone()
    for table, values in rows:
        for position, value in enumerate(values):
            at = table[position // block_size], position % block_size
            k_cache[at], v_cache[at] = 0.0, float(value)
    return k_cache, v_cache


def ones(device, *shape, dtype=torch.float32):
    return torch.ones(shape, device=device, dtype=dtype)


@case
def unused_slots_may_hold_anything(attend, write, device):
    for poison in (NAN, INF, -INF):
        k, v = mean_caches([([2, 0], [1, 1, 1, 1, 5])], 4, 3, device, elsewhere=poison)
        tables, lens = ints([[2, 0]], device), ints([5], device)
        close(attend(ones(device, 1, 1, 16), k, v, tables, lens), 1.8)
        close(attend(ones(device, 3, 1, 16), k, v, tables, lens, query_start_loc=ints([0, 3], device)), [1.0, 1.0, 1.8])


@case
def an_empty_sequence_gives_zeros_and_leaves_its_neighbours_alone(attend, write, device):
    k, v = mean_caches([([0], [1] * 4), ([1], [2])], 4, 2, device, elsewhere=NAN)
    tables, lens = ints([[0], [-1], [1]], device), ints([4, 0, 1], device)
    out, lse = attend(ones(device, 3, 1, 16), k, v, tables, lens, return_lse=True)
    close(out, [1.0, 0.0, 2.0])
    assert (out[1] == 0).all()
    close(lse[[0, 2]], [math.log(4), 0.0])
    assert lse.dtype == torch.float32 and (lse[1] == -INF).all()
    out, lse = attend(
        ones(device, 4, 1, 16), k, v, tables, lens, query_start_loc=ints([0, 3, 3, 4], device), return_lse=True
    )
    close(out, [1.0, 1.0, 1.0, 2.0])
    close(lse, [math.log(2), math.log(3), math.log(4), 0.0])


@case
def nothing_but_empty_sequences(attend, write, device):
    k, v = mean_caches([], 4, 1, device, elsewhere=NAN)
    for columns, starts in product((1, 0), (None, [0, 1, 2], [0, 0, 2])):
        tables, lens = torch.full((2, columns), -1, dtype=torch.int32, device=device), ints([0, 0], device)
        starts = None if starts is None else ints(starts, device)
        out, lse = attend(ones(device, 2, 2, 16), k, v, tables, lens, query_start_loc=starts, return_lse=True)
        assert (out == 0).all() and (lse == -INF).all()


@case
def no_sequence_and_no_token(attend, write, device):
    k, v = mean_caches([], 4, 2, device)
    none = torch.zeros(0, 4, dtype=torch.int32, device=device), ints([], device)
    assert attend(ones(device, 0, 2, 16), k, v, *none).shape == (0, 2, 16)
    assert attend(ones(device, 0, 2, 16), k, v, *none, query_start_loc=ints([0], device)).shape == (0, 2, 16)
    write(ones(device, 0, 1, 16), ones(device, 0, 1, 16), k, v, torch.zeros(0, dtype=torch.int64, device=device))
    assert (k == 1000).all()
    write(ones(device, 2, 1, 16), ones(device, 2, 1, 16), k[:0], v[:0], torch.full((2,), -1, device=device))


@case
def a_sequence_without_a_query_may_have_a_stale_table(attend, write, device):
    k, v = mean_caches([([0, 1], range(7))], 4, 2, device)
    tables, lens = ints([[0, 1], [-1, 99]], device), ints([7, 8], device)
    close(
        attend(ones(device, 7, 1, 16), k, v, tables, lens, query_start_loc=ints([0, 7, 7], device)),
        [p / 2 for p in range(7)],
    )
    close(attend(ones(device, 2, 1, 16), k, v, tables[:1], lens[:1], query_start_loc=ints([0, 2], device)), [2.5, 3.0])


@case
def a_padding_slot_writes_nothing(attend, write, device):
    rows = torch.tensor([1.0, 9.0, 9.0], device=device)[:, None, None].expand(3, 2, 16)
    for slots, expected in (
        ([0, -1, -1], {0: 1.0}),
        ([-1, 7, -1], {7: 9.0}),
        ([-1, 0, -1], {0: 9.0}),
        ([-1, -1, -1], {}),
    ):
        k, v = torch.zeros(3, 4, 2, 16, device=device), torch.zeros(3, 4, 2, 16, device=device)
        write(rows, 2 * rows, k, v, torch.tensor(slots, device=device))
        for cache, times in ((k, 1), (v, 2)):
            flat = cache.view(12, 2, 16)
            close(flat, [times * expected.get(slot, 0.0) for slot in range(12)], tolerance=0)


@case
def the_last_queries_see_the_stored_context(attend, write, device):
    k, v = mean_caches([([1, 0], range(5))], 4, 2, device)
    out = attend(
        ones(device, 2, 1, 16), k, v, ints([[1, 0]], device), ints([5], device), query_start_loc=ints([0, 2], device)
    )
    close(out, [1.5, 2.0])


@case
def a_table_far_wider_than_the_sequence(attend, write, device):
    k, v = mean_caches([([3, 1], range(5))], 4, 4, device, elsewhere=NAN)
    for width in (2, 64, 5000):  # a split over the table's width would give pieces that hold no token
        tables = torch.full((1, width), -1, dtype=torch.int32, device=device)
        tables[0, :2] = ints([3, 1], device)
        out, lse = attend(ones(device, 1, 1, 16), k, v, tables, ints([5], device), return_lse=True)
        close(out, 2.0)
        close(lse, math.log(5))


@case
def a_window_counts_the_current_token(attend, write, device):
    k, v = mean_caches([([2, 0, 1], range(10))], 4, 3, device)
    tables, lens = ints([[2, 0, 1]], device), ints([10], device)
    for window, expected in ((1, 9.0), (np.int32(4), 7.5), (5, 7.0), (10, 4.5), (99, 4.5), (10**30, 4.5)):
        close(attend(ones(device, 1, 1, 16), k, v, tables, lens, window=window, max_seq_len=np.int64(10)), expected)
    out = attend(ones(device, 10, 1, 16), k, v, tables, lens, query_start_loc=ints([0, 10], device), window=4)
    close(out, [0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])


@case
def a_window_longer_than_a_tile(attend, write, device):
    table = [*range(74, -1, -1)]  # 300 tokens in blocks of 4
    k, v = mean_caches([(table, range(300))], 4, 75, device)
    for window in (127, 128, 129, 200, 299, 300):
        close(
            attend(ones(device, 1, 1, 16), k, v, ints([table], device), ints([300], device), window=window),
            299 - (window - 1) / 2,
        )


@case
def blocks_before_the_window_may_be_gone(attend, write, device):
    k, v = mean_caches([([2, 0, 1], range(10))], 4, 3, device)
    k[2], v[2] = NAN, NAN  # positions 0 to 3
    k[0, :2], v[0, :2] = NAN, NAN  # positions 4 and 5
    for gone in (-1, 2**31 - 1, 2):
        out = attend(ones(device, 1, 1, 16), k, v, ints([[gone, 0, 1]], device), ints([10], device), window=4)
        close(out, 7.5)


@case
def query_heads_are_grouped_in_order(attend, write, device):
    for num_q_heads, num_kv_heads in ((6, 2), (40, 8), (28, 4), (71, 1), (3, 3)):
        k, v = mean_caches([([1], range(3))], 4, 2, device, num_kv_heads)
        v[1, :3] = torch.arange(1.0, num_kv_heads + 1, device=device)[:, None]
        tables, lens = ints([[1]], device), ints([3], device)
        expected = torch.arange(1.0, num_kv_heads + 1).repeat_interleave(num_q_heads // num_kv_heads)
        close(attend(ones(device, 1, num_q_heads, 16), k, v, tables, lens)[0], expected)
        out = attend(ones(device, 2, num_q_heads, 16), k, v, tables, lens, query_start_loc=ints([0, 2], device))
        close(out[0], expected)
        close(out[1], expected)


@case
def every_head_dim_stays_within_its_rows(attend, write, device):
    for head_dim in (16, 24, 64, 80, 96, 128, 192, 256):
        for num_queries in (None, [3, 2]):
            batch = random_batch(
                [9, 5], heads=(4, 2), head_dim=head_dim, block_size=4, dtype=torch.float32, num_queries=num_queries
            )
            expected = batch.expected()[0]
            batch = batch.to(device)
            guarded = torch.full((len(batch.q) + 1, 4, head_dim), 777.0, device=device)
            returned = batch.run(attend, out=guarded[:-1])
            assert returned.data_ptr() == guarded.data_ptr() and (guarded[-1] == 777).all()
            close(guarded[:-1], expected)


@case
def blocks_of_one_token_and_blocks_longer_than_the_sequence(attend, write, device):
    for block_size, table, length in (
        (1, [4, 0, 2, 1, 3], 5),
        (2, [1, 0], 3),
        (128, [1], 3),
        (256, [0], 4),
        (4, [1], 4),
        (4, [1, 0], 5),
    ):
        k, v = mean_caches([(table, range(length))], block_size, max(table) + 1, device)
        out = attend(ones(device, 1, 1, 16), k, v, ints([table], device), ints([length], device))
        close(out, (length - 1) / 2)


@case
def a_block_size_that_is_no_power_of_two_is_refused(attend, write, device):
    for block_size in (3, 12, 512):
        k, v = mean_caches([], block_size, 4, device)
        with pytest.raises(ValueError, match=f"block size.*power of two from 1 to 256, not {block_size}"):
            attend(ones(device, 1, 1, 16), k, v, ints([[0]], device), ints([1], device))
        with pytest.raises(ValueError, match="power of two"):
            write(
                ones(device, 1, 1, 16), ones(device, 1, 1, 16), k, v, torch.zeros(1, dtype=torch.int64, device=device)
            )


@case
def k_and_v_interleaved_in_one_buffer(attend, write, device):
    kv = torch.zeros(3, 2, 4, 1, 16, device=device)
    k, v = kv[:, 0], kv[:, 1]
    v.copy_(torch.arange(3.0, device=device)[:, None, None, None].expand_as(v))
    close(attend(ones(device, 1, 1, 16), k, v, ints([[2, 1]], device), ints([6], device)), 10 / 6)
    layers = torch.zeros(2, 3, 2, 4, 1, 16, device=device)
    k, v = layers[1, :, 0], layers[1, :, 1]
    slots = torch.tensor([8, 9, 10, 11, 4, 5], device=device)
    write(ones(device, 6, 1, 16) * 0, slots.view(6, 1, 1) // 4 * ones(device, 6, 1, 16), k, v, slots)
    assert (layers[0] == 0).all() and (k == 0).all()
    close(attend(ones(device, 1, 1, 16), k, v, ints([[2, 1]], device), ints([6], device)), 10 / 6)


@case
def tensors_of_any_strides(attend, write, device):
    batch = random_batch(
        [9, 0, 20], num_queries=[2, 1, 5], heads=(6, 2), head_dim=32, block_size=4, dtype=torch.float32, poison=0.0
    )
    expected = batch.expected()[0]
    batch = batch.to(device)

    def spaced(x, dim):  # the same numbers, every second element along `dim`
        wide = torch.full([n * 2 if d == dim else n for d, n in enumerate(x.shape)], NAN, device=device)
        view = wide.unflatten(dim, (-1, 2)).select(dim + 1, 0)
        return view.copy_(x)

    for dim in (0, 1, 2, 3):
        k_cache, v_cache = spaced(batch.k_cache, dim), spaced(batch.v_cache, dim)
        q = spaced(batch.q, min(dim, 2))
        out = spaced(torch.zeros_like(batch.q), min(dim, 2))
        attend(q, k_cache, v_cache, batch.block_tables, batch.seq_lens, query_start_loc=batch.query_start_loc, out=out)
        close(out, expected)
    padded = torch.full((2, *batch.k_cache.shape[:3], 40), NAN, device=device)[
        ..., 5:37
    ]  # rows of 40 numbers, of which 32 count
    padded[0], padded[1] = batch.k_cache, batch.v_cache
    close(attend(batch.q, *padded, batch.block_tables, batch.seq_lens, query_start_loc=batch.query_start_loc), expected)
    k_cache, v_cache = spaced(torch.zeros_like(batch.k_cache), 2), spaced(torch.zeros_like(batch.v_cache), 1)
    new = torch.arange(2.0 * 32 * 3, device=device).view(32, 2, 3).permute(2, 1, 0)  # [3, 2, 32]
    write(new, -new, k_cache, v_cache, torch.tensor([5, 0, 2], device=device))
    for cache, sign in ((k_cache, 1), (v_cache, -1)):
        close(cache.flatten(0, 1)[[5, 0, 2]], sign * new.cpu(), tolerance=0)
        assert cache.count_nonzero() == new.count_nonzero()


@case
def other_integer_types_are_refused(attend, write, device):
    k, v = mean_caches([([0], [1] * 3), ([1], [2] * 2)], 4, 2, device)
    good = dict(
        block_tables=ints([[0], [1]], device), seq_lens=ints([3, 2], device), query_start_loc=ints([0, 1, 2], device)
    )
    for name in good:
        with pytest.raises(TypeError, match=f"{name} must be of int32, not int64"):
            attend(ones(device, 2, 1, 16), k, v, **{**good, name: good[name].long()})
    with pytest.raises(TypeError, match="slot_mapping must be of int64, not int32"):
        write(ones(device, 1, 1, 16), ones(device, 1, 1, 16), k, v, ints([0], device))


@case
def stale_table_entries_are_never_read(attend, write, device):
    k, v = mean_caches([([7], [7] * 4)], 4, 8, device, elsewhere=NAN)
    tables = ints([[7, 1000000, -1, 3]], device)
    close(attend(ones(device, 1, 1, 16), k, v, tables, ints([4], device)), 7.0)
    close(attend(ones(device, 2, 1, 16), k, v, tables, ints([4], device), query_start_loc=ints([0, 2], device)), 7.0)


@case
def the_scale_is_what_was_asked_for(attend, write, device):
    k, v = torch.zeros(1, 4, 1, 80, device=device), torch.zeros(1, 4, 1, 80, device=device)
    k[0, 0], v[0, 0] = 0.1, 1.0
    for scale, expected in ((None, 0.709803), (1.0, 0.999665), (1, 0.999665), (0.0, 0.5)):
        close(
            attend(ones(device, 1, 1, 80), k, v, ints([[0]], device), ints([2], device), scale=scale),
            expected,
            tolerance=2e-6,
        )


@case
def half_precision_scores_do_not_overflow(attend, write, device):
    for sign, expected in ((1, 2.0), (-1, 1.0)):
        k = torch.zeros(1, 2, 1, 128, dtype=torch.float16, device=device)
        v = torch.zeros_like(k)
        k[0, 0], k[0, 1], v[0, 0], v[0, 1] = 60, sign * 60, 1, 3
        out = attend(60 * ones(device, 1, 1, 128, dtype=torch.float16), k, v, ints([[0]], device), ints([2], device))
        close(out, expected, tolerance=0)


@case
def decodes_and_prefills_mixed_in_any_order(attend, write, device):
    decode, prefill = ([0, 1, 2], range(9)), ([3], [100, 101, 102])
    k, v = mean_caches([decode, prefill], 4, 4, device)
    rows = {9: [0, 1, 2], 3: [3, -1, -1]}
    for lengths, starts, expected in (
        ([9, 3], [0, 1, 4], [4, 100, 100.5, 101]),
        ([3, 9], [0, 3, 4], [100, 100.5, 101, 4]),
    ):
        tables = ints([rows[length] for length in lengths], device)
        close(
            attend(ones(device, 4, 1, 16), k, v, tables, ints(lengths, device), query_start_loc=ints(starts, device)),
            expected,
        )


@case
def only_the_addresses_change(attend, write, device):
    batch = random_batch([11], heads=(4, 2), head_dim=32, block_size=4, dtype=torch.float32, poison=0.0).to(device)
    prefill = random_batch([11], num_queries=[6], heads=(4, 2), head_dim=32, block_size=4, dtype=torch.float32).to(
        device
    )
    results = []
    for table in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        k, v = torch.full((3, 4, 2, 32), NAN, device=device), torch.full((3, 4, 2, 32), NAN, device=device)
        slots = torch.tensor([table[p // 4] * 4 + p % 4 for p in range(11)], device=device)
        write(batch.keys[0], batch.values[0], k, v, slots)
        tables, lens = ints([table], device), ints([11], device)
        results.append(
            (
                attend(batch.q, k, v, tables, lens),
                attend(prefill.q, k, v, tables, lens, query_start_loc=prefill.query_start_loc),
            )
        )
    assert all(torch.equal(a, b) for result in results[1:] for a, b in zip(result, results[0], strict=True))


@case
def more_queries_than_keys(attend, write, device):
    k, v = mean_caches([([0], [1, 3])], 4, 1, device, elsewhere=NAN)
    out, lse = attend(
        ones(device, 5, 1, 16),
        k,
        v,
        ints([[0]], device),
        ints([2], device),
        query_start_loc=ints([0, 5], device),
        return_lse=True,
    )
    close(out, [0.0, 0.0, 0.0, 1.0, 2.0])
    assert (out[:3] == 0).all() and (lse[:3] == -INF).all()
    close(lse[3:], [0.0, math.log(2)])


@case
def sequences_may_share_blocks(attend, write, device):
    k, v = mean_caches([([2, 0], range(6)), ([2, 1], [0, 1, 2, 3, 40])], 4, 3, device)
    out = attend(ones(device, 2, 1, 16), k, v, ints([[2, 0], [2, 1]], device), ints([6, 5], device))
    close(out, [2.5, 46 / 5])


@case
def a_soft_cap_bounds_the_scores(attend, write, device):
    batch = random_batch([40, 7], num_queries=[3, 2], dtype=torch.float32, spread=3.0)
    for softcap in (0.5, 5.0, 50.0):
        out, lse = batch.to(device).run(attend, softcap=softcap, scale=0.7, window=20, return_lse=True)
        expected, expected_lse = batch.expected(softcap=softcap, scale=0.7, window=20)
        close(out, expected, 2e-5)
        close(lse, expected_lse, 2e-5)


SINKS = [0.5, -2.0, 3.0, -INF, 40.0, -80.0]  # one that takes next to nothing, none, next to everything


@case
def a_sink_is_one_more_key_without_a_value(attend, write, device):
    sinks = torch.tensor(SINKS)
    for lengths, num_queries in (([130, 0, 1, 40], None), ([130, 0, 5, 40, 3], [40, 2, 7, 1, 0])):
        batch = random_batch(lengths, num_queries=num_queries, heads=(6, 2), block_size=4, dtype=torch.float32)
        for options in ({}, dict(window=90), dict(window=3, softcap=2.0, scale=0.7), dict(max_seq_len=130)):
            out, lse = batch.to(device).run(attend, sinks=sinks.to(device), return_lse=True, **options)
            options.pop("max_seq_len", None)
            expected, expected_lse = batch.expected(sinks=sinks.double(), **options)
            close(out, expected, 2e-6)
            close(lse, expected_lse, 2e-6)


@case
def a_sink_is_a_factor_of_the_plain_output(attend, write, device):
    sinks = torch.tensor(SINKS[:4], device=device)
    for num_queries in (None, [9, 2]):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn):
            batch, options = random_batch([150, 2], num_queries=num_queries, dtype=dtype).to(device), {}
            if dtype == torch.float8_e4m3fn:
                dtype, options = torch.float16, dict(k_scale=0.5, v_scale=2.0)
                batch.q = batch.q.to(dtype)
            plain, lse = batch.run(attend, return_lse=True, **options)
            out, with_sink = batch.run(attend, sinks=sinks, return_lse=True, **options)
            close(out, torch.sigmoid(lse - sinks)[..., None].cpu() * plain.cpu(), 3 * torch.finfo(dtype).eps)
            close(with_sink, torch.logaddexp(lse, sinks), 2e-6)


@case
def a_sink_may_be_far_above_and_far_below_the_scores(attend, write, device):
    k, v = mean_caches([([2, 0], [1, 1, 1, 1, 5])], 4, 3, device, elsewhere=NAN)
    tables, lens = ints([[2, 0]], device), ints([5], device)
    for sink, expected, expected_lse in ((1e30, 0.0, 1e30), (-1e30, 1.8, math.log(5)), (-INF, 1.8, math.log(5))):
        for starts in (None, ints([0, 1], device)):
            options = dict(query_start_loc=starts, sinks=torch.tensor([sink], device=device), return_lse=True)
            out, lse = attend(ones(device, 1, 1, 16), k, v, tables, lens, **options)
            close(out, expected)
            close(lse, expected_lse)


@case
def of_merged_parts_one_has_the_sinks(attend, write, device):
    sinks = torch.tensor([0.5, -2.0, 3.0, -INF])
    batch = random_batch([37], block_size=4, dtype=torch.float32)
    whole = batch.expected(sinks=sinks.double())[0]
    batch = batch.to(device)
    parts = []
    for (first_block, end_block), some in (((0, 4), None), ((4, 10), sinks.to(device))):
        length = min(end_block * 4, 37) - first_block * 4
        tables = batch.block_tables[:, first_block:end_block].contiguous()
        q, lens = batch.q, ints([length], device)
        parts.append(attend(q, batch.k_cache, batch.v_cache, tables, lens, sinks=some, return_lse=True))
    weights = torch.softmax(torch.stack([lse for _, lse in parts]), dim=0)
    close(sum(w[..., None] * out for w, (out, _) in zip(weights, parts, strict=True)), whole)


@case
def parts_of_a_context_merge_by_their_lse(attend, write, device):
    batch = random_batch([37], block_size=4, dtype=torch.float32)
    whole = batch.expected()[0]
    batch = batch.to(device)
    parts = []
    for first_block, end_block in ((0, 3), (3, 7), (7, 10)):
        length = min(end_block * 4, 37) - first_block * 4
        tables = batch.block_tables[:, first_block:end_block].contiguous()
        parts.append(attend(batch.q, batch.k_cache, batch.v_cache, tables, ints([length], device), return_lse=True))
    lse = torch.stack([lse for _, lse in parts])
    weights = torch.softmax(lse, dim=0)  # [parts, tokens, heads]
    close(sum(w[..., None] * out for w, (out, _) in zip(weights, parts, strict=True)), whole)


@case
def an_fp8_cache_is_scaled_and_saturates(attend, write, device):
    k, v = (torch.zeros(2, 4, 1, 16, dtype=torch.float8_e4m3fn, device=device) for _ in range(2))
    new = torch.tensor([1.0, -2000.0, 3.0], device=device)[:, None, None].expand(3, 1, 16)
    write(new, new, k, v, torch.tensor([4, 5, -1], device=device), k_scale=0.5, v_scale=2.0)
    close(k[1, :2, 0, 0], [2.0, -448.0], tolerance=0)
    close(v[1, :2, 0, 0], [0.5, -448.0], tolerance=0)
    assert (k[0].float() == 0).all() and (k[1, 2:].float() == 0).all()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        q = ones(device, 2, 1, 16, dtype=dtype)
        out = attend(q[:1], k, v, ints([[1]], device), ints([2], device), scale=0.0, k_scale=0.5, v_scale=2.0)
        assert out.dtype == dtype
        close(out, (1.0 - 896.0) / 2, 4e-3)
        out = attend(
            q,
            k,
            v,
            ints([[1]], device),
            ints([2], device),
            scale=0.1,
            k_scale=0.5,
            v_scale=2.0,
            query_start_loc=ints([0, 2], device),
        )
        close(out, [1.0, 1.0], 4e-3)  # the second key's score is far below
    write(-new[:1], new[:1], k, v, torch.tensor([0], device=device))
    close(k[0, 0], -1.0, tolerance=0)


@case
def an_fp8_cache_means_its_numbers_times_the_scales(attend, write, device):
    for num_queries in (None, [3, 1, 20]):
        batch = random_batch(
            [9, 1, 40], num_queries=num_queries, heads=(6, 2), head_dim=32, dtype=torch.float32, poison=0.0
        )
        for stored, scale in ((batch.keys, 0.02), (batch.values, 0.03)):
            stored[:] = [scale * (x / scale).to(torch.float8_e4m3fn).float() for x in stored]
        expected, expected_lse = batch.expected()
        batch = batch.to(device)
        k, v = (torch.zeros(batch.k_cache.shape, dtype=torch.float8_e4m3fn, device=device) for _ in range(2))
        flat = torch.cat(
            [
                t[torch.arange(n) // 16].long() * 16 + torch.arange(n) % 16
                for t, n in zip(batch.block_tables.cpu(), (9, 1, 40), strict=True)
            ]
        )
        write(torch.cat(batch.keys), torch.cat(batch.values), k, v, flat.to(device), k_scale=0.02, v_scale=0.03)
        out, lse = attend(
            batch.q,
            k,
            v,
            batch.block_tables,
            batch.seq_lens,
            query_start_loc=batch.query_start_loc,
            k_scale=0.02,
            v_scale=0.03,
            return_lse=True,
        )
        close(out, expected, 1e-4)
        close(lse, expected_lse, 1e-4)


@case
def a_cache_with_heads_first_is_a_permuted_view(attend, write, device):
    for num_queries in (None, [3, 2]):
        batch = random_batch([9, 5], num_queries=num_queries, heads=(4, 2), block_size=4, dtype=torch.float32)
        expected = batch.expected()[0]
        batch = batch.to(device)
        heads_first = [x.permute(0, 2, 1, 3).contiguous() for x in (batch.k_cache, batch.v_cache)]
        batch.k_cache, batch.v_cache = (x.permute(0, 2, 1, 3) for x in heads_first)
        close(batch.run(attend), expected)


@case
def queries_and_results_may_be_transposed_or_one(attend, write, device):
    for num_queries in (None, [3, 20]):
        batch = random_batch([9, 25], num_queries=num_queries, heads=(4, 2), dtype=torch.float32, poison=0.0)
        expected = batch.expected()[0]
        batch = batch.to(device)
        plain, heads_first = batch.run(attend), torch.empty_like(batch.q.transpose(0, 1).contiguous()).transpose(0, 1)
        close(batch.run(attend, out=heads_first), expected, 1e-6)
        batch.q = batch.q.transpose(0, 1).contiguous().transpose(0, 1)
        close(batch.run(attend), expected, 1e-6)
        assert torch.equal(batch.run(attend, out=batch.q), plain) and torch.equal(batch.q, plain)


@case
def tables_and_caches_may_be_expanded_and_k_may_be_v(attend, write, device):
    k, v = mean_caches([([2, 0], [2, 2, 2, 2, 0])], 4, 3, device)
    tables, lens = ints([[2, 0]], device).expand(3, 2), ints([5, 5, 5], device)
    close(attend(ones(device, 3, 1, 16), k, v, tables, lens), 1.6)
    over_heads = k.expand(3, 4, 2, 16), v.expand(3, 4, 2, 16)
    close(attend(ones(device, 3, 4, 16), *over_heads, tables, lens), 1.6)
    for num_queries in (None, [3]):
        one = random_batch([7], num_queries=num_queries, heads=(1, 1), dtype=torch.float32, poison=0.0)
        expected = reference(one.q, one.keys[0], one.keys[0])[0]
        one.v_cache = one.k_cache
        close(one.to(device).run(attend), expected)


@case
def a_prompt_of_new_tokens_beside_a_long_one(attend, write, device):
    batch = random_batch([3, 50], num_queries=[3, 4], heads=(4, 2), block_size=4, dtype=torch.float32)
    expected = batch.expected()[0]
    close(batch.to(device).run(attend), expected, 1e-6)


@case
def a_scale_a_cap_and_a_window_together(attend, write, device):
    options = dict(scale=144**-0.5, softcap=50.0, window=32)
    for num_queries in (None, [60]):
        batch = random_batch([60], num_queries=num_queries, heads=(4, 2), head_dim=144, dtype=torch.float32)
        expected = batch.expected(**options)[0]
        close(batch.to(device).run(attend, **options), expected, 2e-6)


@case
def a_cap_keeps_small_scores_to_the_last_digits(attend, write, device):
    scores = torch.linspace(-199, 199, 20)
    scores = torch.cat([scores, scores / 10, scores / 1000])
    q, cache = torch.zeros(60, 1, 16, device=device), torch.zeros(1, 1, 1, 16, device=device)
    q[:, 0, 0], cache[..., 0] = scores, 1.0
    batch = q, cache, cache, ints([[0]] * 60, device), ints([1] * 60, device)
    for starts in (None, torch.arange(61, dtype=torch.int32, device=device)):
        _, lse = attend(*batch, query_start_loc=starts, scale=1.0, softcap=50.0, return_lse=True)
        expected = 50 * torch.tanh(scores.double() / 50)
        torch.testing.assert_close(lse[:, 0].double().cpu(), expected, rtol=1e-6, atol=0)


@case
def head_sizes_off_the_beaten_track(attend, write, device):
    for head_dim in (24, 40, 72, 136):
        k, v = mean_caches([([2, 0], [1] * 5)], 4, 3, device, head_dim=head_dim, elsewhere=NAN)
        tables, lens, q = ints([[2, 0]], device), ints([5], device), ones(device, 1, 1, head_dim)
        close(attend(q, k, v, tables, lens), 1.0)
        close(attend(q, k, v, tables, lens, query_start_loc=ints([0, 1], device)), 1.0)


@case
def numbers_may_be_those_of_numpy(attend, write, device):
    batch = random_batch([9], heads=(4, 2), dtype=torch.float32, poison=0.0).to(device)
    plain = batch.run(attend, scale=0.25, softcap=5.0, window=4, max_seq_len=9)
    for kind in (np.float32, np.float64, np.float16):
        options = dict(scale=kind(0.25), softcap=kind(5), window=np.int64(4), max_seq_len=torch.tensor(9))
        assert torch.equal(batch.run(attend, **options), plain)
    k, v = (torch.zeros(2, 4, 1, 16, dtype=torch.float8_e4m3fn, device=device) for _ in range(2))
    slots, scales = torch.tensor([4], device=device), dict(k_scale=np.float32(0.5), v_scale=np.float32(2))
    write(ones(device, 1, 1, 16), ones(device, 1, 1, 16), k, v, slots, **scales)
    close(k[1, 0], 2.0, tolerance=0)
    close(attend(ones(device, 1, 1, 16), k, v, ints([[1]], device), ints([1], device), **scales), 1.0)
