"""What a call of attention asks for besides its tensors, as one value: made at the front door, handed down whole.

`out`, `return_lse`, `backend` and `validate` are none of it: they say where and how, not what.
"""

from typing import NamedTuple

from torch import Tensor


class Options(NamedTuple):
    """The options of `pagedkv.attention.paged.paged_attention`, under their names there; None where left out.

    Backends get them resolved, and unpack them in this order. The schema of the operator in `operators` has the same
    order.
    """

    max_seq_len: int | None = None
    """Tokens: an upper bound of all lengths that the host knows."""
    scale: float | None = None
    """What a product of query and key is multiplied by."""
    window: int | None = None
    """Tokens that a query sees, itself included."""
    softcap: float | None = None
    """The bound of the scores."""
    k_scale: float | None = None
    """What the keys of an FP8 cache are multiplied by."""
    v_scale: float | None = None
    """The same for the values."""
    sinks: Tensor | None = None
    """float32 [num_q_heads]: one more logit for each query head, with no value."""

    def resolved(self, capacity: int, head_dim: int) -> "Options":
        """With lengths that tables with room for `capacity` tokens can have, and the scale of `head_dim`.

        An upper bound is no use beyond that room, and a window as long as any sequence hides nothing: both may end
        there. The soft cap and the scales of FP8 stay None where they were left out, since a kernel without them is
        another one.

        Takes checked options; returns new ones.
        """
        max_seq_len = capacity if self.max_seq_len is None else min(int(self.max_seq_len), capacity)
        scale = head_dim**-0.5 if self.scale is None else float(self.scale)
        window = None if self.window is None else min(int(self.window), max(capacity, 1))
        numbers = self.softcap, self.k_scale, self.v_scale
        if numbers != (None, None, None):  # a microsecond that a call without them is spared
            numbers = (x if x is None else float(x) for x in numbers)
        return Options(max_seq_len, scale, window, *numbers, self.sinks)
