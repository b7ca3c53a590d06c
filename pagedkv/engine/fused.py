"""A Llama for a GPU: what `model` computes in a third of the kernels, so that a step waits for memory, not launches.

Matrices that are multiplied by the same numbers lie in one, and between the products run three kernels: add and norm,
rotate, gate. No gradients.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import linear
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagedkv.attention.triton.launch import Launcher, as_output, dependent_launch, power_of_2
from pagedkv.engine.model import Attend, Llama
from pagedkv.engine.product import fits, product
from pagedkv.sizing import ceil_div


class FusedLlama:
    """Called as the model is, with the same weights: the model's own become views of the merged ones."""

    def __init__(self, model: Llama):
        self.shape, self.dtype, self.model = model.shape, model.dtype, model
        self.qkv, self.gate_up = merge(model, "q", "k", "v"), merge(model, "gate", "up")
        half = torch.arange(self.shape.head_dim // 2, device=model.embed.device, dtype=torch.float64)
        self.turns = self.shape.rope_base ** (-2 * half / self.shape.head_dim)  # a position, in radians

    def __call__(self, tokens: Tensor, positions: Tensor, attend: Attend, last: Tensor | None = None) -> Tensor:
        shape, model, part = self.shape, self.model, None
        angle = positions[:, None] * self.turns
        cos, sin = angle.cos().float(), angle.sin().float()  # [num_tokens, head_dim / 2]
        q_heads, kv_heads = shape.num_q_heads, shape.num_kv_heads
        x = model.embed[tokens]  # [num_tokens, hidden]; what a layer adds to it, `part`, is added at the next norm
        for layer in range(shape.num_layers):
            y = add_and_norm(x, part, model.attention_norm[layer], shape.norm_eps)
            qkv = times(y, self.qkv[layer])[0].unflatten(1, (-1, shape.head_dim))  # [num_tokens, heads, head_dim]
            q, k, v = rotate(qkv, cos, sin, q_heads + kv_heads).split((q_heads, kv_heads, kv_heads), 1)
            part = times(attend(layer, q, k, v).flatten(1), model.o[layer], parts=4)
            y = add_and_norm(x, part, model.ffn_norm[layer], shape.norm_eps)
            y = product(y, self.gate_up[layer], gated=True) if fits(y) else gate(linear(y, self.gate_up[layer]))
            part = times(y, model.down[layer], parts=4)
        if last is not None:
            x, part = x[last], part[:, last]
        return linear(add_and_norm(x, part, model.norm, shape.norm_eps), model.embed)


def merge(model: Llama, *names: str) -> Tensor:
    """[num_layers, all rows, hidden]"""
    weights = [model.get_parameter(name) for name in names]
    merged = torch.cat([weight.detach() for weight in weights], 1)
    for weight, view in zip(weights, merged.split([weight.shape[1] for weight in weights], 1), strict=True):
        weight.data = view
    return merged


def times(x: Tensor, weight: Tensor, parts: int = 1) -> Tensor:
    """x @ weight.T as [parts, num_tokens, rows] to be added up; where matrices are large, all in the first."""
    return product(x, weight, parts=parts).view(parts, len(x), -1) if fits(x) else linear(x, weight)[None]


def add_and_norm(x: Tensor, parts: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """x += each of parts, in place; then x, normed. x [num_tokens, hidden], parts [.., num_tokens, hidden]."""
    num_tokens, hidden = x.shape
    y, count = torch.empty_like(x), 0 if parts is None else len(parts)
    constants = hidden, power_of_2(hidden), count
    _launch(launch_norm, (num_tokens, 1, 1), (x, parts, weight, y), (eps, num_tokens), constants)
    return y


def rotate(qkv: Tensor, cos: Tensor, sin: Tensor, heads: int) -> Tensor:
    """Turn the first `heads` of each token, in place. qkv [num_tokens, all heads, head_dim], cos [.., head_dim / 2]."""
    num_tokens, all_heads, head_dim = qkv.shape
    rows, lanes = 8, power_of_2(head_dim // 2)
    grid = (num_tokens, ceil_div(heads, rows), 1)
    _launch(launch_rotate, grid, (qkv, cos, sin), (), (heads, rows, all_heads * head_dim, head_dim // 2, lanes))
    return qkv


def gate(x: Tensor) -> Tensor:
    """silu(first half) * second half of each row."""
    num_tokens, ffn = x.shape[0], x.shape[1] // 2
    y = x.new_empty(num_tokens, ffn)
    lanes = min(power_of_2(ffn), 1024)
    _launch(launch_gate, (num_tokens, ceil_div(ffn, lanes), 1), (x, y), (), (ffn, lanes))
    return y


def _launch(launcher: Launcher, grid, tensors, numbers, constants) -> None:
    if 0 in grid:
        return
    device, dtypes = tensors[0].get_device(), tuple(tensor is not None and tensor.dtype for tensor in tensors)
    pdl = dependent_launch(device)
    launcher(device, grid, tensors, numbers, (), (*constants, pdl), dtypes, num_warps=4, num_stages=1, launch_pdl=pdl)


@triton.jit(do_not_specialize=["eps", "num_tokens"])
def _norm_kernel(
    x_ptr, part_ptr, weight_ptr, y_ptr, eps, num_tokens, HIDDEN: tl.constexpr, LANES: tl.constexpr,
    PARTS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Grid (tokens)."""
    lanes = tl.arange(0, LANES)
    live, at = lanes < HIDDEN, tl.program_id(0).to(tl.int64) * HIDDEN + lanes
    weight = tl.load(weight_ptr + lanes, live, 0.0).to(tl.float32)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    x = tl.load(x_ptr + at, live, 0.0).to(tl.float32)
    if PARTS:
        for part in tl.static_range(PARTS):
            x += tl.load(part_ptr + part * num_tokens * HIDDEN + at, live, 0.0).to(tl.float32)
        rounded = as_output(x, x_ptr)
        tl.store(x_ptr + at, rounded, live)
        x = rounded.to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(x * x, 0) / HIDDEN + eps)
    tl.store(y_ptr + at, as_output(x * scale * weight, y_ptr), live)


@triton.jit
def _rotate_kernel(
    x_ptr, cos_ptr, sin_ptr, HEADS: tl.constexpr, ROWS: tl.constexpr, TOKEN: tl.constexpr, HALF: tl.constexpr,
    LANES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Grid (tokens, groups of ROWS heads)."""
    token, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, LANES)
    heads = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    live = (heads < HEADS) & (lanes < HALF)[None, :]
    at = x_ptr + token * TOKEN + heads * (2 * HALF) + lanes[None, :]
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    cos = tl.load(cos_ptr + token * HALF + lanes, lanes < HALF, 0.0)[None, :]
    sin = tl.load(sin_ptr + token * HALF + lanes, lanes < HALF, 0.0)[None, :]
    a, b = tl.load(at, live, 0.0).to(tl.float32), tl.load(at + HALF, live, 0.0).to(tl.float32)
    tl.store(at, as_output(a * cos - b * sin, x_ptr), live)
    tl.store(at + HALF, as_output(b * cos + a * sin, x_ptr), live)


@triton.jit
def _gate_kernel(x_ptr, y_ptr, FFN: tl.constexpr, LANES: tl.constexpr, PDL: tl.constexpr):
    """Grid (tokens, pieces of LANES numbers)."""
    token, lanes = tl.program_id(0).to(tl.int64), tl.program_id(1) * LANES + tl.arange(0, LANES)
    at = x_ptr + token * (2 * FFN) + lanes
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    a, b = tl.load(at, lanes < FFN, 0.0).to(tl.float32), tl.load(at + FFN, lanes < FFN, 0.0).to(tl.float32)
    tl.store(y_ptr + token * FFN + lanes, as_output(a / (1 + tl.exp(-a)) * b, y_ptr), lanes < FFN)


launch_norm, launch_rotate, launch_gate = map(Launcher, (_norm_kernel, _rotate_kernel, _gate_kernel))
