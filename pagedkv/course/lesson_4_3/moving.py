"""Two kernels of lesson 4.3 that move rows: into the slots of new tokens, and out of the blocks of a sequence."""

import math
import random

from pagedkv.course.judge.exercise import Exercise
from pagedkv.course.judge.kernel import Case, Task, at_the_far_end, kernel_parts
from pagedkv.course.thread import BLOCK_SIZE, MIRA
from pagedkv.sizing import ceil_div

UNTOUCHED = -7.0  # what stands in a cache where nothing was written
LANES = 32


# Scatter


def rows_to_write(slots: list[int], num_slots: int, width: int, seed: int = 0) -> dict:
    """Arguments of `write_rows` for new rows that go to `slots`, -1 for padding, of a cache of `num_slots`."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    return {
        "new": torch.randn(len(slots), width, generator=draw),
        "cache": torch.full((num_slots, width), UNTOUCHED),
        "slot_mapping": torch.tensor(slots, dtype=torch.int64),
        "WIDTH": width,
        "LANES": LANES,
    }


def _written(arguments: dict, row_of=lambda token, slot: slot) -> dict:
    cache = arguments["cache"].clone()
    for token, slot in enumerate(arguments["slot_mapping"].tolist()):
        if slot >= 0:
            cache[row_of(token, slot) % len(cache)] = arguments["new"][token]
    return {"cache": cache}


def _one_number_each(arguments: dict) -> dict:
    cache = arguments["cache"].clone()
    cache[:, 0] = _written(arguments)["cache"][:, 0]
    return {"cache": cache}


def _mappings(draw: random.Random) -> list[Case]:
    """No token, padding alone, and any tokens with padding between; the cache's first and last slot among them."""
    sizes = [draw.choice((20, 24, 28)) for _ in range(3)]
    inner = draw.sample(range(1, 11), 4)
    mixed = [inner[0], -1, 11, inner[1], -1, -1, 0, *inner[2:]]
    return [
        Case(rows_to_write([], 12, sizes[0]), "no tokens"),
        Case(rows_to_write([-1, -1], 12, sizes[1]), "padding alone"),
        Case(rows_to_write(mixed, 12, sizes[2], draw.randrange(99)), "padding between the tokens"),
    ]


PADDING = "a slot of -1 is padding: that token must write nothing, in no place"
ROWS = "rows lie WIDTH numbers apart, and only WIDTH of the LANES lanes have one"

SCATTER = Exercise(
    "4.3-scatter",
    "write rows into their slots",
    kernel_parts(
        "rows into slots",
        Task(
            grid=lambda arguments: (len(arguments["slot_mapping"]),),
            right=_written,
            mistakes=(
                (
                    lambda arguments: _written(arguments, lambda token, slot: token),
                    "each row went to the number of its token; the row of the cache is the one that slot_mapping names",
                ),
                (_one_number_each, "one number of each row is written; a program moves WIDTH numbers at once"),
            ),
            hints={
                ("writes", "cache", "before"): PADDING,
                ("reads", "new", "before"): "`new` is in the order of the tokens, only `cache` is in that of the slots",
                ("reads", "new", "behind"): f"`new` has a row for each token; {ROWS}",
                ("writes", "cache", "behind"): f"{ROWS}; a slot loads as one number, tl.load(slot_mapping + i)",
                ("writes", "cache", "race"): f"two tokens met in one row; {ROWS}, and {PADDING}",
                ("spoilt", "cache"): f"no token has that slot; {ROWS}, and {PADDING}",
                ("reads", "slot_mapping", "behind"): "there is one entry for each program, and counting starts at 0",
                ("missing", "cache"): "a token has that slot: which program writes its row, and all of it?",
                ("nan", "cache"): "lanes that a mask hides hold nothing, and must not be stored",
            },
        ),
        lambda: Case(rows_to_write([5, -1, 0, 15, -1, 9, 2], 16, 24)),
        _mappings,
    ),
    needs="triton",
    in_order=True,
)


# Gather


def rows_to_gather(table: list[int], length: int, num_blocks: int, width: int, block: int, seed: int = 0) -> dict:
    """Arguments of `gather_rows` for a sequence of `length` tokens in the blocks `table`; all else in the pool is NaN,
    the entries of the table past the last needed block are -1.
    """
    import torch

    draw = torch.Generator().manual_seed(seed)
    cache = torch.full((num_blocks * block, width), math.nan)
    for token in range(length):
        cache[table[token // block] * block + token % block] = torch.randn(width, generator=draw)
    ids = [block_id if j < ceil_div(length, block) else -1 for j, block_id in enumerate(table)]
    return {
        "cache": cache,
        "table": torch.tensor(ids, dtype=torch.int32),
        "out": torch.full((length, width), UNTOUCHED),
        "length": length,
        "BLOCK": block,
        "WIDTH": width,
        "LANES": LANES,
    }


def mira(width: int = 24) -> dict:
    """The same for the request that the course follows: 50 tokens in the blocks 12, 7, 42, 3 of a pool that ends with
    block 42.
    """
    return rows_to_gather(list(MIRA.table), MIRA.stored, max(MIRA.table) + 1, width, BLOCK_SIZE)


def _gathered(arguments: dict) -> dict:
    block, ids = arguments["BLOCK"], arguments["table"].tolist()
    rows = [(ids[token // block] * block + token % block) for token in range(arguments["length"])]
    return {"out": arguments["cache"][rows]}


def _lengths(draw: random.Random) -> list[Case]:
    """One sequence of each length at the edges of a block, in shuffled blocks; the last one of the pool among them."""
    cases = []
    for words, length in (
        ("length 0", 0),
        ("length 1", 1),
        ("length BLOCK - 1", 7),
        ("length BLOCK", 8),
        ("length BLOCK + 1", 9),
        ("a length of several blocks", draw.randint(18, 23)),
    ):
        table = [5, *draw.sample(range(1, 5), ceil_div(length, 8))][: max(ceil_div(length, 8), 1) + draw.randint(0, 1)]
        cases.append(Case(rows_to_gather(table, length, 6, draw.choice((20, 28)), 8, draw.randrange(99)), words))
    last = rows_to_gather([1, 2, 0], 18, 3, 20, 8)
    return [*cases, at_the_far_end(last, ("cache",), "table", 8 * 20, "blocks far out in a large pool")]


OWN_ROWS = "program j writes the tokens from j · BLOCK on, and no others"
LAST = "the last block is not full, and its other slots are no tokens of this sequence"

GATHER = Exercise(
    "4.3-gather",
    "gather a sequence out of its blocks",
    kernel_parts(
        "a sequence out of its blocks",
        Task(
            grid=lambda arguments: (ceil_div(arguments["length"], arguments["BLOCK"]),),
            right=_gathered,
            hints={
                ("writes", "out", "behind"): f"{LAST}; and rows lie WIDTH apart",
                ("writes", "out", "race"): OWN_ROWS,
                ("writes", "out", "twice"): ROWS,
                ("reads", "cache", "behind"): "the pool ends there: is every lane hidden that has no number, and does "
                "a block id become the number of a row?",
                ("reads", "cache", "before"): "-1 is no block: which entry of the table was followed?",
                ("reads", "table", "behind"): "a program reads one entry of the table, that of its own block",
                ("nan", "out"): "that slot holds no token of this sequence: which block is its j-th, and in which row "
                "does a block begin?",
                ("missing", "out"): OWN_ROWS,
                ("wrong", "out"): "a row came from another slot than the table says, or from a part of one",
            },
        ),
        lambda: Case(mira()),
        _lengths,
    ),
    needs="triton",
    in_order=True,
)
