"""A call as it runs: check it, pick a backend, allocate the result, launch.

Backends are interchangeable: functions decode, prefill and write that take checked arguments and fill what they are
given, and plan, which shares out a decode. `paged` is the front door to this, `operators` the way in for torch.compile.
"""

from functools import cache, lru_cache
from importlib.util import find_spec
from types import SimpleNamespace

import torch

from pagedkv.arguments import flag, one_of, shown
from pagedkv.attention import checks, torch_backend
from pagedkv.attention.form import form_of
from pagedkv.attention.options import Options
from pagedkv.attention.plan import AttentionPlan
from pagedkv.tensors import is_fp8

BACKENDS = ("auto", "torch", "triton")


def attend(
    q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, options, out, return_lse, plan, backend, validate
):  # fmt: skip
    """`pagedkv.attention.paged.paged_attention`; always returns (out, lse), lse None if it was not asked for."""
    sinks = options.sinks
    try:
        form = form_of(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, out, sinks)
    except AttributeError:  # one of them is no tensor: the checks say which
        form = None
    if form is None or not form.checked:
        checks.shapes_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, out)
    checks.options_attention(options, q, k_cache)
    form.checked = True
    return_lse, validate = flag("return_lse", return_lse), flag("validate", validate)
    if plan is not None and not isinstance(plan, AttentionPlan):
        raise TypeError(f"plan must be one that plan_attention made, or None, not {shown(plan)}")
    run = pick_backend(backend, q, k_cache)
    options = settled(form, options[:-1], plan and plan[:3])
    if sinks is not None:
        options = options._replace(sinks=sinks)
    if validate or q.is_cpu:
        checks.values_attention(q, k_cache, block_tables, seq_lens, query_start_loc, options)
        if plan is not None:
            plan.check_lengths(seq_lens)
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = q.new_empty(q.shape[:2], dtype=torch.float32) if return_lse else None
    if not form.q_shape[0]:
        return out, lse
    if query_start_loc is None:
        run.decode(q, k_cache, v_cache, block_tables, seq_lens, options, out, lse, plan, form)
    else:
        run.prefill(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, options, out, lse)
    return out, lse


@lru_cache(4096)
def settled(form, numbers, planned):
    """The options that backends take, from those that were given, without sinks, and a plan's first three fields."""
    options = Options(*numbers)
    if planned is not None:
        options = AttentionPlan(*planned).bound(form, options)
    return options.resolved(form.capacity, form.q_shape[2])


def store(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale, backend):
    """`pagedkv.attention.paged.write_kv`."""
    checks.shapes_write(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale)
    run = pick_backend(backend, k, k_cache)
    if k.is_cpu:
        checks.values_write(k_cache, slot_mapping)
    run.write(k, v, k_cache, v_cache, slot_mapping, k_scale=k_scale, v_scale=v_scale)


def pick_backend(backend, x, k_cache):
    """Return the backend that runs for `x`: "auto" is Triton's compiled kernels on a GPU, PyTorch everywhere else."""
    lacks_fp8 = is_fp8(k_cache) and x.is_cuda and not converts_fp8(x.device)
    if one_of("backend", backend, BACKENDS) == "auto":
        fit = x.is_cuda and not torch.version.hip and x.dtype != torch.float64 and not lacks_fp8
        compiled = fit and find_triton() and not triton_backend().interpreted
        return triton_backend() if compiled else torch_backend
    if backend == "torch":
        return torch_backend
    if x.dtype == torch.float64:
        raise TypeError("backend 'triton' takes float16, bfloat16 and float32, not float64; backend='torch' does")
    if lacks_fp8:
        raise TypeError(
            "backend 'triton' takes FP8 caches on GPUs of compute capability 8.9 and above; backend='torch' takes "
            "them on all"
        )
    if torch.version.hip:
        raise RuntimeError("backend 'triton' is written for NVIDIA GPUs; backend='torch' runs on AMD's")
    if not find_triton():
        raise ImportError(
            "backend 'triton' needs Triton, which is not installed here (pip install triton; Linux only); "
            "backend='torch' needs nothing"
        )
    if x.is_cpu and not triton_backend().interpreted:
        raise RuntimeError(
            "backend 'triton' runs on CPU tensors only in Triton's interpreter: set TRITON_INTERPRET=1 before the "
            "kernels are imported"
        )
    return triton_backend()


@cache
def converts_fp8(device):
    """Whether the GPU has instructions for float8_e4m3fn."""
    return torch.cuda.get_device_capability(device) >= (8, 9)


@cache
def find_triton():
    """Whether Triton is installed, without importing it."""
    return find_spec("triton") is not None


@cache
def triton_backend():
    """The Triton backend, imported when it is first asked for."""
    from pagedkv.attention import triton as kernels
    from pagedkv.attention.triton.decode import decode
    from pagedkv.attention.triton.plan import plan
    from pagedkv.attention.triton.prefill import prefill
    from pagedkv.attention.triton.write import write

    return SimpleNamespace(decode=decode, prefill=prefill, write=write, plan=plan, interpreted=kernels.INTERPRETED)
