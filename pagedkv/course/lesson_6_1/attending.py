"""The exercise of lesson 6.1 that fills the hole in a model: attention over a paged cache, a sequence at a time.

An answer is called for the layers of a small cache whose other slots hold other requests' numbers; what it returns and
what it leaves in the cache are compared.
"""

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import SINGLE, Wrong, alike, same
from pagedkv.course.judge.exercise import Exercise, Part, Role, hidden

LAYERS, Q_HEADS, KV_HEADS, DIM, BLOCK, BLOCKS = 2, 4, 2, 16, 4, 14


def attend(
    cache, batch, layer, q, k, v, *, write=True, early=False, write_to=None, read_from=None, slots=None, lens=None,
    rows=None, tables=None, whole=False, ahead=None, exchanged=False, one_head=False,
):  # fmt: skip
    """The output of the batch's queries. The keyword arguments make the usual mistakes."""
    import torch

    def store():
        at = batch.slots if slots is None else slots(batch)
        for mine, new in ((cache.k, v if exchanged else k), (cache.v, k if exchanged else v)):
            mine[layer if write_to is None else write_to][at // cache.block_size, at % cache.block_size] = new

    if write and not early:
        store()
    starts = range(len(q) + 1) if batch.query_start_loc is None else batch.query_start_loc.tolist()
    starts = starts if rows is None else rows(starts, len(batch.seq_lens))
    seq_lens = batch.seq_lens.tolist() if lens is None else lens(batch.seq_lens.tolist(), starts)
    out = []
    for i, length in enumerate(seq_lens):
        needed = -(-length // cache.block_size)
        blocks = (batch.block_tables[i] if tables is None else tables(batch.block_tables, i))[:needed].long()
        place = layer if read_from is None else read_from
        keys, values = (x[place][blocks].flatten(0, 1)[: None if whole else length] for x in (cache.k, cache.v))
        if one_head:
            keys, values = (x[:, :1].expand(-1, KV_HEADS, -1) for x in (keys, values))
        out.append(_attention(q[starts[i] : starts[i + 1]], keys, values, ahead))
    if early:
        store()
    return torch.cat(out)


def _attention(q, k, v, ahead=None):
    """The first query sees `ahead` tokens before it, None for all that are there."""
    import torch

    k, v = (x.repeat_interleave(Q_HEADS // KV_HEADS, 1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / DIM**0.5
    last = torch.arange(len(q))[:, None] + (len(k) - len(q) if ahead is None else ahead)
    weights = scores.masked_fill(torch.arange(len(k)) > last, -torch.inf).softmax(-1).nan_to_num()
    return torch.einsum("hqk,khd->qhd", weights, v)


def _batch(random, work):
    """(cache, batch) for [(num_stored, n)]: shuffled blocks, and other numbers wherever no token of these is."""
    import torch

    from pagedkv.engine.batch import Batch
    from pagedkv.kv_cache import PagedKVCache
    from pagedkv.sizing import KVShape

    draw = torch.Generator().manual_seed(random.randrange(10**6))
    cache = PagedKVCache(KVShape(LAYERS, KV_HEADS, DIM, 8), BLOCKS, BLOCK, dtype=torch.float64)
    cache.k.copy_(torch.randn(cache.k.shape, generator=draw, dtype=torch.float64))
    cache.v.copy_(torch.randn(cache.v.shape, generator=draw, dtype=torch.float64))
    free = torch.randperm(BLOCKS, generator=draw).tolist()
    lengths = [stored + n for stored, n in work]
    width = max(-(-length // BLOCK) for length in lengths)
    tables = torch.full((len(work), width), -1, dtype=torch.int32)
    slots, positions, starts = [], [], [0]
    for row, (stored, n) in enumerate(work):
        blocks = [free.pop() for _ in range(-(-(stored + n) // BLOCK))]
        tables[row, : len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        positions += range(stored, stored + n)
        slots += [blocks[p // BLOCK] * BLOCK + p % BLOCK for p in range(stored, stored + n)]
        starts.append(len(slots))
    one_each = len(slots) == len(work)
    ready = torch.tensor(starts[1:]) - 1
    return cache, Batch(
        torch.zeros(len(slots), dtype=torch.int64), torch.tensor(positions), torch.tensor(slots), ready,
        torch.tensor(lengths, dtype=torch.int32), None if one_each else torch.tensor(starts, dtype=torch.int32),
        tables, max(lengths),
    )  # fmt: skip


def _outcome(function, seed, work, layers):
    """What `function` returns for each layer, and what the cache holds afterwards."""
    import torch

    random = hidden(f"{seed}, {work}")
    cache, batch = _batch(random, work)
    outs = []
    for layer in layers:
        draw = torch.Generator().manual_seed(random.randrange(10**6))
        q = torch.randn(len(batch.slots), Q_HEADS, DIM, generator=draw, dtype=torch.float64)
        k, v = torch.randn(2, len(batch.slots), KV_HEADS, DIM, generator=draw, dtype=torch.float64)
        outs.append(call(function, cache, batch, layer, q, k, v, changes=(0,)))
    return *outs, cache.k.clone(), cache.v.clone()


def _part(title, works, layers):
    def test(answer):
        got = [_outcome(answer, title, work, layers) for work in works]
        right = [_outcome(attend, title, work, layers) for work in works]
        if alike(right, got, SINGLE):
            return
        for mistake, sentence in MISTAKES:
            if alike([_outcome(mistake, title, work, layers) for work in works], got, SINGLE):
                raise Wrong(sentence)
        if any(out is None for *outs, _, _ in got for out in outs):
            raise Wrong("it returns nothing; is the return missing?")
        for mine, good in zip(got, right, strict=True):
            for out, expected in zip(mine[:-2], good[:-2], strict=True):
                same(expected, out, SINGLE)
            if not alike(good[-2:], mine[-2:], SINGLE):
                raise Wrong("the output is right, but the cache does not hold k and v in the batch's slots alone")

    return Part(title, test)


def _with(**mistake):
    return lambda *inputs: attend(*inputs, **mistake)


MISTAKES = (
    (_with(early=True),
     "attention reads before k and v are written: the newest tokens see what lay in their slots before"),
    (_with(write=False), "k and v are not written to the cache; nothing of these tokens is there to be read"),
    (_with(write_to=0), "every layer writes to layer 0; each has a place of its own, cache.k[layer]"),
    (_with(read_from=0), "every layer reads from layer 0; each has a place of its own, cache.k[layer]"),
    (_with(write_to=0, read_from=0), "every layer uses the cache of layer 0; each has a place of its own"),
    (_with(slots=lambda batch: batch.positions),
     "k and v are written at their positions; their slots say where in the pool they go"),
    (_with(exchanged=True), "k is written where v belongs, and v where k does"),
    (_with(lens=lambda lens, starts: [n - (b - a) for n, a, b in zip(lens, starts, starts[1:], strict=False)]),
     "seq_lens counts this step's tokens already"),
    (_with(lens=lambda lens, starts: [n + (b - a) for n, a, b in zip(lens, starts, starts[1:], strict=False)]),
     "seq_lens counts this step's tokens already: they are not to be added again"),
    (_with(tables=lambda tables, i: tables[0].new_tensor([*range(int(tables[i, 0]), BLOCKS), *range(BLOCKS)])),
     "the blocks of a sequence need not follow one another: look each of them up in its row of block_tables"),
    (_with(tables=lambda tables, i: tables[0].clamp(min=0).repeat(4)),
     "every sequence is read by the first row of block_tables; each has a row of its own"),
    (_with(whole=True), "the last block is read whole; of it only the slots below seq_lens count"),
    (_with(ahead=BLOCKS * BLOCK),
     "a query of a chunk sees the tokens behind it: each is to see itself and what came before"),
    (_with(one_head=True), "all query heads read KV head 0; each group of them has a KV head of its own"),
    (_with(ahead=0),
     "the mask is aligned at the top left: the queries are the last tokens of their sequence, not the first"),
    (_with(rows=lambda starts, count: [*range(count), starts[-1]]),
     "sequence i does not begin at row i: query_start_loc says where"),
)  # fmt: skip


def _of_the_package():
    """The package's attention as the exercise asks for it."""
    from pagedkv.engine.batch import paged

    return lambda cache, batch, layer, q, k, v: paged(cache, batch, "torch")(layer, q, k, v)


ATTEND = Exercise("6.1-attend", "fill the hole", (
    _part("one token each", [[(8, 1), (4, 1), (0, 1)], [(6, 1)], [(3, 1), (11, 1), (5, 1), (9, 1)]], [0]),
    _part("chunks and prompts", [[(9, 1), (4, 5), (0, 3)], [(0, 7), (6, 6)], [(2, 4)]], [0]),
    _part("every layer in its own place", [[(8, 1), (3, 1)], [(9, 1), (4, 5), (0, 3)]], [0, 1]),
), role=Role("attend", _of_the_package))  # fmt: skip
