"""The Triton backend where layouts are wide and GPUs are old."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from pagedkv.attention import batched, checks, eager  # noqa: E402

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
    ran = subprocess.run([sys.executable, "-c", HEADS_FIRST], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.returncode, ran.stderr[-500:])


def test_a_gpu_without_fp8_instructions_gets_the_torch_backend_or_a_clear_refusal(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    eager.converts_fp8.cache_clear()
    q = SimpleNamespace(is_cuda=True, is_cpu=False, dtype=torch.bfloat16, device="cuda:0")
    eight = SimpleNamespace(dtype=checks.FP8)
    assert eager.pick("auto", q, eight) is batched
    with pytest.raises(TypeError, match="FP8 caches on GPUs of compute capability 8.9"):
        eager.pick("triton", q, eight)
    eager.converts_fp8.cache_clear()
