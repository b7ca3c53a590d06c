"""How many: the bytes that K and V of a token take, and the blocks that tokens fill.

The bytes of a token are the only thing about a model that memory management needs.
Most models keep one K and one V vector for each KV head, in every layer (`KVShape`). Query heads do not count: with
grouped queries several of them read the same KV head. Some keep less: layers with a window forget old tokens
(`WindowedShape`), latent attention keeps one vector for all heads (`LatentShape`). `model_config` tells which it is.
"""

from dataclasses import dataclass, fields

from pagedkv.arguments import listed, whole_number

BLOCK_SIZE = 16  # tokens in a block, where nothing else is said
MAX_BLOCK_SIZE = 2**20
MAX_BLOCKS = 2**31 - 1  # a packed table holds int32


class _Layers:
    """What every shape answers, from its `num_layers`, `windows` and `bytes_per_token`."""

    @property
    def growth(self) -> int:
        """Bytes of one more token when all windows are full: a layer with a window then drops one for each it takes."""
        return self.bytes_per_token // self.num_layers * self.windows.count(None)

    def bytes_for(self, num_tokens: int) -> int:
        """Bytes of one sequence of `num_tokens` tokens."""
        n = whole_number("num_tokens", num_tokens)
        kept = sum(n if window is None else min(n, window) for window in self.windows)
        return self.bytes_per_token // self.num_layers * kept


class _AlikeLayers(_Layers):
    """All layers keep all tokens: a number of tokens takes the same bytes in one sequence and in several."""

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, whole_number(field.name, getattr(self, field.name), 1, 2**20))

    @property
    def windows(self) -> tuple[None, ...]:
        return (None,) * self.num_layers

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block of `block_size` tokens, all layers together."""
        return whole_number("block_size", block_size, 1) * self.bytes_per_token

    def tokens_in(self, num_bytes: int) -> int:
        """How many whole tokens fit in `num_bytes` bytes."""
        return whole_number("num_bytes", num_bytes) // self.bytes_per_token


@dataclass(frozen=True)
class KVShape(_AlikeLayers):
    """The K and V of one token: [num_layers, 2, num_kv_heads, head_dim] numbers of `dtype_bytes` bytes (2 for fp16 and
    bf16, 1 for fp8).
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype_bytes: int = 2

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype_bytes


@dataclass(frozen=True)
class LatentShape(_AlikeLayers):
    """Multi-head latent attention: a layer keeps one vector of `latent_dim` numbers, from which it computes K and V of
    every head, and `rope_dim` numbers that hold the position. No factor 2, and no number of heads.
    """

    num_layers: int
    latent_dim: int
    rope_dim: int
    dtype_bytes: int = 2

    @property
    def bytes_per_token(self) -> int:
        return self.num_layers * (self.latent_dim + self.rope_dim) * self.dtype_bytes


@dataclass(frozen=True)
class WindowedShape(_Layers):
    """K and V as in KVShape. `windows` has an entry for each layer: None if it keeps every token, or the number of
    tokens that it keeps, the last ones.
    """

    windows: tuple[int | None, ...]
    num_kv_heads: int
    head_dim: int
    dtype_bytes: int = 2

    def __post_init__(self):
        windows = listed("windows", self.windows, "tokens a layer keeps, or None for all")
        windows = (window if window is None else whole_number("windows", window, 1) for window in windows)
        object.__setattr__(self, "windows", tuple(windows))
        if not self.windows:
            raise ValueError("windows must have an entry for each layer, and there is none")
        _ = self.full_pages  # checks the other numbers

    @property
    def num_layers(self) -> int:
        return len(self.windows)

    @property
    def full_pages(self) -> KVShape:
        """The shape for an engine that gives every layer a slot for every token."""
        return KVShape(self.num_layers, self.num_kv_heads, self.head_dim, self.dtype_bytes)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a token that every layer still keeps."""
        return self.full_pages.bytes_per_token


def ceil_div(n, size):
    """How many pieces of `size` hold `n`: blocks for tokens, rows for slots. Whole numbers, or arrays of them."""
    return -(-n // size)


class _Models(dict):
    def __missing__(self, name):
        raise KeyError(f"model must be one of {', '.join(map(repr, self))}, not {name!r}")


MODELS: dict[str, KVShape | WindowedShape | LatentShape] = _Models(
    {
        "opt-13b": KVShape(num_layers=40, num_kv_heads=40, head_dim=128),
        "llama-2-7b": KVShape(num_layers=32, num_kv_heads=32, head_dim=128),
        "llama-3-8b": KVShape(num_layers=32, num_kv_heads=8, head_dim=128),
        "llama-3-70b": KVShape(num_layers=80, num_kv_heads=8, head_dim=128),
        "qwen3-0.6b": KVShape(num_layers=28, num_kv_heads=8, head_dim=128),
        "qwen3-8b": KVShape(num_layers=36, num_kv_heads=8, head_dim=128),
        # 34 layers, of which each sixth keeps every token; 24, of which every other one does
        "gemma-3-4b": WindowedShape((*((1024,) * 5 + (None,)) * 5, *(1024,) * 4), num_kv_heads=4, head_dim=256),
        "gpt-oss-20b": WindowedShape((128, None) * 12, num_kv_heads=8, head_dim=64),
        "deepseek-v3": LatentShape(num_layers=61, latent_dim=512, rope_dim=64),
    }
)
