import random

import pytest

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import Address, BlockTable


def grown(pool, num_tokens):
    table = BlockTable(pool)
    table.append(num_tokens)
    return table


def test_a_block_is_taken_when_its_first_token_arrives():
    for one_by_one in (False, True):
        counts = []
        for length in range(10):
            table = BlockTable(BlockPool(3, 4))
            for n in [1] * length if one_by_one else [length]:
                table.append(n)
            counts.append(len(table.blocks))
        assert counts == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3]


def test_the_boundary_with_an_empty_pool():
    pool = BlockPool(1, 4)
    table = grown(pool, 3)
    assert pool.num_free == 0
    assert table.blocks_needed(1) == 0
    assert table.append(1).slots == [3]
    assert table.blocks_needed(1) == 1
    with pytest.raises(OutOfBlocks, match="1 block requested, 0 free"):
        table.append(1)
    assert (table.num_tokens, table.blocks) == (4, [0])


def test_appends_in_pieces_give_the_slots_of_the_new_tokens_only():
    pool = BlockPool(4, 16)
    table = grown(pool, 10)
    b0 = table.blocks[0]
    assert table.append(4) == ([b0 * 16 + i for i in range(10, 14)], [])
    assert table.num_tokens == 14
    slots = table.append(4).slots
    b1 = table.blocks[1]
    assert slots == [b0 * 16 + 14, b0 * 16 + 15, b1 * 16, b1 * 16 + 1]
    assert (table.num_tokens, len(table.blocks)) == (18, 2)
    assert table.append(0) == ([], [])


def test_growth_takes_only_what_is_missing():
    pool = BlockPool(8, 16)
    table = grown(pool, 64)
    table.append(0)
    assert len(table.blocks) == 4
    table.append(1)
    assert len(table.blocks) == 5
    table.free()
    assert pool.num_free == 8


def test_append_is_all_or_nothing():
    pool = BlockPool(3, 4)
    held = grown(pool, 8)
    table = BlockTable(pool)
    with pytest.raises(OutOfBlocks, match="3 blocks requested, 1 free"):
        table.append(9)
    assert (table.num_tokens, table.blocks, pool.num_free) == (0, [], 1)
    table.append(4)
    pool.check([held.blocks, table.blocks])


def test_slots_in_pieces_of_any_size_are_those_of_the_whole():
    rng = random.Random(0)
    for block_size in (1, 2, 3, 16):
        pool = BlockPool(64, block_size)
        rng.shuffle(pool._blank)
        table, slots = BlockTable(pool), []
        for _ in range(12):
            slots += table.append(rng.randrange(5)).slots
        assert slots == table.token_slots() == [table.translate(i).slot for i in range(table.num_tokens)]
        assert len(set(slots)) == table.num_tokens
        if block_size == 1:
            assert table.token_slots() == table.blocks


def fifty_tokens_in_12_7_42_3():
    pool = BlockPool(64)
    pool.allocate(64)
    pool.free([3, 42, 7, 12])  # the last freed is reused first
    return grown(pool, 50)


def test_the_four_steps_of_an_address():
    table = fifty_tokens_in_12_7_42_3()
    assert table.blocks == [12, 7, 42, 3]
    assert table.translate(37) == Address(logical_block=2, offset=5, physical_block=42, slot=677)
    assert table.translate(0) == (0, 0, 12, 192)
    assert table.translate(49) == (3, 1, 3, 49)
    assert len(grown(BlockPool(128), 2048).blocks) == 128


@pytest.mark.parametrize(
    ("bad", "error"), [(50, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError), ("3", TypeError)]
)
def test_positions_out_of_the_sequence_are_refused(bad, error):
    with pytest.raises(error, match="position"):
        fifty_tokens_in_12_7_42_3().translate(bad)


def test_an_empty_table_has_no_positions():
    table = BlockTable(BlockPool(1))
    assert (table.blocks, table.token_slots(), table.num_tokens) == ([], [], 0)
    with pytest.raises(ValueError, match="position 0 is out of range: the table is empty"):
        table.translate(0)


def test_the_first_to_write_a_shared_last_block_copies_it():
    pool = BlockPool(8, 4)
    a = grown(pool, 6)
    b = a.fork()
    assert [pool.ref_count(block) for block in a.blocks] == [2, 2]
    assert pool.num_free == 6
    assert b.blocks_needed(1) == 1
    slots, copies = b.append(1)
    assert copies == [(a.blocks[1], b.blocks[1])]
    assert slots == [b.blocks[1] * 4 + 2]
    assert b.blocks[0] == a.blocks[0] and b.blocks[1] != a.blocks[1]
    assert a.append(1) == ([a.blocks[1] * 4 + 2], [])  # alone again: no copy
    assert pool.num_free == 5
    pool.check([a.blocks, b.blocks])
    a.free()
    b.free()
    assert pool.num_free == 8


def test_a_full_shared_block_is_never_copied():
    pool = BlockPool(8, 4)
    a = grown(pool, 8)
    b = a.fork()
    assert b.append(1).copies == []
    assert a.append(0).copies == b.append(0).copies == []
    assert a.blocks == b.blocks[:2]


def test_copy_on_write_that_does_not_fit_changes_nothing():
    pool = BlockPool(2, 4)
    a = grown(pool, 6)
    b = a.fork()
    with pytest.raises(OutOfBlocks):
        b.append(1)
    assert a.blocks == b.blocks
    pool.check([a.blocks, b.blocks])
    a.free()
    assert b.append(1).copies == []


def test_a_copy_and_new_blocks_in_one_append():
    pool = BlockPool(8, 4)
    a = grown(pool, 3)
    b = a.fork()
    slots, copies = b.append(6)
    assert copies == [(a.blocks[0], b.blocks[0])]
    assert slots == b.token_slots()[3:]
    assert len(b.blocks) == 3


def test_truncate_gives_back_the_blocks_behind():
    pool = BlockPool(8, 4)
    table = grown(pool, 13)
    first = table.blocks
    for length, blocks in [(13, 4), (12, 3), (9, 3), (4, 1), (3, 1), (0, 0)]:
        table.truncate(length)
        assert table.blocks == first[:blocks]
        assert table.num_tokens == length
        assert pool.num_free == 8 - blocks
    assert table.append(5).slots == table.token_slots()


def test_rejected_tokens_in_a_shared_block_are_copied_when_it_is_written_again():
    pool = BlockPool(8, 4)
    a = grown(pool, 8)
    b = a.fork()
    b.truncate(6)
    assert b.append(2).copies == [(a.blocks[1], b.blocks[1])]
    pool.check([a.blocks, b.blocks])


@pytest.mark.parametrize(("bad", "error"), [(7, ValueError), (-1, ValueError), (2.0, TypeError), (False, TypeError)])
def test_truncate_cannot_lengthen(bad, error):
    table = grown(BlockPool(4, 4), 6)
    with pytest.raises(error, match="num_tokens"):
        table.truncate(bad)
    assert table.num_tokens == 6


@pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("1", TypeError)])
def test_append_wants_a_whole_number(bad, error):
    table = grown(BlockPool(4, 4), 6)
    for method in (table.append, table.blocks_needed):
        with pytest.raises(error, match="n must be a whole number"):
            method(bad)
    assert (table.num_tokens, len(table.blocks)) == (6, 2)


USES = {
    "append": lambda table: table.append(1),
    "append nothing": lambda table: table.append(0),
    "translate": lambda table: table.translate(0),
    "fork": lambda table: table.fork(),
    "free": lambda table: table.free(),
    "truncate": lambda table: table.truncate(0),
    "drop_before": lambda table: table.drop_before(0),
    "skip": lambda table: table.skip(0),
    "blocks": lambda table: table.blocks,
    "num_tokens": lambda table: table.num_tokens,
    "token_slots": lambda table: table.token_slots(),
    "blocks_needed": lambda table: table.blocks_needed(1),
    "version": lambda table: table.version,
    "changes": lambda table: table.changes(0),
}


@pytest.mark.parametrize("use", USES)
def test_a_freed_table_refuses_every_use(use):
    pool = BlockPool(4, 4)
    table = grown(pool, 6)
    table.free()
    with pytest.raises(ValueError, match="freed"):
        USES[use](table)
    assert pool.num_free == 4
    assert repr(table) == "BlockTable(freed)"


def test_uses_covers_every_public_name():
    names = {name for name in vars(BlockTable) if not name.startswith("_")}
    assert names - {"pool"} == set(USES) - {"append nothing"}


def test_accounting_counts_a_shared_block_once():
    pool = BlockPool(8, 4)
    a = grown(pool, 8)
    b = a.fork()
    a.append(1)
    b.append(1)
    assert 8 - pool.num_free == 4
    pool.check([a.blocks, b.blocks])


def test_a_table_takes_over_full_blocks():
    pool = BlockPool(4, 4)
    prefix = pool.allocate(2)
    table = BlockTable(pool, prefix)
    assert (table.num_tokens, table.blocks) == (8, prefix)
    table.append(1)
    table.free()
    assert pool.num_free == 4
    for bad in ([0], [0, 0], [9]):
        with pytest.raises(ValueError, match="block"):
            BlockTable(pool, bad)
    with pytest.raises(TypeError, match="pool must be a BlockPool"):
        BlockTable(4)


def test_the_blocks_handed_out_cannot_be_changed_from_outside():
    table = grown(BlockPool(4, 4), 6)
    table.blocks.append(3)
    table.fork().blocks.clear()
    assert len(table.blocks) == 2


def test_changes_since_a_version_are_the_tail_that_was_set():
    pool = BlockPool(8, 4)
    table = grown(pool, 6)
    assert table.changes(-1) == (0, table.blocks)
    seen = table.version
    table.append(2)
    assert table.version == seen
    table.append(1)
    assert table.version > seen
    assert table.changes(seen) == (2, table.blocks[2:])

    seen, keep = table.version, table.fork()
    table.append(1)  # copy-on-write sets column 2
    assert table.changes(seen) == (2, table.blocks[2:])

    seen = table.version
    table.truncate(4)
    assert table.version > seen
    assert table.changes(seen) == (1, [])
    table.append(5)
    assert table.changes(seen) == (1, table.blocks[1:])
    assert keep.changes(-1) == (0, keep.blocks)


def test_blocks_wholly_before_a_position_are_given_back():
    pool = BlockPool(8, 4)
    table = grown(pool, 10)
    for position, entries, free in ((3, [0, 1, 2], 5), (4, [-1, 1, 2], 6), (7, [-1, 1, 2], 6), (10, [-1, -1, 2], 7)):
        table.drop_before(position)
        assert (table.blocks, table.num_tokens, pool.num_free) == (entries, 10, free)
    table.drop_before(2)  # what is gone stays gone
    assert table.token_slots() == [-1] * 8 + [8, 9] and table.translate(8) == Address(2, 0, 2, 8)
    with pytest.raises(ValueError, match="position must be .*8 and at most 9"):
        table.translate(7)
    assert table.append(3).slots == [10, 11, 4] and table.blocks == [-1, -1, 2, 1]  # the latest freed comes first
    pool.check([table.blocks])
    table.free()
    assert pool.num_free == 8


def test_a_dropped_block_stays_with_its_other_owners():
    pool = BlockPool(8, 4)
    table = grown(pool, 12)
    other = table.fork()
    table.drop_before(9)
    third = table.fork()
    assert third.blocks == table.blocks == [-1, -1, 2] and other.blocks == [0, 1, 2] and pool.num_free == 5
    pool.check([table.blocks, other.blocks, third.blocks])
    other.free()
    assert pool.num_free == 7 and third.token_slots() == [-1] * 8 + [8, 9, 10, 11]
    third.free()
    pool.check([table.blocks])


def test_all_of_a_table_may_be_dropped_and_it_goes_on():
    pool = BlockPool(4, 4)
    table = grown(pool, 8)
    table.drop_before(8)
    assert table.blocks == [-1, -1] and pool.num_free == 4 and table.token_slots() == [-1] * 8
    with pytest.raises(ValueError, match="all 8 tokens were dropped"):
        table.translate(0)
    assert table.blocks_needed(1) == 1 and len(table.append(1).slots) == 1
    table.truncate(8)
    assert table.blocks == [-1, -1] and pool.num_free == 4


@pytest.mark.parametrize("bad", [-1, 11, 1.0, None])
def test_only_positions_of_the_sequence_can_be_dropped(bad):
    table = grown(BlockPool(8, 4), 10)
    with pytest.raises((ValueError, TypeError), match="position"):
        table.drop_before(bad)
    assert table.blocks == [0, 1, 2]


def test_truncate_cannot_bring_back_what_was_dropped():
    table = grown(BlockPool(8, 4), 10)
    table.drop_before(9)
    with pytest.raises(ValueError, match="num_tokens must be .*8 and at most 10"):
        table.truncate(7)
    table.truncate(8)
    assert table.blocks == [-1, -1]


def test_a_mirror_learns_what_was_dropped():
    table = grown(BlockPool(20, 4), 30)
    mirror, version = table.blocks, table.version
    table.drop_before(13)
    table.append(5)
    table.drop_before(20)
    column, tail = table.changes(version)
    assert column == 0 and mirror[:column] + tail == table.blocks
    column, tail = table.changes(table.version)
    assert tail == [] and column == len(table.blocks)


def test_a_window_of_any_size_holds_few_blocks():
    for window in (1, 3, 4, 9):
        pool = BlockPool(8, 4)
        table, most = BlockTable(pool), 0
        for length in range(1, 60):
            table.append(1)
            table.drop_before(max(0, length - window))
            most = max(most, pool.num_blocks - pool.num_free)
            assert all(slot >= 0 for slot in table.token_slots()[max(0, length - window) :])
        assert most <= (window - 1) // 4 + 2


def test_a_table_may_begin_behind_what_a_window_had_left():
    pool = BlockPool(4, 4)
    table = BlockTable(pool)
    seen = table.version
    table.skip(2)
    assert table.append(5).slots == [0, 1, 2, 3, 4] and table.blocks == [-1, -1, 0, 1] and table.num_tokens == 13
    assert table.changes(seen) == (0, [-1, -1, 0, 1]) and table.translate(8).slot == 0
    with pytest.raises(ValueError, match="skip is for a table that holds no block"):
        table.skip(1)
    table.drop_before(13)  # the last is not full
    table.free()
    pool.check([])
    emptied = BlockTable(pool)
    emptied.append(8)
    emptied.drop_before(8)
    emptied.skip(3)
    assert emptied.blocks == [-1] * 5 and emptied.num_tokens == 20 and emptied.append(1).slots
    with pytest.raises(ValueError, match="num_blocks"):
        BlockTable(pool).skip(-1)
