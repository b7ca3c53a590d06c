import random

import pytest

torch = pytest.importorskip("torch")

from private_names import occupy_gpu  # noqa: E402

from pagedkv.block_pool import BlockPool  # noqa: E402
from pagedkv.block_table import BlockTable  # noqa: E402
from pagedkv.device_tables import DeviceBlockTables, pack_block_tables  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def grown(pool, num_tokens):
    table = BlockTable(pool)
    table.append(num_tokens)
    return table


def rows(tensor):
    return tensor.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_packed_tables_are_padded_with_minus_one(device):
    pool = BlockPool(8, 4)
    tables = [grown(pool, 9), BlockTable(pool), grown(pool, 4)]
    packed = pack_block_tables(tables, device)
    assert packed.dtype == torch.int32 and packed.device.type == device
    assert rows(packed) == [[0, 1, 2], [-1, -1, -1], [3, -1, -1]]
    assert pack_block_tables([]).shape == (0, 0)
    assert pack_block_tables([BlockTable(pool)]).shape == (1, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_only_the_tables_named_are_there_and_the_address_stays(device):
    pool = BlockPool(16, 4)
    mirror = DeviceBlockTables(3, 4, device)
    a, b = grown(pool, 9), grown(pool, 4)
    tensor = mirror.update({0: a, 2: b})
    assert tensor.dtype == torch.int32
    assert rows(tensor) == [[0, 1, 2, -1], [-1] * 4, [3, -1, -1, -1]]
    address = tensor.data_ptr()
    a.append(4)
    assert rows(mirror.update({0: a, 2: b}))[0] == [0, 1, 2, 4]
    a.free()
    assert rows(mirror.update({2: b})) == [[-1] * 4, [-1] * 4, [3, -1, -1, -1]]
    c = grown(pool, 1)
    assert rows(mirror.update({0: c, 1: b}))[:2] == [
        c.blocks + [-1] * 3,
        [3, -1, -1, -1],
    ]  # a shorter table in a's row, b moved
    assert rows(mirror.update({})) == [[-1] * 4] * 3
    assert mirror.update({1: b}).data_ptr() == address


def test_another_table_at_the_same_version_is_sent():
    pool, mirror = BlockPool(8, 4), DeviceBlockTables(1, 3)
    a, b = grown(pool, 5), grown(pool, 5)
    assert a.version == b.version
    mirror.update({0: a})
    assert rows(mirror.update({0: b})) == [[2, 3, -1]]


def test_old_columns_that_change_are_sent_again():
    pool = BlockPool(16, 4)
    mirror, second = DeviceBlockTables(2, 4), DeviceBlockTables(2, 4)
    a = grown(pool, 6)
    b = a.fork()
    mirror.update({0: a, 1: b})
    b.append(1)  # copy-on-write replaces column 1
    assert rows(mirror.update({0: a, 1: b}))[1] == b.blocks + [-1] * 2
    b.truncate(3)
    other = pool.allocate(1)
    b.append(10)
    assert other[0] not in b.blocks
    assert rows(mirror.update({0: a, 1: b}))[1] == b.blocks
    b.truncate(4)
    assert rows(mirror.update({0: a, 1: b}))[1] == b.blocks + [-1] * 3
    assert rows(second.update({1: b}))[1] == b.blocks + [-1] * 3  # a second mirror, late


@pytest.mark.parametrize("device", DEVICES)
def test_many_random_steps_equal_a_fresh_packing(device):
    rng = random.Random(0)
    pool, mirror = BlockPool(400, 4), DeviceBlockTables(8, 16, device)
    tables = {}
    for _ in range(300):
        row = rng.randrange(8)
        if row not in tables:
            tables[row] = rng.choice([*tables.values()]).fork() if tables and rng.random() < 0.5 else BlockTable(pool)
        elif rng.random() < 0.2:
            tables.pop(row).free()
        elif rng.random() < 0.3:
            dropped = 4 * tables[row].blocks.count(-1)
            tables[row].truncate(rng.randint(dropped, tables[row].num_tokens))
        elif rng.random() < 0.2:
            tables[row].drop_before(rng.randint(0, tables[row].num_tokens))
        else:
            tables[row].append(rng.randint(0, min(9, 64 - tables[row].num_tokens)))
        expected = torch.full((8, 16), -1)
        for used, table in tables.items():
            expected[used, : len(table.blocks)] = torch.tensor(table.blocks)
        assert torch.equal(mirror.update(tables).cpu(), expected.int())


def test_only_what_changed_travels(monkeypatch):
    from pagedkv import device_tables

    sent = []
    send = device_tables._Staging.send
    monkeypatch.setattr(
        device_tables._Staging, "send", lambda self, numbers: (sent.append(len(numbers) // 3), send(self, numbers))[1]
    )
    pool, mirror = BlockPool(64, 4), DeviceBlockTables(4, 16)
    tables = {row: grown(pool, 30 + row) for row in range(4)}  # the next token of rows 2 only begins a block
    mirror.update(tables)
    assert sent.pop() == sum(len(table.blocks) for table in tables.values())
    mirror.update(tables)
    assert sent == []
    for table in tables.values():
        table.append(1)
    mirror.update(tables)
    assert sent == [1]


def bad_updates():
    pool = BlockPool(64, 4)
    table, freed = grown(pool, 4), grown(pool, 4)
    freed.free()
    yield from (
        ({0: table, 3: table}, ValueError, "a row of tables"),
        ({-1: table}, ValueError, "a row of tables"),
        ({1.0: table}, TypeError, "a row of tables"),
        ({True: table}, TypeError, "a row of tables"),
        ({0: table, 1: grown(pool, 17)}, ValueError, "the blocks of a table must be .* at most 4, not 5"),
        ({0: table, 1: freed}, ValueError, "freed"),
        ({0: table, 1: [1, 2]}, TypeError, "tables must hold BlockTables"),
        ({0: table, 1: None}, TypeError, "tables must hold BlockTables"),
        (None, TypeError, "tables must map rows to BlockTables, not be None"),
        ([table], TypeError, "tables must map rows to BlockTables"),
    )


@pytest.mark.parametrize(("tables", "error", "message"), [*bad_updates()])
def test_a_bad_update_changes_nothing(tables, error, message):
    mirror = DeviceBlockTables(3, 4)
    keep = grown(BlockPool(8, 4), 9)
    before = rows(mirror.update({2: keep}))
    with pytest.raises(error, match=message):
        mirror.update(tables)
    assert rows(mirror.update({2: keep})) == before


@pytest.mark.gpu
def test_updates_in_a_row_are_ordered_with_the_kernels_that_read_them():
    pool, mirror = BlockPool(4096, 1), DeviceBlockTables(64, 64, "cuda")
    tables = {row: grown(pool, 1) for row in range(64)}
    big = torch.randn(4096, 4096, device="cuda")
    seen = []
    for _ in range(60):
        for table in tables.values():
            table.append(1)
        for _ in range(3):
            big = big @ big * 1e-3  # the stream is behind the CPU: an early reuse of the pinned buffer would show
        seen.append((mirror.update(tables).clone(), [table.blocks for table in tables.values()]))
    for tensor, blocks in seen:
        assert [[block for block in row if block >= 0] for row in tensor.tolist()] == blocks


@pytest.mark.gpu
def test_a_captured_graph_reads_later_tables():
    pool, mirror = BlockPool(64, 4), DeviceBlockTables(2, 8, "cuda")
    table = grown(pool, 4)
    tensor = mirror.update({0: table})
    total = torch.zeros((), dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total.copy_(tensor.sum())
    table.append(20)
    mirror.update({0: table})
    graph.replay()
    assert total.item() == sum(table.blocks) - (16 - len(table.blocks))


@pytest.mark.gpu
def test_an_update_does_not_wait_for_the_gpu():
    pool, mirror = BlockPool(4096, 1), DeviceBlockTables(64, 64, "cuda")
    tables = {row: grown(pool, 1) for row in range(64)}
    mirror.update(tables)
    torch.cuda.synchronize()
    for table in tables.values():
        table.append(1)
    occupy_gpu(2_000_000_000)
    mirror.update(tables)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


@pytest.mark.parametrize("tables", [[1], [None], [[0, 1]]])
def test_only_block_tables_can_be_packed(tables):
    with pytest.raises(TypeError, match="tables must hold BlockTables"):
        pack_block_tables(tables)


def test_attention_with_a_window_needs_nothing_of_what_was_dropped():
    """The blocks that were given back are overwritten with NaN, and no bit of the output changes."""
    from pagedkv.attention.paged import paged_attention

    generator = torch.Generator().manual_seed(0)
    pool, window, length = BlockPool(20, 4), 9, 50
    table = BlockTable(pool)
    table.append(length)
    k, v = torch.randn(2, 20, 4, 1, 16, generator=generator)
    q = torch.randn(1, 2, 16, generator=generator)
    lengths = torch.tensor([length], dtype=torch.int32)

    def attend():
        packed = pack_block_tables([table])
        return paged_attention(q, k, v, packed, lengths, window=window, validate=True, backend="torch")

    before = attend()
    whole = table.blocks
    table.drop_before(length - window)
    gone = [block for block in whole if block not in table.blocks]
    k[gone], v[gone] = float("nan"), float("nan")
    assert len(gone) == 10 and torch.equal(attend(), before)
    table.drop_before(length - 1)
    with pytest.raises(ValueError, match="must be a block from 0 to 19, not -1"):
        attend()


def test_a_table_keeps_its_row_as_long_as_it_is_named():
    pool, mirror = BlockPool(16, 4), DeviceBlockTables(3, 4)
    a, b, c = (grown(pool, 4 * n) for n in (1, 2, 1))
    first, tensor = mirror.place({"a": a, "b": b, "c": c})
    assert sorted(first) == [0, 1, 2] and [rows(tensor)[row][0] for row in first] == [0, 1, 3]
    again, tensor = mirror.place({"c": c, "b": b})  # in the order asked for, each where it was
    assert again == [first[2], first[1]] and rows(tensor)[first[0]] == [-1] * 4
    d = grown(pool, 9)
    (free, *kept), tensor = mirror.place({"d": d, "b": b})
    assert free in (first[0], first[2]) and kept == [first[1]] and rows(tensor)[free][:3] == d.blocks
    assert mirror.place({"e": a, "b": b, "d": d})[0] == [3 - free - first[1], first[1], free]
    with pytest.raises(ValueError, match="tables must be at most 3, one a row, not 4"):
        mirror.place({"a": a, "b": b, "c": c, "d": d})
