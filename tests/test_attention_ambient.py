"""The settings of the process that a call runs in reach no result: autocast, default device and dtype, modes."""

from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from attention_reference import random_batch  # noqa: E402

from pagedkv.attention.online_softmax import SoftmaxState  # noqa: E402
from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402
from pagedkv.attention.reference import attention, blockwise_attention  # noqa: E402
from pagedkv.block_pool import BlockPool  # noqa: E402
from pagedkv.block_table import BlockTable  # noqa: E402
from pagedkv.device_tables import DeviceBlockTables, pack_block_tables  # noqa: E402
from pagedkv.kv_cache import PagedKVCache  # noqa: E402
from pagedkv.sizing import KVShape  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def set_for_a_while(set_it, value, before):
    set_it(value)
    try:
        yield
    finally:
        set_it(before)


STATES = {
    "autocast to bfloat16": partial(torch.autocast, DEVICE, dtype=torch.bfloat16),
    "autocast to float16": partial(torch.autocast, DEVICE, dtype=torch.float16),
    "autocast of the CPU": partial(torch.autocast, "cpu"),
    "default device": partial(set_for_a_while, torch.set_default_device, "meta", None),
    "device context": partial(torch.device, "meta"),
    "default dtype": partial(set_for_a_while, torch.set_default_dtype, torch.float64, torch.float32),
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
    "deterministic": partial(set_for_a_while, torch.use_deterministic_algorithms, True, False),
}
CALLS = {}


def call(make):
    """Register what is to be called in a state; `make` prepares it outside."""
    CALLS[make.__name__] = make
    return make


def triton_only_where_it_is(backend):
    if backend == "triton" and find_spec("triton") is None:
        pytest.skip("needs Triton")


def batch(num_queries=None, dtype=torch.float32):
    one = random_batch([5, 20, 0], num_queries=num_queries, heads=(4, 2), dtype=dtype, poison=0.0).to(DEVICE)
    one.q.requires_grad_()
    return one


def attend(num_queries, dtype, backend):
    options = dict(return_lse=True, softcap=5.0, window=12, backend=backend)
    return partial(batch(num_queries, dtype).run, paged_attention, **options)


for one_backend in ("torch", "triton"):
    for one_dtype in (torch.float32, torch.float16, torch.bfloat16):
        rest = f"{one_backend} {str(one_dtype)[6:]}"
        CALLS[f"decode {rest}"] = partial(attend, None, one_dtype, one_backend)
        CALLS[f"prefill {rest}"] = partial(attend, [2, 9, 1], one_dtype, one_backend)

    def write(backend, dtype):
        caches = [torch.zeros(3, 4, 2, 16, dtype=dtype, device=DEVICE) for _ in range(2)]
        new, slots = torch.randn(3, 2, 16, device=DEVICE, requires_grad=True), torch.tensor([7, -1, 2], device=DEVICE)
        scales = {} if dtype == torch.float32 else dict(k_scale=0.5, v_scale=2.0)

        def run():
            write_kv(new, new, *caches, slots, backend=backend, **scales)
            return [cache.float() for cache in caches]

        return run

    CALLS[f"write {one_backend}"] = partial(write, one_backend, torch.float32)
    CALLS[f"write fp8 {one_backend}"] = partial(write, one_backend, torch.float8_e4m3fn)


@call
def standard_attention():
    one = batch()
    return lambda: attention(one.q[:1], one.keys[0], one.values[0])


@call
def standard_attention_in_half_precision():
    one = batch(dtype=torch.float16)
    return lambda: attention(one.q[:1], one.keys[0], one.values[0])


@call
def attention_block_by_block():
    one = batch()
    return lambda: blockwise_attention(one.q[1:2], one.k_cache, one.v_cache, one.block_tables[1], 20)


@call
def softmax_state():
    scores, values = torch.randn(2, 3, 8, device=DEVICE).half(), torch.randn(2, 8, 16, device=DEVICE).half()

    def run():
        nothing = SoftmaxState()
        state = SoftmaxState().update(scores, values).merge(SoftmaxState.of_block(scores + 1, values)).merge(nothing)
        return state.output(), state.lse(), nothing.output(), nothing.lse(), nothing.m, *state.at_base(state.m + 1)

    return run


@call
def paged_kv_cache():
    k = torch.randn(3, 2, 8, device=DEVICE, requires_grad=True)
    slots = torch.tensor([9, 0, -1], device=DEVICE)

    def run():
        cache = PagedKVCache(KVShape(2, 2, 8, dtype_bytes=4), 4, 4, DEVICE, torch.float32)
        cache.write(1, k, -k, slots)
        cache.copy_blocks([(2, 3)])
        return cache.k, cache.v, *cache.gather(1, [9, 0, 13])

    return run


def tables():
    pool = BlockPool(8, 4)
    both = [BlockTable(pool) for _ in range(2)]
    for table, tokens in zip(both, (5, 2), strict=True):
        table.append(tokens)
    return both


@call
def packed_tables():
    both = tables()
    return lambda: pack_block_tables(both)


@call
def mirrored_tables():
    both = tables()
    return lambda: DeviceBlockTables(3, 4, DEVICE).update(dict(enumerate(both)))


@pytest.mark.parametrize("name", CALLS)
def test_no_state_of_the_process_reaches_a_result(name):
    if "triton" in name:
        triton_only_where_it_is("triton")
    expected = None
    for state, enter in {"none": nullcontext, **STATES}.items():
        torch.manual_seed(0)
        run = CALLS[name]()
        with enter():
            got = run()
        got = [got] if isinstance(got, torch.Tensor) else got
        expected = expected or got
        for a, b in zip(got, expected, strict=True):
            assert (a.dtype, a.device) == (b.dtype, b.device), state
            assert torch.equal(a, b), state


@pytest.mark.thorough
def test_a_warm_up_runs_in_all_states_at_once(monkeypatch):
    triton_only_where_it_is("triton")
    from pagedkv.attention.triton.warmup import warmup

    monkeypatch.setattr("pagedkv.attention.triton.warmup.multiprocessors", lambda device: 1)
    caches = [torch.full((2, 4, 2, 16), 7.0, device=DEVICE) for _ in range(2)]
    with ExitStack() as states:
        for enter in STATES.values():
            states.enter_context(enter())
        warmup(*caches, 4, return_lse=True)
    assert all((cache == 7.0).all() for cache in caches)


@pytest.mark.parametrize("enter", STATES.values(), ids=STATES)
def test_what_is_made_in_a_state_is_used_outside(enter):
    both, k = tables(), torch.ones(1, 2, 8, device=DEVICE)
    with enter():
        cache, mirror = (
            PagedKVCache(KVShape(1, 2, 8, dtype_bytes=4), 4, 4, DEVICE, torch.float32),
            DeviceBlockTables(2, 4),
        )
        mirror.update({0: both[0]})
    cache.write(0, k, k, torch.tensor([3], device=DEVICE))
    assert cache.gather(0, [3])[0].equal(k)
    assert mirror.update(dict(enumerate(both)))[:, :2].equal(pack_block_tables(both))


@pytest.mark.parametrize("backend", ["auto", "torch", "triton"])
@pytest.mark.parametrize("starts", [None, [0, 1]], ids=["decode", "prefill"])
@pytest.mark.parametrize(
    "dtype, right", [(torch.float32, 1.6), (torch.float16, 1.5996), (torch.bfloat16, 1.6015625)], ids=str
)
def test_the_mean_of_five_values_under_autocast(backend, starts, dtype, right):
    triton_only_where_it_is(backend)
    v = torch.zeros(3, 4, 1, 16)
    v[1], v[2] = 1, 2
    q, k, v = (x.to(DEVICE, dtype) for x in (torch.ones(1, 1, 16), torch.zeros(3, 4, 1, 16), v))
    table, length, starts = (
        None if x is None else torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in ([[2, 0]], [5], starts)
    )
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        out = paged_attention(q, k, v, table, length, query_start_loc=starts, backend=backend)
    assert out.dtype == dtype and (out.float() - right).abs().max() < 1e-4


def test_a_cache_takes_no_part_in_gradients():
    cache = PagedKVCache(KVShape(1, 2, 8, dtype_bytes=4), 4, 4, dtype=torch.float32)
    k = torch.ones(1, 2, 8, requires_grad=True)
    cache.write(0, k, k, torch.tensor([3]))
    assert not cache.k.requires_grad and not cache.gather(0, [3])[0].requires_grad
