"""What the block structures do for each operation, counted: it does not grow with the pool, the table or the batch."""

import sys
import tracemalloc

import pytest

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable


def lines_run(work) -> int:
    """Lines of Python that `work()` runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def bytes_taken(work) -> int:
    """Most bytes that `work()` holds at a time beyond those that were there."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def one(pool):
    return lambda: pool.free(pool.allocate(1))


def many(pool):
    return lambda: pool.free(pool.allocate(64))


def revive(pool):
    ids = pool.allocate(512)
    for block_id in ids:
        pool.keep(block_id, lambda block_id: None)
    pool.free(ids)
    return lambda: (pool.share([ids[7]]), pool.free([ids[7]]))


def decode(pool):
    table = BlockTable(pool)

    def work():
        for _ in range(100):
            table.append(1)
        table.free()

    return work


@pytest.mark.parametrize("operation", [one, many, revive, decode])
def test_an_operation_does_not_see_how_large_the_pool_is(operation):
    large, small = BlockPool(1_000_000), BlockPool(1_000)
    large.free(large.allocate(1_000_000)[::3])
    assert lines_run(operation(large)) == lines_run(operation(small))
    assert bytes_taken(operation(large)) < bytes_taken(operation(small)) + 2_000


@pytest.mark.parametrize("n", [1, 4, 32])
def test_the_pool_runs_a_few_lines_a_block(n):
    pool = BlockPool(10_000)
    assert lines_run(lambda: pool.allocate(n)) <= 8 + 3 * n
    assert lines_run(lambda: pool.free(range(n))) <= 15 + 8 * n


def test_appending_asks_the_pool_once_a_block_and_runs_a_few_lines_a_token(monkeypatch):
    pool, asked, allocate = BlockPool(1_000), [], BlockPool.allocate
    monkeypatch.setattr(BlockPool, "allocate", lambda self, n: asked.append(n) or allocate(self, n))
    table = BlockTable(pool)
    lines = [lines_run(lambda: table.append(1)) for _ in range(2000)]
    assert sum(asked) == len(table.blocks) == 125
    assert max(lines) <= 45 and sorted(lines)[1000] <= 30
    table.append(1600)
    assert len([n for n in asked if n]) <= 126  # a long prompt takes its blocks at once
