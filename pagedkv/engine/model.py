"""A decoder like Llama's, as a few functions with a hole in it: whoever runs it says what attention is.

The model knows nothing of caches, pages or batches of sequences: its tokens lie flat, one after the other, each with
its position. `dense` is attention without a cache, with gradients: it trains the model, and is what the engine is
compared with. `pagedkv.engine.batch.paged` is attention over the paged cache.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from pagedkv.sizing import KVShape

# (layer, q [num_tokens, num_q_heads, head_dim], k, v [num_tokens, num_kv_heads, head_dim]) -> like q
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder; input and output embedding are one matrix [vocab_size, hidden]."""

    vocab_size: int
    num_layers: int
    hidden: int
    ffn: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    rope_base: float = 1e4
    norm_eps: float = 1e-5

    def kv_shape(self, dtype_bytes: int) -> KVShape:
        return KVShape(self.num_layers, self.num_kv_heads, self.head_dim, dtype_bytes)

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of the weights of all layers in one tensor; matrices are [..., out, in]."""
        n, h, d = self.num_layers, self.hidden, self.head_dim
        return {
            "embed": (self.vocab_size, h),
            "attention_norm": (n, h),
            "q": (n, self.num_q_heads * d, h),
            "k": (n, self.num_kv_heads * d, h),
            "v": (n, self.num_kv_heads * d, h),
            "o": (n, h, self.num_q_heads * d),
            "ffn_norm": (n, h),
            "gate": (n, self.ffn, h),
            "up": (n, self.ffn, h),
            "down": (n, h, self.ffn),
            "norm": (h,),
        }


class Llama(nn.Module):
    """Touvron et al., 2023: RMSNorm before attention and before a gated feed-forward layer, rotary positions, grouped
    KV heads (Ainslie et al., 2023). Weights are random until they are loaded or trained.
    """

    def __init__(self, shape: ModelShape, dtype: torch.dtype = torch.float32, device="cpu"):
        super().__init__()
        self.shape = shape
        for name, size in shape.weights().items():
            make, scale = (torch.ones, 1) if name.endswith("norm") else (torch.randn, size[-1] ** -0.5)
            weight = make(size, device="cpu", dtype=torch.float32) * scale  # the same numbers, wherever they go
            self.register_parameter(name, nn.Parameter(weight.to(device, dtype)))

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.dtype

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend, last: Tensor | None = None) -> Tensor:
        """Logits [num_tokens, vocab_size], or [len(last), vocab_size] of the rows `last` only.

        tokens, positions: int64 [num_tokens], of one sequence after the other.
        """
        x, rotate = self.embed[tokens], rotary(positions, self.shape)  # [num_tokens, hidden]
        for layer in range(self.shape.num_layers):
            x = x + self.attention(layer, self.normed(x, self.attention_norm[layer]), rotate, attend)
            x = x + self.feed_forward(layer, self.normed(x, self.ffn_norm[layer]))
        x = x if last is None else x[last]
        return linear(self.normed(x, self.norm), self.embed)

    def attention(self, layer: int, x: Tensor, rotate: Callable[[Tensor], Tensor], attend: Attend) -> Tensor:
        heads = (-1, self.shape.head_dim)  # [num_tokens, heads * head_dim] -> [num_tokens, heads, head_dim]
        q, k, v = (linear(x, weight[layer]).unflatten(-1, heads) for weight in (self.q, self.k, self.v))
        return linear(attend(layer, rotate(q), rotate(k), v).flatten(1), self.o[layer])

    def feed_forward(self, layer: int, x: Tensor) -> Tensor:
        return linear(silu(linear(x, self.gate[layer])) * linear(x, self.up[layer]), self.down[layer])

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight.shape, weight, self.shape.norm_eps)


def rotary(positions: Tensor, shape: ModelShape) -> Callable[[Tensor], Tensor]:
    """Turns each pair (i, i + head_dim / 2) of a head by an angle that grows with the position (Su et al., 2021)."""
    half = torch.arange(shape.head_dim // 2, device=positions.device, dtype=torch.float64)
    angle = positions[:, None, None] * shape.rope_base ** (-2 * half / shape.head_dim)
    cos, sin = angle.cos(), angle.sin()  # [num_tokens, 1, head_dim / 2]

    def rotate(x: Tensor) -> Tensor:  # [num_tokens, heads, head_dim]
        a, b = x.chunk(2, -1)
        c, s = cos.to(x.dtype), sin.to(x.dtype)
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    return rotate


def dense(batch: int = 1) -> Attend:
    """Attention of `batch` whole sequences of equal length to themselves, causal, without a cache."""

    def attend(layer, q, k, v):
        # [batch * length, heads, head_dim] -> [batch, heads, length, head_dim]
        q, k, v = (x.unflatten(0, (batch, -1)).transpose(1, 2) for x in (q, k, v))
        out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out.transpose(1, 2).flatten(0, 1)

    return attend
