"""The physical side of a paged KV cache: for each layer one tensor of keys and one of values, cut into blocks.

It knows slots and block ids, and nothing of sequences: the tables say whose they are. Each layer has one slot more than
its blocks, at the end, where writes to slot -1 (padding) land unseen: so a write is one indexed operation that needs no
mask.
"""

import re
from collections.abc import Iterable

import torch

from pagedkv.arguments import flag, listed, shown, whole_number
from pagedkv.sizing import BLOCK_SIZE, MAX_BLOCK_SIZE, MAX_BLOCKS, KVShape
from pagedkv.tensors import CACHE_DTYPES, here, lasting


class PagedKVCache:
    """K and V of `num_blocks * block_size` token slots in every layer, zero at first.

    `k[layer]` and `v[layer]` are [num_blocks, block_size, num_kv_heads, head_dim]; slot = block id * block_size +
    offset.
    `dtype` has as many bytes as `shape` says: float8_e4m3fn for 1 (written as it is; `write_kv` scales and saturates).
    Values of slots are checked on a CPU; on a GPU that would wait for the device, so it is done only with
    `validate=True`. Raises MemoryError where the device has no room for so many blocks.
    """

    @lasting
    def __init__(
        self,
        shape: KVShape,
        num_blocks: int,
        block_size: int = BLOCK_SIZE,
        device="cpu",
        dtype: torch.dtype = torch.float16,
    ):
        if not isinstance(shape, KVShape):
            raise TypeError(f"shape must be a KVShape, not {shown(shape)}")
        if dtype not in CACHE_DTYPES:
            raise TypeError(f"dtype must be one of {', '.join(map(str, CACHE_DTYPES))}, not {shown(dtype)}")
        if dtype.itemsize != shape.dtype_bytes:
            raise ValueError(
                f"dtype must have the {shape.dtype_bytes} bytes of shape.dtype_bytes, not {dtype} with {dtype.itemsize}"
            )
        self.shape = shape
        self.num_blocks = whole_number("num_blocks", num_blocks, 1, MAX_BLOCKS)
        self.block_size = whole_number("block_size", block_size, 1, MAX_BLOCK_SIZE)
        self.num_slots = self.num_blocks * self.block_size
        token, device = (shape.num_kv_heads, shape.head_dim), here(device)
        numbers = 2, shape.num_layers, self.num_slots + 1, *token
        try:
            self._slots = torch.zeros(numbers, dtype=dtype, device=device)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and not re.search("CPUAlloc|overflow", str(error)):
                raise
            gb = self.num_slots * shape.bytes_per_token / 1e9
            wanted = f"{self.num_blocks:,} of {self.block_size} tokens take {gb:,.1f} GB"
            raise MemoryError(f"num_blocks must be as many as {device} has memory for; {wanted}") from None
        self._blocks = self._slots[:, :, :-1].view(2, shape.num_layers, self.num_blocks, self.block_size, *token)
        self.k, self.v = self._blocks  # each [num_layers, num_blocks, block_size, num_kv_heads, head_dim]

    @property
    def dtype(self) -> torch.dtype:
        return self._slots.dtype

    @property
    def device(self) -> torch.device:
        return self._slots.device

    @torch.no_grad()
    def write(
        self, layer: int, k: torch.Tensor, v: torch.Tensor, slot_mapping: torch.Tensor, validate: bool = False
    ) -> None:
        """Store K and V of some tokens, each [num_tokens, num_kv_heads, head_dim], in the slots of `slot_mapping`
        (int64 [num_tokens]).

        A slot of -1 is padding: its token is skipped. Of tokens that name the same slot one is stored, which one is not
        defined.
        Raises TypeError or ValueError, writing nothing, for a wrong shape, dtype, device or slot.
        """
        layer = whole_number("layer", layer, 0, self.shape.num_layers - 1)
        slots = self._checked_slots("slot_mapping", slot_mapping, -1, validate)
        for name, tensor in (("k", k), ("v", v)):
            if not isinstance(tensor, torch.Tensor) or tensor.dtype != self.dtype:
                raise TypeError(f"{name} must be a {self.dtype} tensor, not {getattr(tensor, 'dtype', type(tensor))}")
            if tensor.device != self.device:
                raise ValueError(f"{name} must be on {self.device}, not {tensor.device}")
            if tensor.shape != (len(slots), *self._slots.shape[3:]):
                raise ValueError(f"{name} must be {[len(slots), *self._slots.shape[3:]]}, not {list(tensor.shape)}")
        self._slots[0, layer][slots] = k
        self._slots[1, layer][slots] = v

    def gather(
        self, layer: int, token_slots: torch.Tensor | list[int], validate: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of the tokens in these slots, in this order, copied: each [num_tokens, num_kv_heads, head_dim]."""
        layer = whole_number("layer", layer, 0, self.shape.num_layers - 1)
        slots = self._checked_slots("token_slots", token_slots, 0, validate)
        return self._slots[0, layer].index_select(0, slots), self._slots[1, layer].index_select(0, slots)

    def copy_blocks(self, pairs: Iterable[tuple[int, int]], source: "PagedKVCache | None" = None) -> None:
        """Copy whole blocks in every layer, [(source, destination), ...], with the outcome of copying one pair after
        the other; from another cache of the same shape, on whatever device, if `source` is given.
        """
        if source is not None and not isinstance(source, PagedKVCache):
            raise TypeError(f"source must be a PagedKVCache or None, not {shown(source)}")
        kind = (self.shape, self.block_size, self.dtype)
        if source is not None and (source.shape, source.block_size, source.dtype) != kind:
            raise ValueError(f"source must be a cache of {self.shape}, blocks of {self.block_size} and {self.dtype}")
        other = source is not None and source is not self
        num_sources = source.num_blocks if other else self.num_blocks
        origin: dict[int, int] = {}
        for pair in listed("pairs", pairs, "(source, destination)"):
            pair = listed("pairs", pair, "(source, destination)")
            if len(pair) != 2:
                raise ValueError(f"pairs must be an iterable of (source, destination), not hold {shown(pair)}")
            first, destination = (
                whole_number("pairs", block_id, 0, number - 1)
                for block_id, number in zip(pair, (num_sources, self.num_blocks), strict=True)
            )
            origin[destination] = first if other else origin.get(first, first)
        if origin:
            copied = (source if other else self)._gathered(list(origin.values()), self.device)
            self._blocks[:, :, torch.tensor(list(origin), device=self.device)] = copied

    def _gathered(self, blocks: list[int], device: torch.device, staged: bool | None = None) -> torch.Tensor:
        """K and V of these blocks on `device`, [2, num_layers, blocks, block_size, num_kv_heads, head_dim].

        Between the host and a GPU they travel `staged`: gathered into one tensor, and through pinned memory in one
        copy. The way to the host ends when that is done; the way to the GPU is queued on its stream.
        """
        index = torch.tensor(blocks, device=self.device)
        if not (self.device.type != device.type if staged is None else staged):
            return self._blocks[:, :, index].to(device)
        shape, pinned = (*self._blocks.shape[:2], len(blocks), *self._blocks.shape[3:]), torch.cuda.is_available()
        host = torch.empty(shape, dtype=self.dtype, device="cpu", pin_memory=pinned)
        if self.device.type == "cpu":  # as bytes: not every operator takes FP8
            torch.index_select(self._blocks.view(torch.uint8), 2, index, out=host.view(torch.uint8))
            return host.to(device, non_blocking=pinned)
        host.copy_(self._blocks[:, :, index], non_blocking=pinned)
        if pinned:
            torch.cuda.current_stream(self.device).synchronize()
        return host

    def _checked_slots(self, name: str, slots: torch.Tensor | list[int], minimum: int, validate: bool) -> torch.Tensor:
        """`slots` as an int64 tensor [num_tokens] on the cache's device."""
        if not isinstance(slots, torch.Tensor):
            slots = [whole_number(name, slot, minimum, self.num_slots - 1) for slot in listed(name, slots, "slots")]
            return torch.tensor(slots, dtype=torch.int64, device=self.device)
        if slots.dtype != torch.int64:
            raise TypeError(f"{name} must be int64, not {slots.dtype}")
        if slots.dim() != 1:
            raise ValueError(f"{name} must have one dimension, not the shape {list(slots.shape)}")
        if slots.device != self.device:
            raise ValueError(f"{name} must be on {self.device}, not {slots.device}")
        if len(slots) and (flag("validate", validate) or slots.device.type == "cpu"):
            low, high = slots.min().item(), slots.max().item()
            if low < minimum or high >= self.num_slots:
                raise ValueError(
                    f"{name} must be from {minimum} to {self.num_slots - 1}, not {low if low < minimum else high}"
                )
        return slots
