"""Speed of the block structures, always as the ratio of two things timed in turn in one run."""

from collections import deque
from time import perf_counter

import pytest

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable

pytestmark = pytest.mark.speed


def ratio(one, other, rounds=15):
    """Best time of `one` over best time of `other`; each is a function that returns what to call, made afresh each round."""
    best = [float("inf")] * 2
    for _ in range(rounds):
        for i, make in enumerate((one, other)):
            work = make()
            start = perf_counter()
            work()
            best[i] = min(best[i], perf_counter() - start)
    return best[0] / best[1]


class PlainManager:
    """The allocator of small engines: an object for each block, a deque of free ids, a set of used ids, a method call for each block."""

    class Block:
        def __init__(self):
            self.reset(0)

        def reset(self, ref_count):
            self.ref_count, self.hash, self.token_ids = ref_count, -1, []

    def __init__(self, num_blocks):
        self.blocks = [self.Block() for _ in range(num_blocks)]
        self.free_ids, self.used_ids = deque(range(num_blocks)), set()

    def allocate(self, n):
        assert len(self.free_ids) >= n
        return [self.take(self.free_ids[0]) for _ in range(n)]

    def take(self, block_id):
        block = self.blocks[block_id]
        assert block.ref_count == 0
        block.reset(1)
        self.free_ids.remove(block_id)
        self.used_ids.add(block_id)
        return block_id

    def share(self, ids):
        for block_id in ids:
            if block_id in self.used_ids:
                self.blocks[block_id].ref_count += 1

    def free(self, ids):
        for block_id in reversed(ids):
            block = self.blocks[block_id]
            block.ref_count -= 1
            if block.ref_count == 0:
                self.give_back(block_id)

    def give_back(self, block_id):
        assert self.blocks[block_id].ref_count == 0
        self.used_ids.remove(block_id)
        self.free_ids.append(block_id)


class PlainSequence:
    """One token at a time with `PlainManager`: may it grow, grow it, where does the token go."""

    def __init__(self, manager, block_size=16):
        self.manager, self.block_size, self.block_table, self.num_tokens = manager, block_size, [], 0

    def __len__(self):
        return self.num_tokens

    @property
    def num_blocks(self):
        return (self.num_tokens + self.block_size - 1) // self.block_size

    @property
    def last_block_num_tokens(self):
        return self.num_tokens - (self.num_blocks - 1) * self.block_size

    def can_append(self):
        return len(self.manager.free_ids) >= (len(self) % self.block_size == 1)

    def may_append(self):
        if len(self) % self.block_size == 1:
            self.block_table.append(self.manager.take(self.manager.free_ids[0]))
        assert self.manager.blocks[self.block_table[-1]].ref_count > 0

    def decode(self):
        for _ in range(2000):
            self.num_tokens += 1
            if self.can_append():
                self.may_append()
            slots = []
            slots.append(self.block_table[-1] * self.block_size + self.last_block_num_tokens - 1)
        self.manager.free(self.block_table)


def ignore(block_id):
    pass


def cycle(pool, n):
    for _ in range(2000 // n):
        pool.free(pool.allocate(n))


def revive(pool):
    ids = pool.allocate(512)
    for block_id in ids:
        pool.keep(block_id, ignore)
    pool.free(ids)

    def work():
        for block_id in ids[::2]:
            pool.share([block_id])
            pool.free([block_id])

    return work


def decode(pool):
    table = BlockTable(pool)

    def work():
        for _ in range(2000):
            table.append(1)
        table.free()

    return work


@pytest.mark.parametrize("operation", [lambda pool: lambda: cycle(pool, 1), lambda pool: lambda: cycle(pool, 64), revive, decode])
def test_a_pool_of_a_million_blocks_is_as_fast_as_one_of_a_thousand(operation):
    large, small = BlockPool(1_000_000), BlockPool(1_000)
    large.free(large.allocate(1_000_000)[::3])
    assert ratio(lambda: operation(large), lambda: operation(small)) < 2


@pytest.mark.parametrize("n", [1, 4, 32])
def test_the_pool_is_as_fast_as_a_deque_and_a_set(n):
    ours, plain = BlockPool(10_000), PlainManager(10_000)
    assert ratio(lambda: lambda: cycle(ours, n), lambda: lambda: cycle(plain, n)) < 1.0


def test_appending_a_token_costs_about_what_it_does_without_sharing_forks_and_checks():
    pool, plain = BlockPool(10_000), PlainManager(10_000)
    assert ratio(lambda: decode(pool), lambda: PlainSequence(plain).decode) < 1.2  # 0.9 to 1.0 was measured


def test_updating_the_device_tables_beats_packing_them_again():
    pytest.importorskip("torch")
    from pagedkv.device_tables import DeviceBlockTables, pack_block_tables

    pool = BlockPool(256 * 520, 16)
    tables = [BlockTable(pool) for _ in range(256)]
    for i, table in enumerate(tables):
        table.append(511 * 16 + i % 16)
    rows, mirror = dict(enumerate(tables)), DeviceBlockTables(256, 520)
    mirror.update(rows)

    def grown(work):
        for table in tables:
            table.append(1)
        return work

    incremental = ratio(lambda: grown(lambda: mirror.update(rows)), lambda: lambda: pack_block_tables(tables), rounds=5)
    assert incremental < 1 / 5
