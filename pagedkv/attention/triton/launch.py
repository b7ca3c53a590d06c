"""How the kernels are launched: a small function picks the settings from the shapes, and a launch that repeats skips
Triton's binder.

Settings depend on the batch in few ways, so that few variants are compiled: numbers that change from call to call are
plain arguments.
"""

import os
from functools import cache, lru_cache
from shutil import which
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.runtime import driver

from pagedkv.attention.triton import INTERPRETED
from pagedkv.sizing import ceil_div
from pagedkv.tensors import FP8

GRID_LIMIT = 65_535  # CUDA's, of a grid's second and third dimension
LOG2_E = tl.constexpr(1.4426950408889634)
MOST_SPLITS = 32  # of the keys of a tile of rows, in a prefill
LOWEST = tl.constexpr(-3.4028234663852886e38)  # float32's: below all scores, and e^(-inf - LOWEST) is 0, not NaN
ROUND = tl.constexpr(INTERPRETED)
NO_C_COMPILER = (
    "backend 'triton' needs a C compiler when a kernel is first launched, and found none: install gcc (apt-get install "
    "gcc) or name one in the variable CC; backend='torch' needs none"
)
DTYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


class DecodeLaunch(NamedTuple):
    tile: int  # tokens per step of the loop
    num_stages: int  # the loop's depth: K and V of num_stages - 1 tiles are on their way at a time
    split_tokens: int  # tokens per split
    num_splits: int  # of the longest sequence; with a plan's table its items, of all sequences
    num_warps: int = 4


@lru_cache(1024)
def decode_launch(row_bytes: int, programs: int, num_seqs: int, longest: int, multiprocessors: int) -> DecodeLaunch:
    """Settings for `num_seqs` sequences of up to `longest` tokens, each served by `programs` programs per split; a K
    row takes `row_bytes`.

    A multiprocessor holds five shallow programs or three deep ones. Enough sequences that are not long fill the GPU as
    they are: shallow if all run at once, else deep. Fewer are cut evenly, into two deep programs per multiprocessor, if
    there is only one or they are short; but into five shallow ones and small pieces where lengths may differ much.
    """
    units = num_seqs * programs
    even, many = 2 * multiprocessors // units, 5 * multiprocessors // units
    if units >= 3 * multiprocessors:
        deep = many == 0 or longest > 2048
        split_tokens = 1024 if longest > 2048 else longest
    elif even >= 2 and (num_seqs == 1 or longest <= 4096):
        deep = longest > 128
        split_tokens = ceil_div(longest, even)
    else:
        deep = False
        split_tokens = max(256, min(1024, longest // 4, longest // many))
    split_tokens = ceil_div(split_tokens, 128) * 128
    tile = max(16, min(64, 16384 // row_bytes))
    num_stages = 3 if deep or row_bytes <= 128 else 2
    return DecodeLaunch(tile, num_stages, split_tokens, ceil_div(longest, split_tokens))


class PrefillLaunch(NamedTuple):
    rows: int  # query positions times heads in a program
    tile: int
    num_warps: int
    num_stages: int
    max_registers: int | None

    def tiles(self, group: int, num_tokens: int, num_seqs: int) -> tuple[int, int]:
        """How many of a KV head's query heads stand in a tile of rows, and how many tiles there are at most: a sequence
        starts on a tile of its own.
        """
        heads = min(group, self.rows)
        return heads, num_tokens // (self.rows // heads) + num_seqs


@lru_cache(1024)
def prefill_launch(
    lanes: int, dtype_bytes: int, kv_heads: int, group: int, num_tokens: int, num_seqs: int, longest: int, places: int
) -> PrefillLaunch:
    """Settings for q of `dtype_bytes` a number and rows of `lanes`; `places`: two programs a multiprocessor.

    The registers of large tiles are rationed so that two programs share a multiprocessor: while one computes its
    softmax, the other multiplies. Small tiles serve sequences of few rows, and programs that are few and not long.
    """
    if dtype_bytes == 4:  # no tensor cores
        return PrefillLaunch(32, 16, 4, 2, None)
    if lanes > 128:
        return PrefillLaunch(64, 32, 4, 2, None)
    small = PrefillLaunch(64, 64, 4, 3, None)
    large = PrefillLaunch(128, 64, 8, 4 if lanes <= 64 else 2, 128)
    heads, tiles = large.tiles(group, num_tokens, num_seqs)
    few = kv_heads * ceil_div(group, heads) * tiles <= places
    return small if num_tokens * group <= 64 * num_seqs or (few and longest < 16_384) else large


def prefill_splits(programs: int, longest: int, places: int) -> int:
    """Into how many pieces each tile of rows cuts its keys, of which there are up to `longest`: so that each place has
    a program, or each four where they have 2,048 keys and more; a piece has at least 512.
    """
    if 4 * programs > 3 * places:
        return 1
    once, often = min(places // programs, longest // 512), min(4 * places // programs, longest // 2048)
    return max(1, min(max(once, often), MOST_SPLITS))


def compute_dtype(dtype, cache_dtype=None):
    """What the kernels multiply in: q's dtype, or float16 for FP8 caches: it holds their numbers, and more of a weight
    than bfloat16.

    It ends at 65,504, which a bfloat16 q must not exceed there.
    """
    if INTERPRETED:
        return tl.float32  # the interpreter keeps bfloat16 as raw bits
    return tl.float16 if cache_dtype == FP8 and dtype == torch.bfloat16 else DTYPES[dtype]


def factors(scale, softcap, k_scale, v_scale):
    """What a kernel multiplies scores by, sums of values, and capped scores: scores end as logarithms to base 2."""
    scale *= k_scale or 1.0
    return scale / softcap if softcap else scale * LOG2_E.value, float(v_scale or 1.0), (softcap or 0.0) * LOG2_E.value


@triton.jit
def as_compute(x, COMPUTE: tl.constexpr):
    """x, from a cache, in the dtype to multiply in. The interpreter reads NaN of float8_e4m3 as 480."""
    if ROUND:
        if x.dtype == tl.float8e4nv:
            x = x.to(tl.float32)
            x = tl.where(tl.abs(x) > 448.0, float("nan"), x)
    return x.to(COMPUTE)


@triton.jit
def as_output(x, out_ptr):
    """x, float32, in the output's dtype. The interpreter cuts bfloat16 off, so there it is rounded to even first."""
    if ROUND:
        if out_ptr.dtype.element_ty == tl.bfloat16:
            bits = x.to(tl.int32, bitcast=True)
            even = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
            x = tl.where(x == x, even, x)
    return x.to(out_ptr.dtype.element_ty)


@triton.jit
def settled(x):
    """x, once it is there: else a product is still under way while the next one starts, and both hold registers."""
    if not ROUND:
        x = tl.inline_asm_elementwise("", "=r,0", [x], dtype=x.dtype, is_pure=False, pack=1)
    return x


@triton.jit
def tanh(x):
    """From the exponential of a number that is not positive, which cannot overflow; near 0, where the difference of two
    numbers near 1 would lose digits, from the first terms of the series.
    """
    e, square = tl.exp(-2 * tl.abs(x)), x * x
    series = x + x * square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315 + square * (62 / 2835))))
    return tl.where(tl.abs(x) < 0.3, series, tl.where(x < 0, e - 1, 1 - e) / (1 + e))


@triton.jit
def with_sink(m, sink):
    """One more logit, whose value is 0, for an online softmax in powers of two: the new m, what the sums so far shrink
    by, and what comes to the norm.
    """
    base = tl.maximum(m, sink)
    return base, tl.exp2(m - base), tl.exp2(sink - base)


def power_of_2(n: int) -> int:
    """The next one, n itself included (Triton's own function for this takes microseconds)."""
    return 1 << (n - 1).bit_length()


@cache
def multiprocessors(device: int) -> int:
    """Of that CUDA device; -1 is the CPU, where the interpreter walks the paths of a large GPU."""
    return 132 if device < 0 else torch.cuda.get_device_properties(device).multi_processor_count


@cache
def no_parts(device: int) -> torch.Tensor:
    """Stands where partial results would, so that a call without them runs the same variant."""
    return torch.empty(1, dtype=torch.float32, device="cpu" if device < 0 else f"cuda:{device}")


@cache
def dependent_launch(device: int) -> bool:
    """Whether a kernel can be launched while the one before it ends (programmatic dependent launch, from compute
    capability 9.0).
    """
    return not INTERPRETED and torch.cuda.get_device_capability(device)[0] >= 9


class Launch:
    """One launch of a kernel, ready but for its tensors.

    To find the compiled variant, Triton's binder looks at every argument, which takes longer than the launch. Here the
    variant's handle is remembered, and run directly the next time: on addresses, so that the driver is not asked about
    them, and without the hooks that Triton offers profilers.
    """

    def __init__(self, launcher, device, grid, numbers, strides, constants, dtypes, options):
        self.launcher, self.device, self.grid, self.options = launcher, device, grid, options
        self.plain = (*numbers, *strides, *constants)
        self.variant = (device, dtypes, strides, constants, *options.values())
        self.compiled = launcher.compiled.get(self.variant)

    def __call__(self, *tensors):
        device, together = self.device, 0
        if device >= 0 and device != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self(*tensors)
        addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
        for address in addresses:
            together |= address or 0
        compiled = self.compiled
        if together % 16:  # which of them are unaligned is left to the binder
            self.bind(tensors)
        elif compiled is None:
            self.compiled = self.launcher.compiled[self.variant] = self.bind(tensors)
        else:
            handles = driver.active.get_current_stream(device), compiled.function, compiled.packed_metadata
            compiled.run(*self.grid, *handles, None, None, None, *addresses, *self.plain)

    def bind(self, tensors):
        """Launch by Triton's own way; returns the compiled variant. Triton from 3.10 on fuses multiplications and
        additions only on request.
        """
        try:
            return self.launcher.kernel[self.grid](*tensors, *self.plain, **self.options, enable_fp_fusion=True)
        except (OSError, RuntimeError) as error:
            if INTERPRETED or any(map(which, (os.environ.get("CC", "gcc"), "gcc", "clang"))):
                raise
            raise RuntimeError(NO_C_COMPILER) from error


class Launcher:
    """Launches one kernel; its arguments are, in this order, tensors, numbers (those in do_not_specialize), strides and
    constants. `dtypes` tells the tensors' types apart, and which are None.
    """

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, {}

    def ready(self, device, grid, numbers, strides, constants, dtypes, **options) -> Launch:
        return Launch(self, device, grid, numbers, strides, constants, dtypes, options)

    def __call__(self, device, grid, tensors, numbers, strides, constants, dtypes, **options):
        self.ready(device, grid, numbers, strides, constants, dtypes, **options)(*tensors)
