"""The block table of one sequence: which physical block holds each of its logical blocks.

Tokens are in order in the table and anywhere in the pool. A block is taken when its first token arrives, so a table of
n tokens always has ceil(n / block_size) blocks. A block that several tables share is copied by the first that writes to
it. Blocks that a window has left behind are given back before the others (`drop_before`); their entries are -1.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from pagedkv.arguments import listed, shown, whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.sizing import MAX_BLOCKS, ceil_div


class Appended(NamedTuple):
    """What `append` asks for: first copy the blocks, then write the new tokens to their slots."""

    slots: list[int]
    copies: list[tuple[int, int]]  # (source block, destination block), at most one


class Address(NamedTuple):
    """Where one token is: position -> (logical block, offset) -> table -> (physical block, slot)."""

    logical_block: int
    offset: int
    physical_block: int
    slot: int


class BlockTable:
    """The blocks of one sequence, in order (Kwon et al., SOSP 2023, sections 4.2 to 4.4). A freed table raises
    ValueError on every use.

    `blocks` are full blocks already in `pool`, such as a prefix found by `PrefixCache.match`; the table takes over
    their references.
    """

    def __init__(self, pool: BlockPool, blocks: Iterable[int] = ()):
        if not isinstance(pool, BlockPool):
            raise TypeError(f"pool must be a BlockPool, not {shown(pool)}")
        blocks = [
            whole_number("blocks", block_id, 0, pool.num_blocks - 1)
            for block_id in listed("blocks", blocks, "block ids")
        ]
        if not all(pool.ref_count(block_id) for block_id in blocks) or len(set(blocks)) != len(blocks):
            raise ValueError(f"blocks must be distinct allocated blocks, not {blocks}")
        self._pool = pool
        self._blocks: list[int] | None = blocks
        self._num_tokens = len(blocks) * pool.block_size
        self._dropped = 0  # entries at the front that are -1
        self._version = 0
        self._versions = [0] * len(blocks)  # the version at which each column was set; never falls along the table

    @property
    def pool(self) -> BlockPool:
        return self._pool

    @property
    def blocks(self) -> list[int]:
        """The physical block of each logical block, -1 if dropped, as a copy: the table that a kernel reads."""
        return self._live().copy()

    @property
    def num_tokens(self) -> int:
        """Tokens that have a slot. A token that is sampled but not yet run through the model has none."""
        if self._blocks is None:
            self._live()
        return self._num_tokens

    def token_slots(self) -> list[int]:
        """The slot of every token, in order, -1 if dropped: the other table convention, the same as a table of blocks
        of one token.
        """
        return self._slots(self._live())[: self._num_tokens]

    def translate(self, position: int) -> Address:
        """The address of the token at `position`, from 0. Raises ValueError outside the sequence, and where it was
        dropped.
        """
        blocks = self._live()
        if not self._num_tokens:
            raise ValueError(f"position {shown(position)} is out of range: the table is empty")
        first = self._dropped * self._pool.block_size
        if first == self._num_tokens:
            raise ValueError(f"position {shown(position)} is out of range: all {first} tokens were dropped")
        logical_block, offset = divmod(
            whole_number("position", position, first, self._num_tokens - 1), self._pool.block_size
        )
        physical_block = blocks[logical_block]
        return Address(logical_block, offset, physical_block, physical_block * self._pool.block_size + offset)

    def blocks_needed(self, n: int) -> int:
        """Free blocks that `append(n)` takes, the one for a copy-on-write included."""
        blocks = self._live()
        n = whole_number("n", n)
        copy = n > 0 and self._num_tokens % self._pool.block_size > 0 and self._pool.ref_count(blocks[-1]) > 1
        return ceil_div(self._num_tokens + n, self._pool.block_size) - len(blocks) + copy

    def append(self, n: int) -> Appended:
        """Reserve slots for the next `n` tokens, taking blocks only when the last one is full.

        Returns the slots in order, and the block copy to make before they are written if the last, partly filled block
        is shared.
        Raises OutOfBlocks, changing nothing, when the pool cannot serve all of them.
        """
        blocks, pool = self._blocks or self._live(), self._pool
        if type(n) is not int or n < 0:
            n = whole_number("n", n)
        start, size = self._num_tokens, pool.block_size
        offset = start % size  # tokens in the last block, 0 if it is full
        copies = self._grow(n, offset) if n and (not offset or offset + n > size or not pool.claim(blocks[-1])) else []
        self._num_tokens = start + n
        if n == 1:
            return tuple.__new__(
                Appended, ([blocks[-1] * size + offset], copies)
            )  # the one line that runs for every token: a call less
        return Appended(self._slots(blocks[start // size :])[offset : offset + n], copies)

    def _grow(self, n: int, offset: int) -> list[tuple[int, int]]:
        """Take the blocks that `append(n)` needs; if it writes to a shared last block, replace that by the first of
        them.
        """
        blocks, pool = self._blocks, self._pool
        shared = offset > 0 and pool.ref_count(blocks[-1]) > 1
        fresh, copies = pool.allocate(ceil_div(offset + n, pool.block_size) - (offset > 0) + shared), []
        if shared:
            copies.append((blocks[-1], fresh[0]))
            pool.free([blocks.pop()])
            self._versions.pop()
        elif offset:
            pool.claim(blocks[-1])
        self._version += 1
        self._versions += [self._version] * len(fresh)
        blocks += fresh
        return copies

    def fork(self) -> "BlockTable":
        """Another table of the same tokens in the same blocks; the first of the two to write to the last block copies
        it.
        """
        blocks = self._live()
        self._pool.share(blocks[self._dropped :])
        child = BlockTable(self._pool)
        child._dropped = self._dropped
        child._blocks, child._versions, child._num_tokens = blocks.copy(), [0] * len(blocks), self._num_tokens
        return child

    def drop_before(self, position: int) -> None:
        """Give back the blocks whose tokens all stand before `position`, which a window has left behind. `num_tokens`
        stays.
        """
        blocks = self._live()
        keep = whole_number("position", position, 0, self._num_tokens) // self._pool.block_size
        if keep > self._dropped:
            self._pool.free(reversed(blocks[self._dropped : keep]))
            self._version += 1
            for column in range(self._dropped, len(blocks)):  # those behind too: versions never fall along the table
                self._versions[column] = self._version
            blocks[self._dropped : keep] = [-1] * (keep - self._dropped)
            self._dropped = keep

    def skip(self, num_blocks: int) -> None:
        """Count the next `num_blocks` blocks as full and dropped, as when a sequence comes back that a window had left
        that far. Raises ValueError for a table that holds a block.
        """
        blocks = self._live()
        if self._dropped < len(blocks):
            raise ValueError(f"skip is for a table that holds no block, not {self!r}")
        blocks += [-1] * whole_number("num_blocks", num_blocks, 0, MAX_BLOCKS)
        self._dropped = len(blocks)
        self._num_tokens = self._dropped * self._pool.block_size
        self._version += 1
        self._versions += [self._version] * (len(blocks) - len(self._versions))

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens, as after speculative tokens were rejected, and give back the blocks
        behind them. Not fewer than were dropped.
        """
        blocks = self._live()
        num_tokens = whole_number("num_tokens", num_tokens, self._dropped * self._pool.block_size, self._num_tokens)
        keep = ceil_div(num_tokens, self._pool.block_size)
        if keep < len(blocks):
            self._pool.free(blocks[: keep - 1 if keep else None : -1])
            del blocks[keep:], self._versions[keep:]
            self._version += 1
        self._num_tokens = num_tokens

    def free(self) -> None:
        """Give all blocks back, the last first, so that a cached prefix loses its tail before its root."""
        self._pool.free(reversed(self._live()[self._dropped :]))
        self._blocks = None

    @property
    def version(self) -> int:
        """Grows whenever an entry of `blocks` is set or removed; see `changes`."""
        if self._blocks is None:
            self._live()
        return self._version

    def changes(self, version: int) -> tuple[int, list[int]]:
        """The first column set after `version`, and the blocks from there on: a mirror of the table at `version` lacks
        only these.

        Copy-on-write and truncation alter only the end of a table; a drop counts all from its first entry on as
        changed. So what changed is always the tail.
        """
        blocks = self._live()
        column = bisect_right(self._versions, version)
        return column, blocks[column:]

    def __repr__(self) -> str:
        return (
            "BlockTable(freed)"
            if self._blocks is None
            else f"BlockTable({self._blocks}, num_tokens={self._num_tokens})"
        )

    def _slots(self, blocks: list[int]) -> list[int]:
        size, slots = self._pool.block_size, []
        for block_id in blocks:
            slots += range(block_id * size, block_id * size + size) if block_id >= 0 else [-1] * size
        return slots

    def _live(self) -> list[int]:
        if self._blocks is None:
            raise ValueError("the table was freed and cannot be used any more")
        return self._blocks
