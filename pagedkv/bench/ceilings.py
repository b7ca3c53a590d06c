"""How fast this card reads, and copies, a given number of bytes: the yardsticks, measured in the run and in the way of
the kernels.

Two kernels that do nothing else, in several launch shapes; the fastest counts. Small sizes have a lower ceiling: there
is a launch to pay and too little in flight.
"""

import torch
import triton
import triton.language as tl

from pagedkv.bench.timing import measure
from pagedkv.sizing import ceil_div


@triton.jit
def _read(src, out, num_words, TILE: tl.constexpr, TILES: tl.constexpr):
    """Program i adds up TILES tiles, the programs' tiles interleaved; one store each keeps the loads from being
    dropped.
    """
    start = tl.program_id(0).to(tl.int64) * TILE
    step = tl.num_programs(0).to(tl.int64) * TILE
    total = tl.zeros([TILE], tl.int32)
    for i in tl.static_range(TILES):
        words = start + i * step + tl.arange(0, TILE)
        total += tl.load(src + words, mask=words < num_words, other=0)
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def _copy(src, dst, num_words, TILE: tl.constexpr):
    words = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    tl.store(dst + words, tl.load(src + words, mask=words < num_words), mask=words < num_words)


class Ceilings:
    """Measures each size once and remembers it."""

    def __init__(self, device: torch.device, runs: int):
        self.device, self.runs = device, runs
        self.l2 = torch.cuda.get_device_properties(device).L2_cache_size
        self._known: dict[tuple[str, int], float] = {}

    def read_us(self, num_bytes: int) -> float:
        """µs to read `num_bytes` once."""
        return self._fastest("read", num_bytes)

    def copy_us(self, num_bytes: int) -> float:
        """µs to copy so much that reads and writes add up to `num_bytes`."""
        return self._fastest("copy", num_bytes)

    def matmul_tflop_s(self, size: int = 8192) -> float:
        """bf16 operations per second of a product of two random square matrices."""
        a, b = torch.randn(2, size, size, dtype=torch.bfloat16, device=self.device)
        return 2 * size**3 / measure(lambda _: a @ b, 1, self.device, self.runs, host=False).us / 1e6

    def asdict(self) -> list[dict]:
        """Every size that was asked for, and the matrix product."""
        known = [
            {"kind": kind, "bytes": size, "us": us, "gb_s": size / us / 1e3}
            for (kind, size), us in sorted(self._known.items())
        ]
        return [*known, {"kind": "matmul", "tflop_s": self.matmul_tflop_s()}]

    def _fastest(self, kind: str, num_bytes: int) -> float:
        if (kind, num_bytes) not in self._known:
            words = max(1, num_bytes // (4 if kind == "read" else 8))
            copies = min(64, max(2, ceil_div(4 * self.l2, num_bytes)))
            sources = torch.randint(-(2**31), 2**31 - 1, (copies, words), dtype=torch.int32, device=self.device)
            targets = (
                torch.empty_like(sources)
                if kind == "copy"
                else sources.new_empty(ceil_div(words, 1024), dtype=torch.int32)
            )
            calls = self._reads(sources, targets) if kind == "read" else self._copies(sources, targets)
            quick = sorted((measure(call, copies, self.device, 1, host=False).us, i) for i, call in enumerate(calls))
            best = [measure(calls[i], copies, self.device, self.runs, host=False).us for _, i in quick[:2]]
            self._known[kind, num_bytes] = min(best)
        return self._known[kind, num_bytes]

    @staticmethod
    def _reads(sources, out):
        words = sources.shape[1]

        def call(tile, tiles, warps):
            grid = (ceil_div(words, tile * tiles),)
            return lambda copy: _read[grid](sources[copy], out, words, TILE=tile, TILES=tiles, num_warps=warps)

        return [
            call(1024, 1, 4),
            call(1024, 4, 4),
            call(2048, 4, 4),
            call(4096, 2, 8),
            call(4096, 8, 8),
            call(8192, 1, 8),
        ]

    @staticmethod
    def _copies(sources, targets):
        words = sources.shape[1]

        def call(tile, warps):
            grid = (ceil_div(words, tile),)
            return lambda copy: _copy[grid](sources[copy], targets[copy], words, TILE=tile, num_warps=warps)

        return [call(1024, 4), call(2048, 4), call(4096, 8), call(8192, 8)]
