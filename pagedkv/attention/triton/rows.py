"""What the rows of prefill's tiles stand for. A tile's rows are (position, head of a KV group) of one sequence; tiles
are counted over all sequences, and the host does not know where one begins.
"""

import triton
import triton.language as tl


@triton.jit
def find_tile(query_start_loc, num_seqs, tile, POSITIONS: tl.constexpr, SCAN: tl.constexpr):
    """Sequence and first query of row tile number `tile`; sequences start on a tile of their own. num_seqs when there
    are fewer tiles.
    """
    seq, before, done = 0, 0, 0
    for base in range(0, num_seqs, SCAN):
        rows = base + tl.arange(0, SCAN)
        inside = rows < num_seqs
        start = tl.load(query_start_loc + rows, inside, 0)
        tiles = tl.cdiv(tl.load(query_start_loc + 1 + rows, inside, 0) - start, POSITIONS)
        passed = (done + tl.cumsum(tiles) <= tile) & inside
        seq += tl.sum(passed.to(tl.int32))
        before += tl.sum(tl.where(passed, tiles, 0))
        done += tl.sum(tiles)
    return seq, (tile - before) * POSITIONS


@triton.jit
def find_heads(query_start_loc, seq_lens, seq, first, GROUP: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr):
    """What the rows of a tile stand for, from query `first` of the sequence on: head, token, position, and whether they
    stand for any; and the sequence's length.
    """
    POSITIONS: tl.constexpr = ROWS // HEADS
    SLICES: tl.constexpr = (GROUP + HEADS - 1) // HEADS
    start = tl.load(query_start_loc + seq)
    num_queries = tl.load(query_start_loc + seq + 1) - start
    length = tl.load(seq_lens + seq)
    rows = tl.arange(0, ROWS)
    query = first + rows // HEADS
    in_group = tl.program_id(0) % SLICES * HEADS + rows % HEADS
    head = tl.program_id(0) // SLICES * GROUP + in_group
    mine = (rows < POSITIONS * HEADS) & (query < num_queries) & (in_group < GROUP)
    return head.to(tl.int64), (start + query).to(tl.int64), length - num_queries + query, mine, length
