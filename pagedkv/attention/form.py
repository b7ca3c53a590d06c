"""What a call looks like: all that its checks and its launches depend on, and nothing of what its tensors hold.

Calls of one form come by the thousand, a layer after the other. What is found out for the first serves the rest.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch


@dataclass(eq=False, slots=True)
class Form:
    """Calls that look alike have the same object, so that it is compared and hashed in no time."""

    q_shape: torch.Size
    q_strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    cache_shape: torch.Size
    k_strides: tuple[int, ...]
    cache_dtype: torch.dtype
    k_device: torch.device
    v_shape: torch.Size
    v_strides: tuple[int, ...]
    v_dtype: torch.dtype
    v_device: torch.device
    table_shape: torch.Size
    table_strides: tuple[int, ...]
    table_dtype: torch.dtype
    table_device: torch.device
    lens_shape: torch.Size
    lens_strides: tuple[int, ...]
    lens_dtype: torch.dtype
    lens_device: torch.device
    starts: tuple | None
    """Of query_start_loc and of the two below: shape, strides, dtype and device; None where there is none."""
    out: tuple | None
    sinks: tuple | None
    checked: bool = False
    """Whether `checks.shapes_attention` found nothing wrong with it."""

    @property
    def capacity(self) -> int:
        """Tokens that a row of the tables has room for."""
        return self.table_shape[1] * self.cache_shape[1]


_form = lru_cache(4096)(Form)


def form_of(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, out, sinks) -> Form:
    """The form of a call; AttributeError where one of these is no tensor. Written out, since every call pays for it."""
    return _form(
        q.shape, q.stride(), q.dtype, q.device,
        k_cache.shape, k_cache.stride(), k_cache.dtype, k_cache.device,
        v_cache.shape, v_cache.stride(), v_cache.dtype, v_cache.device,
        block_tables.shape, block_tables.stride(), block_tables.dtype, block_tables.device,
        seq_lens.shape, seq_lens.stride(), seq_lens.dtype, seq_lens.device,
        _look(query_start_loc), _look(out), _look(sinks),
    )  # fmt: skip


def _look(tensor):
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
