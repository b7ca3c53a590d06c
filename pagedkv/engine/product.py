"""The product of a few tokens with a large matrix, for decode on a GPU: as fast as the matrix can be read.

What the matrix is multiplied by comes from the kernel before this one, the matrix does not: it is asked for from memory
while that kernel still runs. Each program reads some rows of the matrix; where those are few, a share of their length,
and the sums are added up by whoever reads them.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.compiler.compiler import max_shared_mem
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagedkv.attention.triton import INTERPRETED
from pagedkv.attention.triton.launch import Launcher, as_output, compute_dtype, dependent_launch, power_of_2
from pagedkv.sizing import ceil_div

MOST_TOKENS = 64
STEP = tl.constexpr(128)  # numbers of a row that a program multiplies at a time
LINE = tl.constexpr(64)  # numbers of 16 bits that memory hands out at a time


def fits(x: Tensor) -> bool:
    """Whether `product` is the better way for x [num_tokens, length]."""
    return 0 < len(x) <= MOST_TOKENS and x.element_size() == 2 and x.shape[1] % 512 == 0


def product(x: Tensor, weight: Tensor, gated: bool = False, parts: int = 1) -> Tensor:
    """x @ weight.T [num_tokens, rows]; gated: silu of the first half of that times the second, [num_tokens, rows / 2].

    With parts > 1, float32 [parts, num_tokens, rows] whose sum it is. x [num_tokens, length], weight [rows, length].
    """
    (num_tokens, length), rows = x.shape, weight.shape[0] >> gated
    tile = 64 >> gated  # as measured on an H200; a gated program reads two tiles
    y = x.new_empty(parts, num_tokens, rows, dtype=torch.float32 if parts > 1 else x.dtype)
    device = x.get_device()
    pdl = dependent_launch(device)
    launch_product(
        device, (ceil_div(rows, tile), parts, 1), (x, weight, y), (num_tokens,), (),
        (length, rows, max(16, power_of_2(num_tokens)), tile, parts, gated, compute_dtype(x.dtype),
         not INTERPRETED, pdl),
        (x.dtype, y.dtype), num_warps=4, num_stages=depth(device), launch_pdl=pdl,
    )  # fmt: skip
    return y if parts > 1 else y[0]


@cache
def depth(device: int) -> int:
    """Of the loop: as many steps are on their way at a time as have room in a program's shared memory, up to four."""
    room = 2**17 if device < 0 else max_shared_mem(device)
    return min(4, room // (2 * 64 * STEP.value * 2))


@triton.jit(do_not_specialize=["num_tokens"])
def _product_kernel(
    x_ptr, weight_ptr, y_ptr, num_tokens, LENGTH: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr,
    TILE: tl.constexpr, PARTS: tl.constexpr, GATED: tl.constexpr, COMPUTE: tl.constexpr, ASM: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Grid (tiles of rows, parts)."""
    SHARE: tl.constexpr = LENGTH // PARTS
    rows, tokens, steps = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, TOKENS), tl.arange(0, STEP)
    first = tl.program_id(1) * SHARE
    live = (rows < ROWS)[:, None]
    weight_at = weight_ptr + rows.to(tl.int64)[:, None] * LENGTH + first
    if ASM:
        for at in tl.static_range(0, SHARE, STEP):
            lines = weight_at + at + tl.arange(0, STEP // LINE)[None, :] * LINE
            _ask(lines, live)
            if GATED:
                _ask(lines + ROWS * LENGTH, live)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    x_at = x_ptr + tokens[:, None] * LENGTH + first + steps[None, :]
    here = (tokens < num_tokens)[:, None]
    weight_at += steps[None, :]
    y, gate = tl.zeros([TOKENS, TILE], tl.float32), tl.zeros([TOKENS, TILE], tl.float32)
    for at in range(0, SHARE, STEP):
        x = tl.load(x_at + at, here, 0.0).to(COMPUTE)
        weight = tl.load(weight_at + at, live, 0.0).to(COMPUTE)
        if GATED:
            gate = tl.dot(x, tl.trans(weight), gate)
            weight = tl.load(weight_at + at + ROWS * LENGTH, live, 0.0).to(COMPUTE)
        y = tl.dot(x, tl.trans(weight), y)
    if GATED:
        y = gate / (1 + tl.exp(-gate)) * y
    y_at = y_ptr + (tl.program_id(1) * num_tokens + tokens[:, None]) * ROWS + rows[None, :]
    tl.store(y_at, as_output(y, y_ptr), here & (rows < ROWS)[None, :])


@triton.jit
def _ask(lines, live):
    """Have what stands there on its way to the L2 cache, and do not wait for it."""
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.ne.b32 p, $2, 0; @p prefetch.global.L2 [$1]; mov.u32 $0, 0; }",
        "=r,l,r", [lines, live.to(tl.int32)], tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


launch_product = Launcher(_product_kernel)
