"""The kernel of lesson 4.3 in which a query attends to all blocks of its sequence: paged decode."""

import math
import random
from functools import partial

from pagedkv.course.judge.exercise import Exercise, Role
from pagedkv.course.judge.kernel import Case, Task, at_the_far_end, kernel_parts
from pagedkv.course.thread import BLOCK_SIZE, MIRA
from pagedkv.sizing import ceil_div


def a_batch(lens: list[int], heads: int, kv_heads: int, block: int, seed: int = 0, tables=None, low=False) -> dict:
    """Arguments of `decode` for a query of each of `heads` heads and each sequence, of `lens` tokens in blocks of
    `block`; q is a part of wider rows. Slots without a token hold NaN or infinity, entries past the last block -1.

    tables: the blocks of each sequence, drawn where left out. low: all scores lie about 200 below zero.
    """
    import torch

    dim, draw = 32, torch.Generator().manual_seed(seed)
    width = max(1, *(ceil_div(length, block) for length in lens)) + (tables is None)
    if tables is None:
        ids = torch.randperm(len(lens) * width, generator=draw).reshape(len(lens), width)
        tables = [row[: ceil_div(length, block)].tolist() for row, length in zip(ids, lens, strict=True)]
    blocks = 1 + max(max(row, default=0) for row in tables)
    k, v = torch.full((2, blocks, block, kv_heads, dim), math.nan, dtype=torch.float16)
    v[::2] = math.inf
    for row, length in zip(tables, lens, strict=True):
        for token in range(length):
            at = row[token // block], token % block
            k[at], v[at] = torch.randn(2, kv_heads, dim, generator=draw)
    wide = torch.full((len(lens), heads + 2 * kv_heads, dim), math.nan, dtype=torch.float16)
    wide[:, :heads] = torch.randn(len(lens), heads, dim, generator=draw) * 2
    if low:
        wide[:, :heads, 0], k[..., 0] = 64.0, k[..., 0] * 0 - 11
    padded = [row + [-1] * (width - len(row)) for row in tables]
    return {
        "q": wide[:, :heads],
        "k_cache": k,
        "v_cache": v,
        "tables": torch.tensor(padded, dtype=torch.int32),
        "lens": torch.tensor(lens, dtype=torch.int32),
        "out": torch.full((len(lens), heads, dim), -7.0),
        "scale": 0.3,
        "q_stride": wide.stride(0),
        "width": width,
        "BLOCK": block,
        "DIM": dim,
        "GROUP": heads // kv_heads,
    }


def mira_and_others() -> dict:
    """The request that the course follows, of 50 tokens, beside one without tokens and one of a block."""
    return a_batch([MIRA.stored, 0, BLOCK_SIZE], 4, 2, BLOCK_SIZE, tables=[list(MIRA.table), [], [5]])


def _decoded(arguments: dict, slip: str = "", l_of_zeros: float = 1.0) -> dict:
    """The outputs, computed block by block in float64; with a `slip` those of a kernel that makes it."""
    import torch

    kv_heads = arguments["k_cache"].shape[2]
    q, out, block = arguments["q"].double(), arguments["out"].clone(), arguments["BLOCK"]
    for seq, length in enumerate(arguments["lens"].tolist()):
        length = {"full blocks": length // block * block, "first block": min(length, block)}.get(slip, length)
        for head in range(q.shape[1]):
            m, l, o = 0.0 if slip == "m" else -math.inf, 0.0, torch.zeros(arguments["DIM"], dtype=torch.float64)  # noqa: E741
            for j in range(ceil_div(length, block)):
                seen, at = min(block, length - j * block), int(arguments["tables"][seq, j])
                kv = head % kv_heads if slip == "head" else head // arguments["GROUP"]
                k, v = (arguments[name][at, :seen, kv].double() for name in ("k_cache", "v_cache"))
                scores = k @ q[seq, head] * (1.0 if slip == "scale" else arguments["scale"])
                hidden = block - seen if slip == "hidden" else 0
                m_new = max(m, scores.max().item(), 0.0 if hidden else -math.inf)
                shrink = 1.0 if slip == "early" else math.exp(m - m_new)
                weights = torch.exp(scores - m_new).float().double()  # what is 0 for a kernel is 0 here
                l = l * (1.0 if slip == "l" else shrink) + weights.sum() + hidden * math.exp(-m_new)  # noqa: E741
                o = o * (1.0 if slip == "o" else shrink) + weights @ v
                o = o / l if slip == "each" else o
                m = -math.inf if slip == "last" else m_new
            if slip == "0 / 0" and not length:
                o = o * math.nan
            out[seq, head] = o if slip in ("divide", "each") else o / (l or (l_of_zeros if length else 1.0))
    return {"out": out}


def _batches(draw: random.Random) -> list[Case]:
    named = {
        "a sequence of no token": 0,
        "a sequence of one token": 1,
        "a sequence of BLOCK - 1 tokens": 7,
        "a sequence of BLOCK tokens": 8,
        "a sequence of BLOCK + 1 tokens": 9,
        "a sequence of several blocks": draw.randint(18, 23),
    }
    order = draw.sample(list(named), len(named))
    first = a_batch([named[name] for name in order], 4, 2, 8, seed=draw.randrange(99))
    short = a_batch([draw.randint(9, 15)], 3, 1, 8, seed=draw.randrange(99))
    last = a_batch([draw.randint(9, 15)], 2, 2, 8, seed=draw.randrange(99))
    low = a_batch([draw.randint(9, 15)], 2, 1, 8, seed=draw.randrange(99), low=True)
    return [
        Case(first, rows=tuple(order)),
        Case(short, "one KV head for all heads"),
        Case(low, "scores that are all far below zero"),
        at_the_far_end(last, ("k_cache", "v_cache"), "tables", 8 * 2 * 32, "blocks far out in a large pool"),
    ]


OWN_TABLE = "every sequence has its own row of `tables`, `width` entries wide"
AXES = "axis 0 of the grid is the head, axis 1 the sequence"
KV_LAYOUT = "a cache is [block, slot, KV head, dim], and GROUP query heads share a KV head"
OTHER = "when the maximum rises, what is in {} is relative to the old one: shrink it as well as {}"
FIRST_MAXIMUM = "m must start at -∞: a maximum that starts at 0 is too large if all scores are negative"
SLIPS = (
    (OTHER.format("o", "l"), {"slip": "o"}),
    (OTHER.format("l", "o"), {"slip": "l"}),
    ("a last block that is not full is left out", {"slip": "full blocks"}),
    ("only the first block of a sequence is read", {"slip": "first block"}),
    ("that is attention without the scale", {"slip": "scale"}),
    (FIRST_MAXIMUM, {"slip": "m"}),
    (FIRST_MAXIMUM, {"slip": "m", "l_of_zeros": math.nan}),
    ("o is not divided by l at the end", {"slip": "divide"}),
    ("o is divided by l in each step: divide once, after the loop", {"slip": "each"}),
    ("without a token o / l is 0 / 0, and zeros are asked for", {"slip": "0 / 0"}),
    ("l and o stay relative to the old maximum: shrink is e^(m - new m), taken before m changes", {"slip": "early"}),
    ("only the last block counts: at the end of a step m must become the new maximum", {"slip": "last"}),
    ("hidden tokens got the score 0, and with it a weight: their score must be -inf", {"slip": "hidden"}),
    ("the heads of a group are neighbours: query head h reads KV head h // GROUP", {"slip": "head"}),
)


class PackagesKernel:
    """The package's attention, launched as the exercise's kernel is: `kernel[grid](q, ...)`."""

    def __getitem__(self, grid):
        return self.run

    def run(self, q, k_cache, v_cache, tables, lens, out, scale, q_stride, width, BLOCK, DIM, GROUP):
        from pagedkv.attention.paged import paged_attention

        out.copy_(paged_attention(q, k_cache, v_cache, tables, lens, scale=scale, backend="torch"))


DECODE = Exercise(
    "4.3-decode",
    "paged decode",
    kernel_parts(
        "paged decode",
        Task(
            grid=lambda arguments: (arguments["q"].shape[1], len(arguments["lens"])),
            right=_decoded,
            mistakes=tuple((partial(_decoded, **slip), sentence) for sentence, slip in SLIPS),
            hints={
                ("nan", "out"): "a hidden value must be loaded as a number, since 0 · NaN is NaN; and no slot past the "
                "length, no other sequence's block, no other head may take part",
                ("reads", "q", "behind"): f"two sequences are q_stride apart in q, two heads DIM; {AXES}",
                ("reads", "lens", "behind"): AXES,
                ("reads", "q", "between"): "two sequences are q_stride apart in q, two heads DIM",
                ("reads", "tables", "behind"): OWN_TABLE,
                **{("reads", name, "before"): f"-1 is no block; {OWN_TABLE}" for name in ("k_cache", "v_cache")},
                **{("reads", name, "behind"): KV_LAYOUT for name in ("k_cache", "v_cache")},
                ("writes", "out", "behind"): "out is [sequence, head, dim], with nothing between",
                ("writes", "out", "race"): "each program writes the row of its own sequence and head",
                ("missing", "out"): "a program writes its row of `out` in any case, zeros where there is no token",
                ("wrong", "out"): f"{OWN_TABLE}; {KV_LAYOUT}; or the update: new maximum, shrink, l and o, then m",
            },
        ),
        lambda: Case(mira_and_others(), rows=("Mira's 50 tokens", "the sequence of no token", "the full block")),
        _batches,
    ),
    needs="triton",
    in_order=True,
    role=Role("kernel", PackagesKernel),
)
