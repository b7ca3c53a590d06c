"""Write the K and V of new tokens into the cache, each token at the slot that its block table gave it."""

from functools import lru_cache

import triton
import triton.language as tl

from pagedkv.attention.triton import INTERPRETED
from pagedkv.attention.triton.fp8 import to_e4m3
from pagedkv.attention.triton.launch import Launcher, compute_dtype, power_of_2
from pagedkv.sizing import ceil_div
from pagedkv.tensors import FP8


@triton.jit(do_not_specialize=["num_slots", "k_scale", "v_scale"])
def write_kernel(
    k_ptr, v_ptr, k_cache, v_cache, slot_mapping, num_slots, k_scale, v_scale,
    k_token, k_head, k_dim, v_token, v_head, v_dim,
    kc_block, kc_slot, kc_head, kc_dim, vc_block, vc_slot, vc_head, vc_dim,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
    COMPUTE: tl.constexpr, FP8: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Grid (tokens, chunks of a token's HEADS * DIM numbers): neighbouring threads move neighbouring numbers, on both
    sides.
    """
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    head, dim = (lane // DIM).to(tl.int64), lane % DIM  # where heads come before tokens, a head's stride is large
    k = tl.load(k_ptr + token * k_token + head * k_head + dim * k_dim, head < HEADS, 0.0).to(COMPUTE)
    v = tl.load(v_ptr + token * v_token + head * v_head + dim * v_dim, head < HEADS, 0.0).to(COMPUTE)
    if FP8:
        k, v = to_e4m3(k.to(tl.float32) / k_scale, ROUND), to_e4m3(v.to(tl.float32) / v_scale, ROUND)
    live = head < tl.where((slot < 0) | (slot >= num_slots), 0, HEADS)  # -1 is padding; none lies past the cache
    block, offset = slot // BLOCK, slot % BLOCK  # 64 bits, as the slot has: a pool may hold more than 2^31 numbers
    tl.store(
        k_cache + block * kc_block + offset * kc_slot + head * kc_head + dim * kc_dim,
        k.to(k_cache.dtype.element_ty),
        live,
    )
    tl.store(
        v_cache + block * vc_block + offset * vc_slot + head * vc_head + dim * vc_dim,
        v.to(v_cache.dtype.element_ty),
        live,
    )


launch_write = Launcher(write_kernel)


@lru_cache(4096)
def ready(shape, k_strides, v_strides, cache_shape, kc_strides, vc_strides, dtype, cache_dtype, scales, device):
    """The launch for tokens and caches of these shapes, strides and dtypes."""
    (num_tokens, num_kv_heads, head_dim), (num_blocks, block_size, *_) = shape, cache_shape
    lanes = min(power_of_2(num_kv_heads * head_dim), 1024)
    return launch_write.ready(
        device, (num_tokens, ceil_div(num_kv_heads * head_dim, lanes), 1), (num_blocks * block_size, *scales),
        (*k_strides, *v_strides, *kc_strides, *vc_strides),
        (num_kv_heads, head_dim, block_size, lanes, compute_dtype(dtype), cache_dtype == FP8, INTERPRETED),
        (dtype, cache_dtype), num_warps=4, num_stages=1,
    )  # fmt: skip


def write(k, v, k_cache, v_cache, slot_mapping, *, k_scale, v_scale):
    """Write k and v [num_tokens, num_kv_heads, head_dim] at slot_mapping [num_tokens]. Arguments are checked."""
    if k.shape[0] == 0:
        return
    launch = ready(
        k.shape, k.stride(), v.stride(), k_cache.shape, k_cache.stride(), v_cache.stride(), k.dtype, k_cache.dtype,
        (float(k_scale or 1.0), float(v_scale or 1.0)), k.get_device(),
    )  # fmt: skip
    launch(k, v, k_cache, v_cache, slot_mapping)
