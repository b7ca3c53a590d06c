"""How the Triton kernels are launched: few variants, no waiting, any stream, and replays of a captured graph with other
lengths.
"""

import sys
from functools import partial
from importlib.util import find_spec
from itertools import product
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    pytest.skip("needs Triton", allow_module_level=True)

from attention_reference import random_batch  # noqa: E402
from private_names import occupy_gpu  # noqa: E402

from pagedkv.attention.options import Options  # noqa: E402
from pagedkv.attention.paged import paged_attention, plan_attention, write_kv  # noqa: E402
from pagedkv.attention.triton import INTERPRETED, decode, launch, prefill, prefill_merge, write  # noqa: E402
from pagedkv.attention.triton import plan as planning  # noqa: E402
from pagedkv.attention.triton.warmup import warmup  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
attend = partial(paged_attention, backend="triton")
BATCHES, LENGTHS = range(1, 258), range(1, 4097)


class Recorder:
    """Stands for a kernel: remembers each launch and runs nothing."""

    def __init__(self):
        self.grids = []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda *arguments, **options: None


def launchers():
    return [
        decode.launch_decode, decode.launch_merge, prefill.launch_prefill, write.launch_write, planning.launch_plan,
        prefill_merge.launch_prefill_merge,
    ]  # fmt: skip


@pytest.fixture
def recorded(monkeypatch):
    for one in launchers():
        monkeypatch.setattr(one, "kernel", Recorder())
        monkeypatch.setattr(one, "compiled", {})
    for module in (decode, write):  # they remember what was compiled
        module.ready.cache_clear()
    yield launchers()
    for module in (decode, write):
        module.ready.cache_clear()


def call_all_three(batch, longest, cache):
    zeros = partial(torch.zeros, device=DEVICE)
    options = Options(longest, scale=1.0)
    q = zeros(batch, 32, 128, dtype=torch.bfloat16)
    tables, lens = zeros(batch, -(-longest // 16), dtype=torch.int32), zeros(batch, dtype=torch.int32)
    decode.decode(q, cache, cache, tables, lens, options, q, None)
    prefill.prefill(q, cache, cache, tables, lens, zeros(batch + 1, dtype=torch.int32), options, q, None)
    write.write(q[:, :8], q[:, 8:16], cache, cache, zeros(batch, dtype=torch.int64), k_scale=None, v_scale=None)


def test_few_variants_serve_every_batch_and_length(recorded):
    cache = torch.zeros(1, 16, 8, 128, dtype=torch.bfloat16, device=DEVICE)
    for batch, longest in {*product(BATCHES, LENGTHS[::400]), *product(BATCHES[::64], LENGTHS[::7])}:
        call_all_three(batch, longest, cache)
    decodes, merges, prefills, writes, _, prefill_merges = (len(one.compiled) for one in recorded)
    assert decodes + merges <= 4 and prefills <= 2 and writes == prefill_merges == 1


@pytest.mark.parametrize("heads", [(32, 8), (32, 1), (8, 8), (71, 1), (128, 1), (160, 2), (128, 128), (200, 1)])
@pytest.mark.parametrize("gpu", [20, 132])
def test_after_the_warm_up_nothing_is_left_to_compile(recorded, heads, gpu, monkeypatch):
    for module in (decode, prefill, sys.modules["pagedkv.attention.triton.warmup"]):
        monkeypatch.setattr(module, "multiprocessors", lambda device: gpu)
    cache = torch.zeros(1, 16, heads[1], 128, dtype=torch.bfloat16, device=DEVICE)
    warmup(cache, cache.clone(), heads[0])
    ready = [set(one.compiled) for one in recorded]
    zeros = partial(torch.zeros, device=DEVICE)
    for batch, longest in product((1, 2, 7, 60, 257, 900), (1, 300, 2500, 4096, 20_000)):
        q = zeros(batch, heads[0], 128, dtype=torch.bfloat16)
        tables, lens = zeros(batch, -(-longest // 16), dtype=torch.int32), zeros(batch, dtype=torch.int32)
        attend(q, cache, cache.clone(), tables, lens)
        attend(
            q,
            cache,
            cache.clone(),
            tables,
            lens,
            query_start_loc=torch.arange(batch + 1, dtype=torch.int32, device=DEVICE),
        )
        new = zeros(batch, heads[1], 128, dtype=torch.bfloat16)
        write_kv(new, new, cache, cache, torch.full((batch,), -1, device=DEVICE), backend="triton")
    assert [set(one.compiled) for one in recorded] == ready


@pytest.mark.parametrize("head_dim", [64, 128])
def test_after_a_warm_up_with_plans_none_is_left_to_compile(recorded, head_dim):
    cache = torch.zeros(1, 16, 8, head_dim, dtype=torch.bfloat16, device=DEVICE)
    warmup(cache, cache.clone(), 32, plans=True)
    ready = [set(one.compiled) for one in recorded]
    for batch, longest, known in product((1, 2, 7, 60, 257), (100, 300, 2500, 20_000), (True, False)):
        lens = torch.zeros(batch, dtype=torch.int32, device=DEVICE)
        lengths = [longest] * batch if known else None
        plan = plan_attention(lens, cache, 32, max_seq_len=longest, lengths=lengths, backend="triton")
        q = torch.zeros(batch, 32, head_dim, dtype=torch.bfloat16, device=DEVICE)
        decode.decode(q, cache, cache.clone(), lens[:, None], lens, Options(longest, scale=1.0), q, None, plan)
    assert [set(one.compiled) for one in recorded] == ready
    assert (
        len(ready[0]) + len(ready[1]) <= 12
    )  # 4 without plans; 3 tiles, a table or none; merges of few parts and many


def test_a_warm_up_leaves_the_caches_alone(monkeypatch):
    for module in ("warmup", "prefill"):  # few programs, for the interpreter
        monkeypatch.setattr(f"pagedkv.attention.triton.{module}.multiprocessors", lambda device: 1)
    caches = [torch.full((2, 4, 2, 16), 7.0, device=DEVICE) for _ in range(2)]
    warmup(*caches, 4, return_lse=True)
    assert all((cache == 7.0).all() for cache in caches)


def test_sinks_are_a_variant_of_their_own_and_are_warmed_up(recorded):
    cache, sinks = torch.zeros(1, 16, 2, 16, device=DEVICE), torch.zeros(4, device=DEVICE)
    warmup(cache, cache.clone(), 4)
    plain = [len(one.compiled) for one in recorded]
    warmup(cache, cache.clone(), 4, sinks=True)
    ready = [len(one.compiled) for one in recorded]
    assert ready == [2 * plain[0], plain[1], 2 * plain[2], *plain[3:]]  # merging partial results is the same
    for starts in (None, torch.arange(3, dtype=torch.int32, device=DEVICE)):
        tables = torch.zeros(2, 20, dtype=torch.int32, device=DEVICE)
        q = torch.zeros(2, 4, 16, device=DEVICE)
        attend(q, cache, cache.clone(), tables, tables[:, 0].contiguous(), query_start_loc=starts, sinks=sinks)
    assert [len(one.compiled) for one in recorded] == ready


def test_a_launch_that_repeats_hands_addresses_to_the_compiled_variant(monkeypatch):
    calls = []
    compiled = SimpleNamespace(function=1, packed_metadata=2, run=lambda *given: calls.append(given))

    class Kernel:
        def __getitem__(self, grid):
            return lambda *given, **options: calls.append("bound") or compiled

    stream = SimpleNamespace(active=SimpleNamespace(get_current_stream=lambda device: 3))
    monkeypatch.setattr(launch, "driver", stream)
    launcher = launch.Launcher(Kernel())
    x = torch.zeros(64, dtype=torch.float32)
    ready = partial(launcher.ready, -1, (4, 1, 1), strides=(16,), constants=(8,), dtypes=(x.dtype,), num_warps=1)
    first, other = ready((7,)), ready((9,))
    direct = (4, 1, 1, 3, 1, 2, None, None, None)
    first(x, None)
    first(x, None)
    assert calls == ["bound", (*direct, x.data_ptr(), None, 7, 16, 8)]
    first(x[1:], None)  # not aligned to 16 bytes
    ready((9,))(x[4:], None)  # the same variant, with another number
    other(x, None)
    assert calls[2:] == ["bound", (*direct, x[4:].data_ptr(), None, 9, 16, 8), "bound"]
    assert len(launcher.compiled) == 1


@pytest.mark.parametrize("num_seqs", [1, 5, 64, 1000])
@pytest.mark.parametrize("longest", [1, 128, 129, 4096, 100_000])
@pytest.mark.parametrize("row_bytes", [32, 128, 256, 1024])
def test_the_splits_of_a_sequence_cover_it(num_seqs, longest, row_bytes):
    tile, stages, split_tokens, num_splits, _ = launch.decode_launch(row_bytes, 8, num_seqs, longest, 132)
    assert split_tokens % tile == 0 and tile * row_bytes <= 16384
    assert (num_splits - 1) * split_tokens < longest <= num_splits * split_tokens
    assert 2 <= stages <= 3


@pytest.mark.parametrize("programs", [1, 7, 148, 250, 5000])
@pytest.mark.parametrize("longest", [1, 511, 5000, 100_000])
def test_a_prefill_is_split_where_programs_are_few_and_keys_many(programs, longest):
    splits = launch.prefill_splits(programs, longest, 264)
    assert 1 <= splits <= launch.MOST_SPLITS and (splits == 1 or longest // splits >= 512)
    assert (splits > 1) == (programs < 250 and longest >= (1024 if programs < 148 else 4096))


@pytest.mark.gpu
def test_a_graph_replays_with_other_lengths_and_tables():
    full = random_batch([900, 700, 300, 1], heads=(8, 2), head_dim=64, dtype=torch.float32, poison=0.0).to("cuda")
    for one in (full.q, full.k_cache, full.v_cache):
        one.normal_()
    stream = torch.cuda.Stream()
    run = partial(attend, full.q, full.k_cache, full.v_cache, full.block_tables, full.seq_lens, max_seq_len=900)
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    for lengths in ([900, 700, 300, 1], [5, 0, 299, 1], [64, 65, 1, 0], [0, 0, 0, 0]):
        full.seq_lens.copy_(torch.tensor(lengths))
        full.block_tables[0, :56] = full.block_tables[0, :56].roll(1)
        graph.replay()
        expected = paged_attention(
            full.q, full.k_cache, full.v_cache, full.block_tables, full.seq_lens, backend="torch"
        )
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_call_runs_on_the_current_stream_and_does_not_wait():
    batch = random_batch([900, 70], heads=(8, 2), head_dim=64, dtype=torch.float32).to("cuda")
    expected = batch.run(attend)
    stream = torch.cuda.Stream()
    q = torch.zeros_like(batch.q)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        occupy_gpu(200_000_000)  # the queries arrive late, on this stream only
        q.copy_(batch.q)
        torch.cuda.set_sync_debug_mode("error")
        try:
            out = attend(q, batch.k_cache, batch.v_cache, batch.block_tables, batch.seq_lens)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert not stream.query()
    stream.synchronize()
    torch.testing.assert_close(out, expected, rtol=0, atol=0)


@pytest.mark.gpu
def test_tensors_on_another_gpu_than_the_current_one_are_served_there():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    batch = random_batch([900, 70], heads=(8, 2), head_dim=64, dtype=torch.float32)
    expected = batch.to("cuda:0").run(attend)
    there = batch.to("cuda:1")
    for _ in range(3):  # the binder's launch, then the handle's
        torch.testing.assert_close(there.run(attend).cpu(), expected.cpu(), rtol=0, atol=0)
    new, slots = torch.randn(1, 2, 64, device="cuda:1"), torch.tensor([5], device="cuda:1")
    for _ in range(2):
        write_kv(new, new, there.k_cache, there.v_cache, slots, backend="triton")
    assert torch.equal(there.k_cache.flatten(0, 1)[5], new[0]) and torch.cuda.current_device() == 0


@pytest.mark.gpu
def test_addresses_beyond_2_to_the_31():
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("needs 24 GB of free GPU memory")
    num_blocks = 2**31 // (16 * 8 * 128) + 8  # elements in each pool: a little over 2^31
    k_cache, v_cache = (torch.zeros(num_blocks, 16, 8, 128, dtype=torch.float16, device="cuda") for _ in range(2))
    blocks = torch.tensor([num_blocks - 1, 0, num_blocks - 3], device="cuda")
    slots = (blocks[:, None] * 16 + torch.arange(16, device="cuda")).flatten()[:40]
    k, v = (torch.randn(40, 8, 128, dtype=torch.float16, device="cuda") for _ in range(2))
    write_kv(k, v, k_cache, v_cache, slots, backend="triton")
    assert torch.equal(k_cache.flatten(0, 1)[slots], k) and torch.equal(v_cache.flatten(0, 1)[slots], v)
    q = torch.randn(40, 32, 128, dtype=torch.float16, device="cuda")
    tables, lens = blocks.int()[None], torch.tensor([40], dtype=torch.int32, device="cuda")
    small = (
        k_cache[blocks].contiguous(),
        v_cache[blocks].contiguous(),
        torch.arange(3, dtype=torch.int32, device="cuda")[None],
        lens,
    )
    starts = torch.tensor([0, 40], dtype=torch.int32, device="cuda")
    assert torch.equal(attend(q[-1:], k_cache, v_cache, tables, lens), attend(q[-1:], *small))
    assert torch.equal(
        attend(q, k_cache, v_cache, tables, lens, query_start_loc=starts), attend(q, *small, query_start_loc=starts)
    )


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_decode_step_compiles_whole_and_the_operators_pass_opcheck():
    batch = random_batch([300, 40], heads=(8, 2), head_dim=64, dtype=torch.float32, poison=0.0).to("cuda")
    slots = torch.tensor([5, 40], device="cuda")
    new = torch.randn(2, 2, 64, device="cuda")

    def step(q, k_cache, v_cache):
        write_kv(new, 2 * new, k_cache, v_cache, slots, backend="triton")
        out, lse = attend(q * 2, k_cache, v_cache, batch.block_tables, batch.seq_lens, return_lse=True)
        return out + 1, lse

    eager_caches, compiled_caches = [(batch.k_cache.clone(), batch.v_cache.clone()) for _ in range(2)]
    expected = step(batch.q, *eager_caches)
    torch.testing.assert_close(torch.compile(step, fullgraph=True)(batch.q, *compiled_caches), expected)
    torch.testing.assert_close(compiled_caches, eager_caches)
    rest = (None, None, None, None, None, None, None, None, True, "triton", False)
    torch.library.opcheck(
        torch.ops.pagedkv.paged_attention, (batch.q, *eager_caches, batch.block_tables, batch.seq_lens, *rest)
    )
    torch.library.opcheck(torch.ops.pagedkv.write_kv, (new, new, *eager_caches, slots, None, None, "triton"))
