"""Room on the host for the K and V of preempted requests. The scheduler calls four verbs and never sees a tensor."""

from typing import NamedTuple

from pagedkv.arguments import having
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.kv_cache import PagedKVCache


class Parked(NamedTuple):
    """Where the K and V of a preempted request are in host memory."""

    blocks: list[int]  # of the host's pool
    num_tokens: int  # of the sequence
    first_block: int = 0  # of the table; those before it had been dropped


class HostPool:
    """`num_blocks` blocks of host memory, shaped like those of `cache`. Blocks travel whole, all layers in one copy."""

    def __init__(self, cache: PagedKVCache, num_blocks: int):
        self.device_cache = having("cache", cache, "a PagedKVCache", "copy_blocks", "shape")
        self.host_cache = PagedKVCache(cache.shape, num_blocks, cache.block_size, "cpu", cache.dtype)
        self.pool = BlockPool(num_blocks, cache.block_size)

    @property
    def num_free(self) -> int:
        return self.pool.num_free

    def park(self, table: BlockTable) -> Parked | None:
        """Copy the K and V of a table to the host; None, and nothing copied, where there is no room."""
        blocks = [block_id for block_id in table.blocks if block_id != -1]
        if len(blocks) > self.pool.num_free:
            return None
        parked = Parked(self.pool.allocate(len(blocks)), table.num_tokens, len(table.blocks) - len(blocks))
        self.host_cache.copy_blocks(zip(blocks, parked.blocks, strict=True), source=self.device_cache)
        return parked

    def bring_back(self, parked: Parked, table: BlockTable, first_block: int) -> None:
        """Copy them into the blocks of `table`, from its logical block `first_block` on."""
        mine = parked.blocks[first_block - parked.first_block :]
        pairs = zip(mine, table.blocks[first_block : first_block + len(mine)], strict=True)
        self.device_cache.copy_blocks(pairs, source=self.host_cache)

    def drop(self, parked: Parked) -> None:
        self.pool.free(parked.blocks)
