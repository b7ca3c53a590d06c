"""The grid of shapes that `python -m pagedkv.bench` measures, and what each of them must read, write and compute.

A case is a batch of sequences with given lengths in a shuffled pool. `bytes` counts what any implementation has to
move: the K and V that are visible, each once (a write reads and writes each once), so bytes / time can be held against
the read ceiling.
"""

from dataclasses import dataclass, replace
from random import Random

from pagedkv.arguments import one_of, whole_number

DTYPE_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8": 1}


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `lengths`: tokens in the cache, one number per sequence; `queries`: new tokens of each sequence (1 is decode),
    or a number for each.
    """

    name: str
    lengths: tuple[int, ...]
    q_heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    block_size: int = 16
    queries: int | tuple[int, ...] = 1
    cache: str = "bf16"
    kind: str = "attention"  # or "write": lengths are then the new tokens

    @property
    def new_tokens(self) -> tuple[int, ...]:
        """The queries of each sequence."""
        return self.queries if isinstance(self.queries, tuple) else (self.queries,) * len(self.lengths)

    @property
    def is_decode(self) -> bool:
        return self.kind == "attention" and self.queries == 1

    @property
    def equal_lengths(self) -> bool:
        return len(set(self.lengths)) == 1

    @property
    def bytes(self) -> int:
        """Bytes of K and V that must be read at least once; for a write, read once and written once."""
        one = sum(self.lengths) * self.kv_heads * self.head_dim * 2 * DTYPE_BYTES[self.cache]
        return 2 * one if self.kind == "write" else one

    @property
    def flops(self) -> int:
        """Multiplications and additions of both products over the (query, key) pairs that the causal mask leaves."""
        pairs = sum(n * length - n * (n - 1) // 2 for n, length in zip(self.new_tokens, self.lengths, strict=True))
        return 4 * pairs * self.q_heads * self.head_dim

    @property
    def shape(self) -> str:
        """The shape in words, as the table prints it."""
        if self.kind == "write":
            return f"{sum(self.lengths)} tokens × {self.kv_heads} heads × {self.head_dim}"
        size = f"{len(self.lengths)} × " + (
            str(self.lengths[0]) if self.equal_lengths else f"{min(self.lengths)}..{max(self.lengths)}"
        )
        parts = [size, f"{self.q_heads}/{self.kv_heads}"]
        fewest, most = min(self.new_tokens), max(self.new_tokens)
        parts += [f"{most} queries" if fewest == most else f"{fewest}..{most} queries"] if most > 1 else []
        parts += [f"head_dim {self.head_dim}"] if self.head_dim != 128 else []
        parts += [f"block {self.block_size}"] if self.block_size != 16 else []
        parts += [f"{self.cache} cache"] if self.cache == "fp8" else []
        return ", ".join(parts)


def even(name: str, batch: int, length: int, **rest) -> Case:
    """`batch` sequences of `length` tokens."""
    return Case(name, (length,) * batch, **rest)


def ragged(name: str, batch: int, longest: int, **rest) -> Case:
    """`batch` lengths drawn uniformly from 1 to `longest`, the same every time."""
    draw = Random(f"{batch} of {longest}")
    return Case(name, tuple(draw.randint(1, longest) for _ in range(batch)), **rest)


def _grid() -> list[Case]:
    d = even("d", 64, 2048)
    return [
        even("a", 1, 8192),
        even("b", 1, 131072),
        even("c", 16, 4096),
        d,
        even("e", 256, 1024),
        ragged("f", 64, 8192),
        even("g", 64, 2048, kv_heads=32),
        even("h", 64, 2048, q_heads=64),
        even("i", 32, 4096, kv_heads=1),
        *(replace(d, name=f"j{size}", block_size=size) for size in (1, 32, 64, 128)),
        replace(d, name="k", head_dim=64),
        ragged("l16", 16, 16384),
        ragged("l4", 4, 32768),
        ragged("l32", 32, 2048),
        replace(d, name="d8", cache="fp8"),
        even("e8", 256, 1024, cache="fp8"),
        even("p", 8, 4096, queries=512),
        Case("w8192", (8192,), kind="write"),
        Case("w64", (64,), kind="write"),
    ]


# Shapes that no launch setting was chosen on: they show whether the one rule for the settings holds elsewhere. o2, o3
# and o7 were looked at while the rule was made, those of UNSEEN never.
_HELD_OUT = [
    even("o1", 7, 3000, q_heads=40),
    ragged("o2", 100, 3000, q_heads=28, kv_heads=4),
    even("o3", 2, 24576),
    ragged("o4", 12, 20000, kv_heads=4),
    even("o5", 512, 300),
    even("o6", 3, 1500, kv_heads=32),
    even("o7", 20, 10000, q_heads=16, kv_heads=2, block_size=32),
]

GRID: dict[str, Case] = {case.name: case for case in _grid()}
HELD_OUT: dict[str, Case] = {case.name: case for case in _HELD_OUT}
MAIN = tuple("abcdefghi") + ("k",)  # the cases of the geometric means, each once
UNSEEN = ("o1", "o4", "o5", "o6")


def named(name: str) -> Case:
    """The case of that name, of the grid or held out. Raises ValueError that lists the names."""
    every = GRID | HELD_OUT
    return every[one_of("case", name, tuple(every))]


def parse(text: str) -> Case:
    """A case from `BATCHxLENGTH[,QHEADS/KVHEADS[,HEADDIM[,BLOCKSIZE]]]`, such as "64x2048,32/8,128,16".

    Raises ValueError.
    """
    parts = text.split(",")
    try:
        size, heads, head_dim, block_size = parts + ["32/8", "128", "16"][len(parts) - 1 :]
        batch, length, q_heads, kv_heads, head_dim, block_size = map(
            int, (*size.split("x"), *heads.split("/"), head_dim, block_size)
        )
    except ValueError:
        raise ValueError(
            f"shape must be BATCHxLENGTH,QHEADS/KVHEADS,HEADDIM,BLOCKSIZE such as 64x2048,32/8,128,16, not {text!r}"
        ) from None
    for name, value in (
        ("batch", batch),
        ("length", length),
        ("q_heads", q_heads),
        ("kv_heads", kv_heads),
        ("head_dim", head_dim),
        ("block_size", block_size),
    ):
        whole_number(name, value, 1)
    if q_heads % kv_heads:
        raise ValueError(f"q_heads must be a multiple of the {kv_heads} KV heads, not {q_heads}")
    return even(text, batch, length, q_heads=q_heads, kv_heads=kv_heads, head_dim=head_dim, block_size=block_size)


def shrunk(case: Case, tokens: int = 1024, batch: int = 4) -> Case:
    """The case with its lengths scaled down to about `tokens` and at most `batch` sequences, in fp32: for machines
    without a GPU.
    """
    factor = max(1, max(case.lengths) // tokens)
    lengths = tuple(max(1, length // factor) for length in case.lengths[:batch])
    cache = "fp32" if case.cache == "bf16" else case.cache
    queries = tuple(min(new, length, 64) for new, length in zip(case.new_tokens, lengths, strict=False))
    return replace(case, lengths=lengths, queries=queries[0] if len(set(queries)) == 1 else queries, cache=cache)
