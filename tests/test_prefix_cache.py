from hashlib import blake2b
from struct import pack

import pytest

from pagedkv import prefix_cache
from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.prefix_cache import PrefixCache, hash_blocks


class Server:
    """Pool and cache as an engine uses them: `run` serves one prompt from start to end."""

    def __init__(self, num_blocks, block_size=4, **options):
        self.pool = BlockPool(num_blocks, block_size)
        self.cache = PrefixCache(self.pool, **options)

    def start(self, prompt):
        table = BlockTable(self.pool, self.cache.match(prompt))
        cached = table.num_tokens
        table.append(len(prompt) - cached)
        return table, cached

    def run(self, prompt):
        table, cached = self.start(prompt)
        self.cache.insert(prompt, table.blocks)
        blocks = table.blocks
        table.free()
        return cached, blocks


def tokens(n, start=0):
    return list(range(start, start + n))


def test_the_last_token_is_always_computed():
    assert [Server(8).run(tokens(8))[0], Server(8).run(tokens(9))[0]] == [0, 0]
    server = Server(8)
    assert [server.run(tokens(8))[0] for _ in range(3)] == [0, 4, 4]
    server = Server(8)
    assert [server.run(tokens(9))[0] for _ in range(3)] == [0, 8, 8]
    server = Server(8)
    assert [server.run(tokens(1))[0], server.cache.match([]), len(server.cache)] == [0, [], 0]


def test_a_hit_taken_from_the_free_list_can_be_hit_again():
    server = Server(4)
    runs = [server.run(tokens(9)) for _ in range(3)]
    assert [cached for cached, _ in runs] == [0, 8, 8]
    assert runs[0][1][:2] == runs[1][1][:2] == runs[2][1][:2]


def test_the_tail_of_a_prefix_is_evicted_before_its_root():
    server = Server(3)
    _, blocks = server.run(tokens(12))
    assert server.pool.num_free == 3
    assert server.pool.allocate(1) == [blocks[2]]
    assert server.cache.match(tokens(13)) == blocks[:2]


def test_the_least_recently_used_prefix_is_evicted_first():
    server = Server(4)
    _, old = server.run(tokens(8))
    _, young = server.run(tokens(8, 100))
    assert server.run(tokens(9))[0] == 8  # the fifth block had to come from `young`, the tail of it
    assert server.cache.match(tokens(9, 100)) == young[:1]
    assert server.cache.match(tokens(9)) == old


def test_a_block_in_use_is_never_evicted():
    server = Server(3)
    table, _ = server.start(tokens(8))
    server.cache.insert(tokens(8), table.blocks)
    assert server.pool.allocate(1) not in ([block] for block in table.blocks)
    assert server.pool.num_free == 0
    assert server.cache.match(tokens(9)) == table.blocks


def test_equal_content_after_another_prefix_is_no_hit():
    p, q, r = [1, 2, 3, 4, 5, 6, 7, 8, 0], [9, 9, 9, 9, 5, 6, 7, 8, 0], [5, 6, 7, 8, 1]
    server = Server(8)
    server.run(p)
    assert server.cache.match(q) == server.cache.match(r) == []
    assert len(server.cache.match(p)) * 4 == 8


def hits_with_any_hash(prompts):
    server = Server(16)
    for prompt in prompts:
        cached, _ = server.run(prompt)
        yield cached


def test_hash_collisions_give_no_wrong_hit(monkeypatch):
    prompts = [
        [-1] * 4 + [7],
        [-2] * 4 + [7],
        [1, 2, 3, 4, 5, 6, 7, 8, 0],
        [5, 6, 7, 8, 1],
        [9, 9, 9, 9, 5, 6, 7, 8, 0],
    ]
    assert hash((-1,)) == hash((-2,))
    assert list(hits_with_any_hash(prompts)) == [0] * 5
    monkeypatch.setattr(prefix_cache, "block_hash", lambda parent, content: b"0")
    assert list(hits_with_any_hash(prompts)) == [0] * 5
    assert list(hits_with_any_hash([prompts[0]] * 2)) == [0, 4]


def test_a_colliding_block_takes_the_place_of_the_older(monkeypatch):
    monkeypatch.setattr(prefix_cache, "block_hash", lambda parent, content: b"0")
    server = Server(8)
    server.run(tokens(5))
    server.run(tokens(5, 100))
    assert len(server.cache) == 1
    assert [len(server.cache.match(tokens(5, start))) for start in (0, 100)] == [0, 1]
    server.pool.check()


def test_tenants_do_not_see_each_other():
    pool = BlockPool(8, 4)
    table = BlockTable(pool)
    table.append(8)
    alice, bob = PrefixCache(pool, salt="alice"), PrefixCache(pool, salt="bob")
    alice.insert(tokens(8), table.blocks)
    assert bob.match(tokens(9)) == []
    assert alice.match(tokens(9)) == table.blocks
    names = [[name for name, _ in hash_blocks(tokens(8), 4, salt)] for salt in (None, "None", "'None'", "", "bob")]
    assert len({name for chain in names for name in chain}) == 10


PICTURE = [7, -1, -1, -1, -1, -1, -1, 8]  # placeholders between two words


def test_equal_placeholders_with_different_pictures_are_told_apart_by_identity():
    server = Server(8)
    table, _ = server.start(PICTURE)
    server.cache.insert(PICTURE, table.blocks, identity="picture A")
    for other in ("picture B", None, ("picture A",)):
        assert server.cache.match([*PICTURE, 3], identity=other) == []
    assert server.cache.match([*PICTURE, 3], "picture A") == table.blocks


def test_numbers_made_from_a_picture_tell_it_apart_and_leave_the_text_before_it_shared():
    server, text = Server(8), [1, 2, 3, 4]
    pictures = {name: list(blake2b(name.encode(), digest_size=4).digest()) for name in "AB"}
    table, _ = server.start(text + pictures["A"])
    server.cache.insert(text + pictures["A"], table.blocks)
    assert server.cache.match([*text, *pictures["A"], 9]) == table.blocks
    assert server.cache.match([*text, *pictures["B"], 9]) == table.blocks[:1]


def test_equal_identities_are_the_same_whatever_they_look_like():
    server = Server(8)
    table, _ = server.start(tokens(8))
    server.cache.insert(tokens(8), table.blocks, identity=("adapter", frozenset({"a", "b"}), 1))
    assert server.cache.match(tokens(9), ("adapter", frozenset({"b", "a"}), 1.0)) == table.blocks

    class Alike:
        def __repr__(self):
            return "('adapter', 1)"

    assert server.cache.match(tokens(9), Alike()) == []


@pytest.mark.parametrize("identity", [["a"], {"a": 1}, ("a", [1])])
def test_an_identity_is_hashable(identity):
    cache = PrefixCache(BlockPool(2))
    for call in (lambda: cache.match([], identity), lambda: cache.insert([], [], identity=identity)):
        with pytest.raises(TypeError, match=r"identity must be hashable, such as a string or a tuple, not [\[{(]"):
            call()


def test_an_empty_cache_is_true():
    cache = PrefixCache(BlockPool(2))
    assert len(cache) == 0 and cache


def test_after_clear_nothing_is_found_and_no_owner_has_lost_a_block():
    server = Server(8)
    server.run(tokens(8, 100))  # left idle
    (a, _), (b, _) = server.start(tokens(8)), server.start(tokens(8))
    for table in (a, b):
        server.cache.insert(tokens(8), table.blocks, identity="adapter")
    server.cache.clear()
    assert len(server.cache) == 0
    assert server.cache.match(tokens(9, 100)) == server.cache.match(tokens(9), "adapter") == []
    server.pool.check([a.blocks, b.blocks])
    server.cache.insert(tokens(8), b.blocks)
    assert server.cache.match(tokens(9)) == b.blocks


def test_hashes_are_the_same_in_every_process():
    root = blake2b(b"None", digest_size=16).digest()
    first = blake2b(root + pack("<4q", 0, 1, 2, 3), digest_size=16).digest()
    second = blake2b(first + pack("<4q", 4, 5, 6, 7), digest_size=16).digest()
    assert [name for name, _ in hash_blocks(tokens(9), 4)] == [first, second]


def test_two_that_computed_the_same_prefix_keep_their_own_blocks():
    server = Server(8)
    (a, _), (b, _) = server.start(tokens(8)), server.start(tokens(8))
    server.cache.insert(tokens(8), a.blocks)
    server.cache.insert(tokens(8), b.blocks)
    assert len(server.cache) == 4
    assert server.cache.match(tokens(9)) == a.blocks
    server.pool.free(a.blocks)
    a.append(5), b.append(5)
    own = b.blocks
    a.free()
    assert all(server.pool.ref_count(block) == 1 for block in own)
    assert not set(server.pool.allocate(4)) & set(own)
    b.free()
    server.pool.check()


def test_the_second_copy_is_found_when_the_first_is_evicted():
    server = Server(6)
    server.cache.insert(tokens(8), (a := server.start(tokens(8))[0]).blocks)
    b, cached = server.start(tokens(8))
    assert (a.blocks, b.blocks, cached) == ([0, 1], [0, 2], 4)
    b.append(4)
    server.cache.insert(tokens(12), b.blocks)
    assert server.cache.match(tokens(9)) == [0, 1]  # the copy that was known first
    server.pool.free([0, 1])
    a.free()
    assert 1 in server.pool.allocate(3)
    assert server.cache.match(tokens(13)) == b.blocks == [0, 2, 3]


def test_a_prefix_that_outlived_its_root_is_found_again_when_the_root_comes_back():
    server = Server(6)
    table, _ = server.start(tokens(12))
    server.cache.insert(tokens(12), table.blocks)
    root, *rest = table.blocks
    server.pool.free([root])  # out of order: a table gives its root back last
    taken = server.pool.allocate(4)
    assert root in taken and len(server.cache) == 2
    assert server.cache.match(tokens(13)) == []
    server.cache.insert(tokens(12), [root, *rest])
    assert server.cache.match(tokens(13)) == [root, *rest]


def test_what_is_left_of_a_chain_whose_end_is_handed_out():
    server = Server(3)
    _, blocks = server.run(tokens(12))
    server.pool.allocate(1)
    assert server.cache.match(tokens(13)) == blocks[:2]


def test_content_that_is_overwritten_after_truncation_is_forgotten():
    server = Server(4)
    table, _ = server.start(tokens(8))
    server.cache.insert(tokens(8), table.blocks)
    table.truncate(6)
    assert len(server.cache.match(tokens(9))) == 2  # still whole, and shared now
    assert table.append(1).copies != []
    table.free()

    server = Server(4)
    table, _ = server.start(tokens(8))
    server.cache.insert(tokens(8), table.blocks)
    table.truncate(6)
    assert table.append(1).copies == []
    assert len(server.cache.match(tokens(9))) == 1

    server = Server(4)
    table, _ = server.start(tokens(8))
    server.cache.insert(tokens(8), table.blocks)
    table.truncate(5)
    table.append(3)  # three others
    assert server.cache.match(tokens(9)) == table.blocks[:1]


def test_insert_twice_and_longer_adds_only_what_is_new():
    server = Server(8)
    table, _ = server.start(tokens(8))
    for length in (8, 8):
        server.cache.insert(tokens(length), table.blocks)
    assert len(server.cache) == 2
    table.append(6)
    server.cache.insert(tokens(14), table.blocks)
    assert len(server.cache) == 3
    assert server.cache.match(tokens(14)) == table.blocks[:3]


def test_a_block_inserted_with_other_tokens_has_only_its_last_content():
    server = Server(8)
    table, _ = server.start(tokens(4))
    server.cache.insert(tokens(4), table.blocks)
    server.cache.insert(tokens(4, 50), table.blocks)
    assert server.cache.match(tokens(5)) == []
    assert server.cache.match(tokens(5, 50)) == table.blocks


def test_blocks_that_were_dropped_are_passed_over_while_their_content_is_known():
    server = Server(5)
    table, _ = server.start(tokens(8))
    server.cache.insert(tokens(8), table.blocks)
    table.append(4)
    table.drop_before(8)
    server.cache.insert(tokens(12), table.blocks, start=2)
    assert table.blocks == [-1, -1, 2] and server.cache.peek(tokens(13)) == (3, 2)
    server.pool.free(server.pool.allocate(4))  # the dropped ones lose their content
    table.append(4)
    known = len(server.cache)
    server.cache.insert(tokens(16), table.blocks, start=3)  # behind a block that it still holds
    server.cache.insert(tokens(16), table.blocks)  # from the beginning, which is lost: nothing
    assert len(server.cache) == known + 1 and server.cache.peek(tokens(17)) == (0, 0)
    table.free()
    server.pool.check([])


@pytest.mark.parametrize("blocks", [[0], [0, 0], [0, 5], [0, 9], [0, -2]])
def test_insert_refuses_blocks_that_are_not_those_of_the_tokens(blocks):
    server = Server(8)
    server.start(tokens(8))
    with pytest.raises(ValueError, match="block"):
        server.cache.insert(tokens(8), blocks)
    assert len(server.cache) == 0


@pytest.mark.parametrize("bad", [[1.5] * 9, ["a"] * 9, "abcdefghi", [2**63] * 9])
def test_tokens_are_whole_numbers(bad):
    server = Server(8)
    with pytest.raises(TypeError, match="token_ids"):
        server.cache.match(bad)


def test_a_salt_is_a_string():
    with pytest.raises(TypeError, match="salt must be a string or None, not 5"):
        PrefixCache(BlockPool(2), salt=5)


def test_tokens_may_come_as_numpy():
    np = pytest.importorskip("numpy")
    server = Server(8)
    server.run(tokens(9))
    assert server.run(np.arange(9))[0] == 8


@pytest.mark.parametrize(("library", "maker"), [("numpy", "array"), ("torch", "tensor")])
def test_blocks_of_another_library_are_lost_when_they_are_handed_out_again(library, maker):
    as_list = getattr(pytest.importorskip(library), maker)
    pool = BlockPool(4, 4)
    cache, blocks = PrefixCache(pool), pool.allocate(2)
    cache.insert(range(8), as_list(blocks))
    pool.free(blocks)
    found = cache.match(range(9))
    assert found == blocks and all(type(block_id) is int for block_id in found)
    pool.free(found)
    pool.allocate(4)
    assert len(cache) == 0 and cache.match(range(9)) == []
    with pytest.raises(ValueError, match="distinct blocks"):
        cache.insert(range(8), as_list([0, 0]))
