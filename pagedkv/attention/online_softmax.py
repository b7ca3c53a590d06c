"""Online softmax: three running numbers per query that make one pass over the keys enough.

m is the largest score seen, l the sum of e^(score - m), o the sum of e^(score - m) · value. All three refer to the same
m, the base; when m rises, l and o are multiplied by e^(old m - new m), which is at most 1, and the base cancels in o /
l.
(m, l) after Milakov & Gimelshein (arXiv 1805.02867), o after Rabe & Staats (2112.05682) and FlashAttention
(2205.14135).
"""
# ruff: noqa: E741 (l is the papers' name)

import torch

from pagedkv.tensors import without_autocast


class SoftmaxState:
    """m, l [..., num_queries] and o [..., num_queries, head_dim]. `SoftmaxState()` has seen nothing; it fits all."""

    def __init__(self, m=float("-inf"), l=0.0, o=0.0):
        self.m, self.l, self.o = (
            x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch.float32, device="cpu") for x in (m, l, o)
        )

    @classmethod
    @without_autocast
    def of_block(cls, scores, values):
        """The state of one block alone: scores [..., num_queries, num_keys] (-inf where masked), values [..., num_keys,
        head_dim].
        """
        keys = values.shape[-min(2, values.dim())] if values.dim() else 0
        if not keys or scores.shape[-1:] != (keys,):
            raise ValueError(
                f"values must have a row for each key of scores {list(scores.shape)}, one at least, not the shape "
                f"{list(values.shape)}"
            )
        m = scores.amax(-1)
        weights = torch.exp(scores - finite(m).unsqueeze(-1))  # [..., num_queries, num_keys], all at most 1
        return cls(m, weights.sum(-1), weights @ values)

    def update(self, scores, values):
        """Take in one more block. Returns itself."""
        return self.merge(SoftmaxState.of_block(scores, values))

    def merge(self, other):
        """Take in what `other` has seen; neither the order nor the grouping of merges matters. Returns itself.

        Logarithms are natural. A normalised part with its lse is SoftmaxState(lse, torch.ones_like(lse), output); an
        lse in base 2, as some libraries return it, is multiplied by ln 2 first.
        """
        m = torch.maximum(self.m, other.m)
        (l, o), (other_l, other_o) = self.at_base(m), other.at_base(m)
        self.m, self.l, self.o = m, l + other_l, o + other_o
        return self

    @without_autocast
    def at_base(self, m):
        """Return l and o as they are when `m`, at least as large as this state's, is the base."""
        factor = torch.exp(self.m - finite(m))
        return self.l * factor, self.o * factor.unsqueeze(-1)

    def output(self):
        """The attention output o / l [..., num_queries, head_dim]; zeros where nothing was visible."""
        l = self.l.unsqueeze(-1)
        return torch.where(l == 0, 0.0, self.o / l)

    @without_autocast
    def lse(self):
        """log(sum of e^score) [..., num_queries], natural: what a normalised part must carry to be merged; -inf where
        nothing was visible.
        """
        return self.m + torch.log(self.l)


def finite(m):
    """m as a base to subtract: 0 where nothing was seen.

    (-inf) - (-inf) is NaN, but e^(-inf - 0) is 0.
    """
    return torch.where(m == float("-inf"), 0.0, m)
