"""FP8 caches, float8_e4m3fn: numbers taken apart where they are read, made where they are written.

Four bits of exponent, three of mantissa, one NaN and no infinity: the largest is 448. A GPU has no arithmetic for them
outside of its matrix products, so they are turned into float16, which holds them all.
"""

import triton
import triton.language as tl

from pagedkv.attention.triton.launch import as_compute

FP8_MAX = tl.constexpr(448.0)  # the largest float8_e4m3


@triton.jit
def two_e4m3(pairs, ASM: tl.constexpr):
    """The low and the high byte of each int16, float8_e4m3 numbers, as float16."""
    if ASM:  # two pairs at a time: bytes 0 2 1 3, then a conversion for the low ones and one for the high
        low, high = tl.inline_asm_elementwise(
            "{ .reg .b32 t; .reg .b16 a, b; prmt.b32 t, $2, 0, 0x3120; mov.b32 {a, b}, t;"
            " cvt.rn.f16x2.e4m3x2 $0, a; cvt.rn.f16x2.e4m3x2 $1, b; }",
            "=r,=r,r", [pairs], (tl.float16, tl.float16), is_pure=True, pack=2,
        )  # fmt: skip
    else:
        low = as_compute(pairs.to(tl.int8).to(tl.float8e4nv, bitcast=True), tl.float16)
        high = as_compute((pairs >> 8).to(tl.int8).to(tl.float8e4nv, bitcast=True), tl.float16)
    return low, high


@triton.jit
def to_e4m3(x, ROUND: tl.constexpr):
    """Saturate, then round; the interpreter rounds wrongly and stores NaN as a number, so there the three bits of
    mantissa are made here, and of NaN the number that has its bits.
    """
    x = tl.clamp(x, -FP8_MAX, FP8_MAX, tl.PropagateNan.ALL)
    if ROUND:
        bits = x.to(tl.int32, bitcast=True)
        normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000).to(tl.float32, bitcast=True)
        small = (x + 24576.0) - 24576.0  # under 2^-6 the steps are 2^-9, float32's own steps at 1.5 * 2^14
        x = tl.where(x != x, 480.0, tl.where(tl.abs(x) < 0.015625, small, normal))
    return x
