"""What a call of attention asks for besides its tensors, as one value: made at the front door, handed down whole.

`out`, `return_lse`, `backend` and `validate` are none of it: they say where and how, not what.
"""

from typing import NamedTuple


class Options(NamedTuple):
    """As in `pagedkv.attention.paged.paged_attention`; None where left out."""

    max_seq_len: int | None = None  # tokens
    scale: float | None = None
    window: int | None = None  # tokens
    softcap: float | None = None
    k_scale: float | None = None
    v_scale: float | None = None

    def resolved(self, capacity: int, head_dim: int) -> "Options":
        """With lengths that tables with room for `capacity` tokens can have, and the scale of `head_dim`.

        A window as long as any sequence hides nothing, so it may end there; softcap and the scales of FP8 stay None where left out.
        """
        max_seq_len = capacity if self.max_seq_len is None else min(int(self.max_seq_len), capacity)
        scale = head_dim**-0.5 if self.scale is None else float(self.scale)
        window = None if self.window is None else min(int(self.window), max(capacity, 1))
        return Options(max_seq_len, scale, window, self.softcap, self.k_scale, self.v_scale)
