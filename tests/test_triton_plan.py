"""Plans of a decode step: which work the table tells out, that no result changes, and what is refused."""

from functools import partial
from importlib.util import find_spec
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    pytest.skip("needs Triton", allow_module_level=True)

from attention_reference import random_batch  # noqa: E402
from private_names import occupy_gpu  # noqa: E402

from pagedkv.attention.paged import paged_attention, plan_attention, write_kv  # noqa: E402
from pagedkv.attention.triton import INTERPRETED, launch, settings, write  # noqa: E402
from pagedkv.attention.triton import plan as planning  # noqa: E402
from pagedkv.bench.cases import GRID, HELD_OUT  # noqa: E402
from pagedkv.bench.report import recorded  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
attend, plan_of = partial(paged_attention, backend="triton"), partial(plan_attention, backend="triton")
RAGGED = [200, 0, 1, 64, 600, 65]


def ints(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def cache(heads=(8, 2), dtype=torch.float16, head_dim=16):
    return torch.zeros(1, 16, heads[1], head_dim, dtype=dtype, device=DEVICE)


def parts(items, first_items, num_seqs):
    """The (first, end) tokens of each sequence's items."""
    rows, first = items.tolist(), first_items.tolist()
    assert first[0] == 0 and all(row == [0, 1, 0, 0] for row in rows[first[-1] :])
    found = [rows[begin:end] for begin, end in zip(first, first[1:], strict=False)]
    for seq, mine in enumerate(found):
        assert [row[0] for row in mine] == [seq] * len(mine)
        assert [row[1] for row in mine] == ([-1] if len(mine) == 1 else list(range(len(mine))))
    assert len(found) == num_seqs
    return [[(lo, hi) for _, _, lo, hi in mine] for mine in found]


def cut(lengths, wanted, window=planning.NO_BOUND, smallest=1, tile=16):
    chosen = settings.Settings(tile, 1, wanted, True)
    return parts(*planning.cut(ints(lengths), window, smallest, chosen)[1:], len(lengths))


@pytest.mark.parametrize("window", [planning.NO_BOUND, 600])
@pytest.mark.parametrize("wanted", [3, 20, 90])
def test_each_visible_token_stands_in_one_item(wanted, window):
    draw = Random(wanted)
    lengths = [*RAGGED, *(draw.randint(0, 2000) for _ in range(14))]
    found = cut(lengths, wanted, window)
    for length, mine in zip(lengths, found, strict=True):
        assert mine[0][0] == max(0, length - window) and mine[-1][1] == length
        assert all(end == begin for (_, end), (begin, _) in zip(mine, mine[1:], strict=False))
        assert all(lo < hi for lo, hi in mine) or length == 0
    assert sum(map(len, found)) <= max(wanted, len(lengths))


def test_the_cut_is_the_smallest_that_gives_no_more_items_than_wanted():
    lengths = [3000, 100, 900, 5, 1600]
    for wanted in (5, 6, 9, 14, 40):
        found = cut(lengths, wanted)
        longest = max(-(-(hi - lo) // 16) for mine in found for lo, hi in mine)

        def count(tiles):
            return sum(-(-length // (16 * tiles)) for length in lengths)

        enough = next(tiles for tiles in range(1, 200) if count(tiles) <= wanted)
        assert sum(map(len, found)) == count(enough) and longest <= enough


def test_parts_are_no_smaller_than_asked_and_a_sequence_is_cut_into_equal_ones():
    found = cut([3000, 700, 40], 500, smallest=8)
    assert [len(mine) for mine in found] == [24, 6, 1]
    assert {hi - lo for lo, hi in found[0][:-1]} == {128}


@pytest.fixture
def small_gpu(monkeypatch):
    """Few programs, for the interpreter."""
    monkeypatch.setattr(planning, "multiprocessors", lambda device: 3)


@pytest.mark.parametrize(
    ("lengths", "known", "options"),
    [
        (RAGGED, False, {}),
        (RAGGED, True, {"window": 530}),
        (RAGGED, False, {"softcap": 3.0, "sinks": True}),
        ([600] * 2, True, {}),
        pytest.param([600] * 2, False, {}, marks=pytest.mark.thorough),
        pytest.param(RAGGED * 4, False, {"sinks": True}, marks=pytest.mark.thorough),
    ],
)
def test_a_plan_changes_no_result(lengths, known, options, small_gpu):
    batch = random_batch(lengths, heads=(4, 1), head_dim=16, dtype=torch.float16).to(DEVICE)
    if "sinks" in options:
        options = options | {"sinks": torch.linspace(-3, 3, 4, device=DEVICE)}
    plan = plan_of(batch.seq_lens, batch.k_cache, 4, window=options.get("window"), lengths=lengths if known else None)
    assert (plan.items is None) == (known and lengths[0] == lengths[-1])
    out, lse = batch.run(attend, plan=plan, return_lse=True, **options)
    expected, expected_lse = batch.expected(**options)
    torch.testing.assert_close(out.double(), expected, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-4, atol=1e-4)


def test_short_sequences_need_no_table_and_fp8_takes_a_plan(small_gpu):
    batch = random_batch([70, 0, 120], heads=(4, 1), head_dim=16, dtype=torch.float32).to(DEVICE)
    eight = [x.to(torch.float8_e4m3fn) for x in (batch.k_cache, batch.v_cache)]
    run = partial(attend, batch.q, *eight, batch.block_tables, batch.seq_lens)
    expected = run()
    for bound, table in ((128, False), (None, True)):
        plan = plan_of(batch.seq_lens, eight[0], 4, max_seq_len=bound)
        assert (plan.items is not None) == table
        torch.testing.assert_close(run(plan=plan), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_a_plan_for_another_call_is_refused(backend):
    batch = random_batch([7, 90], heads=(8, 2), head_dim=16, dtype=torch.float32).to(DEVICE)
    of = partial(plan_attention, backend=backend)
    lens, k = batch.seq_lens, batch.k_cache
    others = {
        "num_seqs 2, not 1": of(lens[:1], k, 8),
        "num_q_heads 8, not 4": of(lens, k, 4),
        "num_kv_heads 2, not 1": of(lens, k[:, :, :1], 8),
        "head_dim 16, not 32": of(lens, cache(head_dim=32), 8),
        "dtype torch.float32, not torch.float16": of(lens, cache(), 8),
        "window None, not 5": of(lens, k, 8, window=5),
    }
    for words, plan in others.items():
        with pytest.raises(ValueError, match=f"plan must be for a call with {words}"):
            batch.run(paged_attention, plan=plan, backend=backend)
    plan = of(lens, k, 8, max_seq_len=90)
    with pytest.raises(ValueError, match="max_seq_len must be at most the plan's, 90, not 91"):
        batch.run(paged_attention, plan=plan, max_seq_len=91, backend=backend)
    batch.run(paged_attention, plan=plan, max_seq_len=90, backend=backend)
    longer = of(lens - 6, k, 8, max_seq_len=84)
    with pytest.raises(ValueError, match="max_seq_len must be at least the longest of seq_lens, 90, not 84"):
        batch.run(paged_attention, plan=longer, validate=True, backend=backend)


def test_a_plan_of_other_lengths_is_refused_where_lengths_are_looked_at():
    batch = random_batch([7, 90], heads=(8, 2), head_dim=16, dtype=torch.float32).to(DEVICE)
    plan = plan_of(batch.seq_lens - 5, batch.k_cache, 8)
    with pytest.raises(ValueError, match="made for 2 tokens of sequence 0, not for 7"):
        batch.run(attend, plan=plan, validate=True)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"seq_lens": [3, 4]}, TypeError, "seq_lens must be a tensor"),
        ({"seq_lens": torch.tensor([3, 4])}, TypeError, "seq_lens must be of int32, not int64"),
        ({"num_q_heads": 3}, ValueError, "num_q_heads must be a multiple of the 2 KV heads, not 3"),
        ({"num_q_heads": 8.0}, TypeError, "num_q_heads must be a whole number"),
        ({"window": 0}, ValueError, "window must be a whole number of at least 1, not 0"),
        ({"max_seq_len": -1}, ValueError, "max_seq_len must be a whole number of at least 0"),
        ({"lengths": [3]}, ValueError, "lengths must be one for each of the 2 sequences, not 1"),
        ({"lengths": 3}, TypeError, "lengths must be an iterable of whole numbers"),
        ({"lengths": [3, 40], "max_seq_len": 39}, ValueError, "must be at least the longest of lengths, 40, not 39"),
        ({"backend": "cuda"}, ValueError, "backend must be one of"),
    ],
)
def test_bad_arguments_of_a_plan(arguments, error, words):
    given = {"seq_lens": ints([3, 4]), "k_cache": cache(), "num_q_heads": 8} | arguments
    with pytest.raises(error, match=words):
        plan_attention(**given)


def test_no_sequence_and_a_prefill_take_a_plan_too():
    k = cache()
    none = plan_of(ints([]), k, 8)
    q = torch.zeros(0, 8, 16, dtype=k.dtype, device=DEVICE)
    assert none.items is None and attend(q, k, k, ints([]).view(0, 1), ints([]), plan=none).shape == q.shape
    batch = random_batch([70, 20], num_queries=[3, 20], heads=(4, 2), dtype=torch.float32).to(DEVICE)
    plan = plan_of(batch.seq_lens, batch.k_cache, 4)
    assert torch.equal(batch.run(attend, plan=plan), batch.run(attend))


def test_few_settings_serve_every_plan():
    """So many variants of the kernel are compiled at most, each with a table and without."""
    for row_bytes, dtype_bytes in ((256, 2), (128, 2), (512, 2), (128, 1), (512, 4)):
        found = set()
        for num_seqs in (1, 2, 7, 33, 60, 257, 900, 5000):
            for visible in (1, 300, 2500, planning.NO_BOUND):
                for even in (True, False):
                    chosen = settings.settings(row_bytes, dtype_bytes, 4, 8, num_seqs, visible, even, 132)
                    found.add(chosen[:2])
                    assert chosen.items >= num_seqs and (chosen.table or visible <= 512 or even)
        assert found <= {tile[:2] for tile in settings.tiles(row_bytes, dtype_bytes, 4)} and len(found) <= 3


def test_the_estimate_is_near_what_was_recorded():
    record = {entry["case"]: entry["results"] for entry in recorded()["cases"]}
    even = [case for case in (GRID | HELD_OUT).values() if case.is_decode and case.equal_lengths]
    for case in even:
        dtype_bytes, group = (1 if case.cache == "fp8" else 2), case.q_heads // case.kv_heads
        row_bytes, (batch, length) = case.head_dim * dtype_bytes, (len(case.lengths), case.lengths[0])
        chosen = settings.settings(row_bytes, dtype_bytes, group, case.kv_heads, batch, length, True, 132)
        tile = next(tile for tile in settings.tiles(row_bytes, dtype_bytes, group) if tile.tokens == chosen.tile)
        shape = row_bytes, dtype_bytes, group, batch * case.kv_heads, length, 132
        estimate = settings.time_us(tile, chosen.items // batch, *shape)
        best = min(timing["us"] for name, timing in record[case.name].items() if name.startswith("pagedkv"))
        assert 0.9 < estimate / best < 1.1, (case.name, estimate, best)
    assert len(even) == 20


def test_a_slot_past_the_cache_is_skipped_by_the_kernel():
    k_cache, v_cache = (torch.zeros(3, 4, 2, 16, device=DEVICE)[:2] for _ in range(2))  # a third block lies behind
    new = torch.ones(4, 2, 16, device=DEVICE)
    slots = torch.tensor([7, 8, 2**40, -1], device=DEVICE)
    write.write(new, 2 * new, k_cache, v_cache, slots, k_scale=None, v_scale=None)
    for pool, value in ((k_cache, 1.0), (v_cache, 2.0)):
        whole = pool.as_strided((12, 2, 16), (32, 16, 1))
        assert (whole[7] == value).all() and (whole[[*range(7), *range(8, 12)]] == 0).all()


def test_a_missing_c_compiler_is_one_sentence(monkeypatch):
    class Kernel:
        def __getitem__(self, grid):
            def launched(*arguments, **options):
                raise FileNotFoundError("gcc")

            return launched

    monkeypatch.setattr(launch, "INTERPRETED", False)
    run = partial(launch.Launcher(Kernel()), -1, (1, 1, 1), (), (), (), (), ())
    monkeypatch.setattr(launch, "which", lambda name: "/usr/bin/gcc")
    with pytest.raises(FileNotFoundError):
        run()
    monkeypatch.setattr(launch, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="needs a C compiler .* install gcc"):
        run()


@pytest.mark.gpu
def test_slots_past_the_cache_are_skipped_on_a_gpu_by_both_backends():
    for backend in ("torch", "triton"):
        k_cache, v_cache = (torch.zeros(2, 4, 2, 16, device="cuda") for _ in range(2))
        new = torch.ones(3, 2, 16, device="cuda")
        write_kv(new, new, k_cache, v_cache, torch.tensor([7, 8, 10**9], device="cuda"), backend=backend)
        assert (k_cache.flatten(0, 1)[7] == 1).all() and k_cache.sum() == v_cache.sum() == 32


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_captured_plan_serves_other_lengths_and_nothing_waits():
    full = random_batch([3000, 700, 300, 1], heads=(8, 2), head_dim=64, dtype=torch.float32, poison=0.0).to("cuda")
    for one in (full.q, full.k_cache, full.v_cache):
        one.normal_()

    def step():
        plan = plan_of(full.seq_lens, full.k_cache, 8, max_seq_len=3000)
        return attend(full.q, full.k_cache, full.v_cache, full.block_tables, full.seq_lens, plan=plan)

    step()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        occupy_gpu(200_000_000)
        torch.cuda.set_sync_debug_mode("error")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert not stream.query()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for lengths in ([3000, 700, 300, 1], [5, 0, 299, 1], [64, 65, 1, 0], [0, 0, 0, 0], [700, 700, 300, 16]):
        full.seq_lens.copy_(torch.tensor(lengths))
        graph.replay()
        cache = (full.k_cache, full.v_cache, full.block_tables, full.seq_lens)
        torch.testing.assert_close(out, paged_attention(full.q, *cache, backend="torch"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [np.uint8, np.int64, torch.tensor])
def test_numbers_of_other_libraries_are_kept_as_pythons_own(number):
    lengths = ints([5, 40])
    plans = [plan_of(lengths, cache((2, 1)), kind(2), max_seq_len=kind(40), window=kind(33)) for kind in (number, int)]
    assert plans[0][:3] == plans[1][:3] and plans[0].launch == plans[1].launch
    assert [type(plans[0][at]) for at in (1, 2)] == [int, int]
