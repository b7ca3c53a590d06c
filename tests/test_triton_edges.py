"""The Triton backend where layouts are wide and GPUs are old."""

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from pagedkv.attention import checks, dispatch, torch_backend  # noqa: E402
from pagedkv.attention.paged import paged_attention  # noqa: E402
from pagedkv.attention.triton import INTERPRETED  # noqa: E402

HEADS_FIRST = """
import torch
from pagedkv.attention.paged import write_kv
step = 2**29                                             # elements from head to head: head 4 lies 2^31 elements on
pool = torch.empty(4 * step + 64, dtype=torch.float16)   # committed page by page, as it is touched
cache = pool.as_strided((1, 4, 5, 16), (64, 16, step, 1))
new = torch.arange(80, dtype=torch.float16).view(1, 5, 16)
write_kv(new, new, cache, cache.clone(), torch.tensor([3]), backend="triton")
assert torch.equal(cache[0, 3], new[0])
"""


def test_a_cache_with_heads_far_apart_is_written_beyond_two_to_the_31():
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 8 << 30:
        pytest.skip("needs 4 GiB of address space that is hardly touched; this machine is short of memory")
    ran = subprocess.run(
        [sys.executable, "-c", HEADS_FIRST], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr[-500:])


def test_a_gpu_without_fp8_instructions_gets_the_torch_backend_or_a_clear_refusal(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    dispatch.converts_fp8.cache_clear()
    q = SimpleNamespace(is_cuda=True, is_cpu=False, dtype=torch.bfloat16, device="cuda:0")
    eight = SimpleNamespace(dtype=checks.FP8)
    assert dispatch.pick_backend("auto", q, eight) is torch_backend
    with pytest.raises(TypeError, match="FP8 caches on GPUs of compute capability 8.9"):
        dispatch.pick_backend("triton", q, eight)
    dispatch.converts_fp8.cache_clear()


def test_a_gpu_of_another_maker_gets_the_torch_backend_or_a_clear_refusal(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    q, cache = (
        SimpleNamespace(is_cuda=True, is_cpu=False, dtype=torch.bfloat16, device="cuda:0"),
        SimpleNamespace(dtype=torch.bfloat16),
    )
    assert dispatch.pick_backend("auto", q, cache) is torch_backend
    with pytest.raises(RuntimeError, match="backend 'triton' is written for NVIDIA GPUs"):
        dispatch.pick_backend("triton", q, cache)


def test_more_programs_than_a_grid_takes_are_refused_in_a_sentence():
    zeros = partial(torch.zeros, device="cpu" if INTERPRETED else "cuda")
    cache, q = zeros(1, 16, 1, 16), zeros(65_536, 128, 16)
    lens, tables = zeros(65_536, dtype=torch.int32), zeros(65_536, 0, dtype=torch.int32)
    with pytest.raises(ValueError, match="seq_lens must have at most 65535 sequences for backend 'triton', not 65536"):
        paged_attention(q, cache, cache, tables, lens, backend="triton")
    starts = torch.tensor([0, len(q)], dtype=torch.int32, device=q.device)
    with pytest.raises(
        ValueError, match="q must have fewer tokens for backend 'triton': at most 65535 tiles of 1, not 65537"
    ):
        paged_attention(q, cache, cache, tables[:1], lens[:1], query_start_loc=starts, backend="triton")


def test_an_fp8_cache_with_odd_strides_and_a_head_dim_between_powers_of_two():
    device = "cpu" if INTERPRETED else "cuda"
    cache = torch.randn(2, 16, 1, 81, device=device).to(torch.float8_e4m3fn)[..., :80]
    q, tables = torch.randn(1, 2, 80, device=device), torch.tensor([[1, 0]], dtype=torch.int32, device=device)
    one, two = (
        paged_attention(q, cache, cache, tables, torch.tensor([20], dtype=torch.int32, device=device), backend=backend)
        for backend in ("triton", "torch")
    )
    torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-3)
