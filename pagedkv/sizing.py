"""How many: the bytes that K and V of a token take, and the blocks that tokens fill.

The bytes of a token are the only thing about a model that memory management needs.
Every layer keeps one K and one V vector for each of its KV heads. Query heads do not count: with grouped queries
several of them read the same KV head.
"""

from dataclasses import dataclass, fields

from pagedkv.arguments import whole_number

BLOCK_SIZE = 16  # tokens in a block, where nothing else is said


@dataclass(frozen=True)
class KVShape:
    """The K and V of one token: [num_layers, 2, num_kv_heads, head_dim] numbers of `dtype_bytes` bytes (2 for fp16 and
    bf16, 1 for fp8).
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype_bytes: int = 2

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, whole_number(field.name, getattr(self, field.name), 1, 2**20))

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype_bytes

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block of `block_size` tokens, all layers together."""
        return whole_number("block_size", block_size, 1) * self.bytes_per_token

    def tokens_in(self, num_bytes: int) -> int:
        """How many whole tokens fit in `num_bytes` bytes."""
        return whole_number("num_bytes", num_bytes) // self.bytes_per_token


def ceil_div(n, size):
    """How many pieces of `size` hold `n`: blocks for tokens, rows for slots. Whole numbers, or arrays of them."""
    return -(-n // size)


class _Models(dict):
    def __missing__(self, name):
        raise KeyError(f"model must be one of {', '.join(map(repr, self))}, not {name!r}")


MODELS: dict[str, KVShape] = _Models(
    {
        "opt-13b": KVShape(num_layers=40, num_kv_heads=40, head_dim=128),
        "llama-2-7b": KVShape(num_layers=32, num_kv_heads=32, head_dim=128),
        "llama-3-8b": KVShape(num_layers=32, num_kv_heads=8, head_dim=128),
        "llama-3-70b": KVShape(num_layers=80, num_kv_heads=8, head_dim=128),
        "qwen3-0.6b": KVShape(num_layers=28, num_kv_heads=8, head_dim=128),
        "qwen3-8b": KVShape(num_layers=36, num_kv_heads=8, head_dim=128),
    }
)
