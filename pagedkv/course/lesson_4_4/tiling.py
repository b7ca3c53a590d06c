"""The exercise of lesson 4.4 in which a step of the loop is changed: from one block to a tile over several."""

import math
import random

from pagedkv.course.judge.exercise import Exercise
from pagedkv.course.judge.kernel import Case, Task, at_the_far_end, kernel_parts
from pagedkv.course.thread import BLOCK_SIZE, MIRA
from pagedkv.sizing import ceil_div


def a_batch(lens: list[int], heads: int, kv_heads: int, block: int, tile: int, seed: int = 0, tables=None) -> dict:
    """Arguments of `tiled` for a query of each of `heads` heads and each sequence of `lens` tokens. Slots without a
    token hold NaN, table entries past the last block -1. The longest sequence is to be the last: its row of the table,
    and with it the table, ends with its last block.

    tables: the blocks of each sequence, drawn where left out.
    """
    import torch

    draw, dim = torch.Generator().manual_seed(seed), 16
    needed = [ceil_div(length, block) for length in lens]
    width = max(needed)
    if tables is None:
        ids = torch.randperm(sum(needed) + 2, generator=draw).tolist()
        tables = [[ids.pop() for _ in range(blocks)] for blocks in needed]
    k, v = torch.full((2, 1 + max(map(max, tables)), block, kv_heads, dim), math.nan)
    for row, length in zip(tables, lens, strict=True):
        for token in range(length):
            at = row[token // block], token % block
            k[at], v[at] = torch.randn(2, kv_heads, dim, generator=draw)
    return {
        "q": torch.randn(len(lens), heads, dim, generator=draw) * 2,
        "k_cache": k.half(),
        "v_cache": v.half(),
        "tables": torch.tensor([row + [-1] * (width - len(row)) for row in tables], dtype=torch.int32),
        "lens": torch.tensor(lens, dtype=torch.int32),
        "out": torch.full((len(lens), heads, dim), -7.0),
        "scale": 0.3,
        "width": width,
        "BLOCK": block,
        "TILE": tile,
        "DIM": dim,
        "GROUP": heads // kv_heads,
    }


def _attended(arguments: dict, slip: str = "") -> dict:
    """The outputs in float64; with a `slip` those of a kernel that makes it."""
    import torch

    out, block, tile = arguments["out"].clone(), arguments["BLOCK"], arguments["TILE"]
    for seq, length in enumerate(arguments["lens"].tolist()):
        if slip == "full tiles":
            length = length // tile * tile
        elif slip == "first tile":
            length = min(length, tile)
        tokens = torch.arange(length)
        blocks = arguments["tables"][seq, tokens // block].long()
        if slip == "one block a tile":
            blocks = arguments["tables"][seq, tokens // tile * tile // block].long()
        for head in range(out.shape[1]):
            at = blocks, tokens % block, head // arguments["GROUP"]
            k, v = (arguments[name][at].double() for name in ("k_cache", "v_cache"))
            scores = k @ arguments["q"][seq, head].double() * arguments["scale"]
            out[seq, head] = scores.softmax(0) @ v if length else math.nan
    return {"out": out}


def _slip(name: str):
    return lambda arguments: _attended(arguments, name)


def _batches(draw: random.Random) -> list[Case]:
    """Tiles larger than a block, and smaller ones."""
    named = {
        "a sequence of one token": 1,
        "a sequence of BLOCK + 1 tokens": 5,
        "a sequence of TILE tokens": 16,
        "a sequence of TILE + 1 tokens": 17,
        "a sequence of two tiles and some": draw.randint(33, 38),
    }
    order = [*draw.sample(list(named)[:-1], len(named) - 1), [*named][-1]]
    wide = a_batch([named[name] for name in order], 2, 1, 4, 16, seed=draw.randrange(99))
    narrow = a_batch([draw.randint(9, 15), draw.randint(17, 23)], 3, 3, 16, 8, seed=draw.randrange(99))
    last = a_batch([draw.randint(9, 15)], 2, 2, 8, 16, seed=draw.randrange(99))
    far = at_the_far_end(last, ("k_cache", "v_cache"), "tables", 8 * 2 * 16, "blocks far out in a large pool")
    return [Case(wide, rows=tuple(order)), Case(narrow, "a tile smaller than a block"), far]


OWN_ROW = "a token's block is entry token // BLOCK of the sequence's own row, `width` entries wide"
NO_BLOCK = f"-1 is no block: past the length no entry may be followed, and {OWN_ROW}"
LAYOUT = "a cache is [block, slot, KV head, dim], the slot is token % BLOCK, and GROUP query heads share a KV head"

TILE = Exercise(
    "4.4-tile",
    "a tile of several blocks",
    kernel_parts(
        "a tile of several blocks",
        Task(
            grid=lambda arguments: arguments["out"].shape[1::-1],
            right=_attended,
            mistakes=(
                (
                    _slip("one block a tile"),
                    "each token looks up its own block; here a tile has one for all its tokens",
                ),
                (_slip("first tile"), "only the first tile of a sequence is read: where does each tile begin?"),
                (_slip("full tiles"), "a last tile that is not full is left out"),
            ),
            hints={
                (
                    "nan",
                    "out",
                ): "a hidden value must be loaded as a number, since 0 · NaN is NaN; is any slot read that "
                "holds no token of this sequence?",
                ("reads", "tables", "behind"): f"past the length no entry may be read; {OWN_ROW}",
                **{("reads", name, "before"): NO_BLOCK for name in ("k_cache", "v_cache")},
                ("reads", "k_cache", "behind"): LAYOUT,
                ("reads", "v_cache", "behind"): LAYOUT,
                ("wrong", "out"): f"{OWN_ROW}; {LAYOUT}",
            },
        ),
        lambda: Case(
            a_batch([MIRA.stored, 70], 4, 2, BLOCK_SIZE, 32, tables=[list(MIRA.table), [5, 9, 11, 0, 8]]),
            rows=("Mira's 50 tokens", "the sequence of 70 tokens"),
        ),
        _batches,
    ),
    needs="triton",
    in_order=True,
)
