"""The torch backend: paged attention for a whole ragged batch in a few large tensor operations, fast on a CPU.

The work is cut into items of equal size, a tile of queries against a chunk of keys, however long each sequence is; as
many run at once as fit in a slab. Each ends as a partial softmax, and the partials of a tile are merged: split-KV, as
in the Triton kernel. Keys are gathered by position, and a position past the last visible one reads that one instead, so
what lies in unused slots never matters. A CPU multiplies what it has gathered while its cache still holds it.
"""
# ruff: noqa: E741 (l is the papers' name)

from dataclasses import dataclass
from math import gcd

import torch

from pagedkv.attention.online_softmax import SoftmaxState, finite
from pagedkv.sizing import ceil_div
from pagedkv.tensors import is_fp8, without_autocast

CHUNK = 256  # keys per item at most, tokens
TILES = (1, 8, 64)  # queries per item: the smallest that holds all of a sequence's, else the largest
SLAB_BYTES = 16 << 20  # K or V and scores of the items that run at once
SHORT = 4096  # tokens of all sequences of a decode on a CPU that are gathered at once
CACHE_BYTES = 2 << 20  # K or V that a CPU gathers before it multiplies


@dataclass(frozen=True)
class Tiles:
    """Runs of queries of one sequence each; int64 [num_tiles] but for `size`.

    Queries past `count` are padding and repeat the last.
    """

    sequence: torch.Tensor  # row of the block table
    token: torch.Tensor  # row of q with the first query
    position: torch.Tensor  # of the first query in its sequence; below 0: it sees nothing
    count: torch.Tensor
    size: int


def plan(seq_lens, k_cache, num_q_heads, max_seq_len, window, lengths):
    """Nothing: the items here are of equal size, whatever the lengths."""
    return ()


@torch.no_grad()
@without_autocast
def decode(q, k_cache, v_cache, block_tables, seq_lens, options, out, lse, plan=None, form=None):
    """One query per sequence, its last token. A plan says nothing here.

    Takes checked arguments, writes `out` and `lse`; on a GPU it does not wait for the device.
    """
    plain = options.window is options.softcap is None and not is_fp8(k_cache)  # scales are FP8's alone
    if q.is_cpu and len(q) and plain:
        longest = int(seq_lens.max())
        if 0 < longest <= CHUNK and len(q) * longest <= SHORT:
            return decode_at_once(longest, q, k_cache, v_cache, block_tables, seq_lens, options, out, lse)
    row = torch.arange(q.shape[0], device=q.device)
    tiles = Tiles(row, row, seq_lens.long() - 1, torch.ones_like(row), 1)
    span = None if q.is_cpu else min(options.max_seq_len, options.window or options.max_seq_len)
    attend(tiles, span, q, k_cache, v_cache, block_tables, options, out, lse)


def decode_at_once(longest, q, k_cache, v_cache, block_tables, seq_lens, options, out, lse):
    """Decode of sequences that are short enough to be gathered whole: a third of the operations, since a call of few
    tokens takes as long as they are many.
    """
    group, block_size, dtype = (
        q.shape[1] // k_cache.shape[2],
        k_cache.shape[1],
        torch.promote_types(q.dtype, torch.float32),
    )
    positions, lengths = torch.arange(longest, device="cpu"), seq_lens[:, None].long()
    readable = torch.minimum(positions, lengths - 1).clamp_(min=0)  # [num_seqs, longest]
    block = block_tables.gather(1, readable >> (block_size.bit_length() - 1)).long()
    at = block.masked_fill_(lengths == 0, 0), readable & (block_size - 1)
    keys, values = k_cache[at].to(dtype), v_cache[at].to(dtype)  # [num_seqs, longest, num_kv_heads, head_dim]
    queries = (q.to(dtype) * options.scale).unflatten(1, (-1, group))  # [num_seqs, num_kv_heads, group, head_dim]
    scores = queries @ keys.permute(0, 2, 3, 1)
    scores.masked_fill_((positions >= lengths)[:, None, None], float("-inf"))
    if options.sinks is not None:  # one more key, whose value is 0
        column = options.sinks.to(dtype).view(-1, group, 1)
        scores = torch.cat([scores, column.expand(len(q), -1, -1, -1)], -1)
    result = scores.softmax(-1)[..., :longest] @ values.transpose(1, 2)
    out.copy_(result.masked_fill_((lengths == 0)[:, :, None, None], 0.0).flatten(1, 2))
    if lse is not None:
        lse.copy_(scores.logsumexp(-1).flatten(1))


@torch.no_grad()
@without_autocast
def prefill(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, options, out, lse):
    """Any number of queries per sequence, its last tokens; a few are not padded to the size of many."""
    first = query_start_loc.long()
    num_queries = first.diff()
    choice = torch.bucketize(num_queries, torch.tensor(TILES[:-1], device=q.device))
    for number, size in enumerate(TILES):
        num_tiles = torch.where(choice == number, ceil_div(num_queries, size), 0)  # of each sequence
        sequence = torch.repeat_interleave(num_tiles)
        before = (num_tiles.cumsum(0) - num_tiles)[sequence]  # tiles of earlier sequences
        done = size * (torch.arange(len(sequence), device=q.device) - before)  # queries before the tile
        count = (num_queries[sequence] - done).clamp(max=size)
        position = (seq_lens - num_queries)[sequence] + done
        tiles = Tiles(sequence, first[sequence] + done, position, count, size)
        attend(tiles, None, q, k_cache, v_cache, block_tables, options, out, lse)


def attend(tiles, span, q, k_cache, v_cache, block_tables, options, out, lse):
    """Run all tiles.

    `span`: an upper bound of the keys that a tile sees, or None to read the exact numbers on the host.
    """
    num_tiles, (num_q_heads, head_dim), (block_size, num_kv_heads) = (
        len(tiles.sequence),
        q.shape[1:],
        k_cache.shape[1:3],
    )
    group, dtype, device = num_q_heads // num_kv_heads, torch.promote_types(q.dtype, torch.float32), q.device
    _, scale, window, softcap, k_scale, v_scale, sinks = options
    if num_tiles == 0:
        return
    step = torch.minimum(torch.arange(tiles.size, device=device), tiles.count[:, None] - 1)
    tokens, query_positions = tiles.token[:, None] + step, tiles.position[:, None] + step  # [num_tiles, size]
    end = (tiles.position + tiles.count).clamp(min=0)  # a tile sees the positions begin <= p < end
    begin = torch.zeros_like(end) if window is None else (tiles.position - window + 1).clamp(min=0)
    spans = (end - begin).cpu() if span is None else torch.full((num_tiles,), span, device="cpu")
    chunk = max(1, min(CHUNK, int(spans.max())))
    item_tile, item_begin = cut(spans, chunk)

    queries = q[tokens].to(dtype) * (scale if k_scale is None else scale * k_scale)
    queries = queries.view(num_tiles, tiles.size, num_kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
    queries = queries.reshape(num_tiles, num_kv_heads, group * tiles.size, head_dim)
    nothing = torch.zeros(queries.shape[:3], dtype=dtype, device=device)
    state = SoftmaxState(nothing - float("inf"), nothing, torch.zeros_like(queries))

    at_once = max(1, SLAB_BYTES // (dtype.itemsize * chunk * num_kv_heads * (head_dim + group * tiles.size)))
    k_rows, v_rows = Rows(k_cache), Rows(v_cache)
    for start in range(0, len(item_tile), at_once):
        tile, first = item_tile[start : start + at_once], item_begin[start : start + at_once]
        touched = slice(int(tile[0]), int(tile[-1]) + 1)
        tile, first = tile.to(device, non_blocking=True), first.to(device, non_blocking=True)
        positions, behind = (begin[tile] + first)[:, None] + torch.arange(chunk, device=device), end[tile, None]
        readable = torch.minimum(positions, behind - 1).clamp(min=0)  # [items, chunk]
        block = block_tables[tiles.sequence[tile, None], readable >> (block_size.bit_length() - 1)].long()
        block = torch.where(behind > 0, block, 0)  # a sequence without tokens may have no valid entry
        offset = readable & (block_size - 1)  # a block size is a power of two
        k_index = k_rows.index(block, offset)
        v_index = k_index if v_rows.strides == k_rows.strides else v_rows.index(block, offset)

        scores = k_rows.multiply(queries[tile], k_index, transposed=True)  # [items, num_kv_heads, group * size, chunk]
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        positions, last = positions[:, None, :], query_positions[tile, :, None]
        hidden = (
            positions > last if window is None else (positions > last) | (positions <= last - window)
        )  # [items, size, chunk]
        scores.view(-1, num_kv_heads, group, tiles.size, chunk).masked_fill_(hidden[:, None, None], float("-inf"))
        m = scores.amax(-1)
        weights = scores.sub_(finite(m).unsqueeze(-1)).exp_()
        part = SoftmaxState(m, weights.sum(-1), v_rows.multiply(weights, v_index))
        merge_rows(state, touched, tile - touched.start, part)

    if sinks is not None:  # one more key, whose value is 0
        sink = sinks.to(dtype).view(num_kv_heads, -1).repeat_interleave(tiles.size, 1)  # [num_kv_heads, group * size]
        state.merge(SoftmaxState(sink, torch.ones_like(sink), torch.zeros_like(sink)[..., None]))

    def by_token(x):  # [num_tiles, num_kv_heads, group * size, ...] to [num_tiles, size, num_q_heads, ...]
        return x.unflatten(2, (group, tiles.size)).movedim(3, 1).flatten(2, 3)

    result = by_token(state.o / state.l.unsqueeze(-1))
    result = result.masked_fill((query_positions < 0)[..., None, None], 0.0)  # a query that stands before its sequence
    out[tokens] = (result if v_scale is None else result * v_scale).to(out.dtype)
    if lse is not None:
        lse[tokens] = by_token(state.lse()).to(lse.dtype)


def cut(spans, chunk):
    """Cut spans of so many keys into chunks: for each item its span's index and where in the span it begins, both
    int64.
    """
    chunks = ceil_div(spans, chunk)
    index = torch.repeat_interleave(chunks)
    return index, chunk * (torch.arange(len(index), device=spans.device) - (chunks.cumsum(0) - chunks)[index])


class Rows:
    """A cache as a table of rows, one for each token and KV head, from which many are copied at once, head first.

    All rows begin at multiples of one unit, so a view [num_rows, head_dim] with that step, rows overlapping if they
    must, serves a cache of any strides.
    """

    def __init__(self, cache):
        *sizes, head_dim = cache.shape
        *strides, step = cache.stride()
        unit = gcd(*strides) or 1
        self.strides = [stride // unit for stride in strides]
        num_rows = 1 + sum((size - 1) * stride for size, stride in zip(sizes, self.strides, strict=True))
        self.rows, self.dtype = bits(cache).as_strided((num_rows, head_dim), (unit, step)), cache.dtype
        self.heads = self.strides[2] * torch.arange(sizes[2], device=cache.device)[:, None]

    def index(self, block, offset):
        """The numbers of the rows at (block, offset) [items, chunk]: [items, num_kv_heads, chunk]."""
        return (block * self.strides[0] + offset * self.strides[1])[:, None, :] + self.heads

    def multiply(self, left, index, transposed=False):
        """left [items, num_kv_heads, rows, ...] @ what lies at `index`, [chunk, head_dim] of each item and KV head."""
        item_bytes = index[0].numel() * self.rows.shape[1] * left.dtype.itemsize
        few = max(1, CACHE_BYTES // item_bytes) if left.is_cpu else len(left)
        gathered = self.rows.new_empty(min(few, len(left)) * index[0].numel(), self.rows.shape[1])  # filled each time
        products = []
        for some, at in zip(left.split(few), index.split(few), strict=True):
            rows = torch.index_select(self.rows, 0, at.flatten(), out=gathered[: at.numel()])
            rows = rows.view(self.dtype).to(left.dtype).view(*at.shape, -1)
            products.append(some @ (rows.mT if transposed else rows))
        return torch.cat(products)


def merge_rows(state, touched, index, parts):
    """SoftmaxState.merge for many at once, in place: parts[i] into row touched.start + index[i] of `state`."""
    rows = SoftmaxState(state.m[touched], state.l[touched], state.o[touched])
    m = rows.m.scatter_reduce(0, index[:, None, None].expand_as(parts.m), parts.m, "amax")
    (l, o), (parts_l, parts_o) = rows.at_base(m), parts.at_base(m[index])
    state.m[touched] = m
    state.l[touched] = l.index_add_(0, index, parts_l)
    state.o[touched] = o.index_add_(0, index, parts_o)


@torch.no_grad()
@without_autocast
def write(k, v, k_cache, v_cache, slot_mapping, *, k_scale, v_scale):
    """Store k and v [num_tokens, num_kv_heads, head_dim] at their slots.

    A padding row becomes a second copy of a real one, so that the host never counts rows, which would wait for a GPU.
    """
    if len(slot_mapping) == 0 or len(k_cache) == 0:
        return
    if not k.is_cpu:  # where slots are not looked at before: none lies past the cache
        num_slots = k_cache.shape[0] * k_cache.shape[1]
        slot_mapping = torch.where(slot_mapping < num_slots, slot_mapping, -1)
    source = torch.where(slot_mapping >= 0, torch.arange(len(slot_mapping), device=k.device), slot_mapping.argmax())
    slots = slot_mapping[source]
    at = (
        slots.clamp(min=0) // k_cache.shape[1],
        slots.clamp(min=0) % k_cache.shape[1],
    )  # slot 0 keeps its content where all are padding
    for new, cache, scale in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
        rows = new[source] if cache.dtype == new.dtype else to_fp8(new[source], scale, cache.dtype)
        rows, cache = bits(rows), bits(cache)
        cache[at] = torch.where((slots >= 0)[:, None, None], rows, cache[at])


def to_fp8(rows, scale, dtype):
    """Divide by the scale and round; what is too large for `dtype` becomes its largest number."""
    limit = torch.finfo(dtype).max
    return (rows.float() / (1.0 if scale is None else float(scale))).clamp(-limit, limit).to(dtype)


def bits(x):
    """FP8 numbers as bytes, to be moved where no operator moves them as numbers; anything else as it is."""
    return x.view(torch.uint8) if is_fp8(x) else x
