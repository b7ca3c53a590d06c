"""Reuse of full blocks: two prompts that begin with the same tokens need the K/V of that beginning only once.

K/V at a position depend on every token up to it, so a block is named by a hash of its own tokens and of the name of the
block before it. A hash only finds a candidate: what is compared on a hit is the tokens, and which block comes before.
"""

from array import array
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from pagedkv.arguments import hashable, listed, shown, whole_number
from pagedkv.block_pool import BlockPool


def block_hash(parent: bytes, content: bytes) -> bytes:
    """The name of a block with this content after the block named `parent`."""
    return blake2b(parent + content, digest_size=16).digest()


def hash_blocks(
    token_ids: Iterable[int], block_size: int, salt: str | None = None, parent: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, content) of each full block of `token_ids`, which come after the block named `parent` or at the
    beginning; the content is the tokens as bytes.
    """
    step = 8 * whole_number("block_size", block_size, 1)
    if parent is not None and not isinstance(parent, bytes):
        raise TypeError(f"parent must be the name of a block, bytes, or None, not {shown(parent)}")
    token_ids = listed("token_ids", token_ids, "whole numbers")  # an array is made from a list in half the time
    try:
        content = array("q", token_ids).tobytes()
    except (TypeError, OverflowError) as error:
        raise TypeError(f"token_ids must be whole numbers of at most 64 bits: {error}") from None
    name = parent or block_hash(b"", repr(salt).encode())
    for start in range(0, len(content) - step + 1, step):
        piece = content[start : start + step]
        name = block_hash(name, piece)
        yield name, piece


@dataclass(eq=False, slots=True)
class _Entry:
    key: tuple[Hashable, bytes]  # the identity of the requests that may use it, and the block's name
    content: bytes
    parent: "_Entry | None"
    blocks: dict[int, None] = field(default_factory=dict)  # every block that holds it, the first known first


class PrefixCache:
    """Finds the full blocks of `pool` that hold the K/V of a prompt's beginning.

    A cached block without references stays free for others and keeps its content until the pool hands it out, the least
    recently used first. Each cache sees only what was inserted into it; the `salt`, a string, gives its hashes names
    that no other salt has.

    An `identity`, any hashable, belongs to a request and says what its tokens do not: two requests share blocks only if
    theirs are equal. Give the adapter (LoRA) or the tenant; with pictures, whose tokens are all the same placeholder,
    the pictures' hashes, or put numbers made from a picture's hash in place of its placeholders, which leaves the text
    before the picture shared.
    """

    def __init__(self, pool: BlockPool, salt: str | None = None):
        if not isinstance(pool, BlockPool):
            raise TypeError(f"pool must be a BlockPool, not {shown(pool)}")
        if salt is not None and not isinstance(salt, str):
            raise TypeError(f"salt must be a string or None, not {shown(salt)}")
        self._pool = pool
        self._salt = salt
        self._by_key: dict[tuple[Hashable, bytes], _Entry] = {}
        self._by_block: dict[int, _Entry] = {}
        self.lookups = self.hits = 0  # tokens that `match` was asked for, and those that it found
        self.clears = 0  # calls of `clear`
        self.cache = None  # the tensors whose K and V the names stand for, once an engine uses them

    def __len__(self) -> int:
        """Blocks whose content is known, in use or not."""
        return len(self._by_block)

    def __bool__(self) -> bool:
        """True, also while it is empty: `if cache:` asks whether there is one."""
        return True

    def match(self, token_ids: Iterable[int], identity: Hashable = None) -> list[int]:
        """The blocks that hold the longest prefix known under this `identity`, with one reference taken on each, as
        `BlockTable(pool, blocks)` expects.

        At least the last token is left to compute, since its output is what the caller waits for: a prompt of exactly
        two cached blocks matches one.
        """
        token_ids = listed("token_ids", token_ids, "whole numbers")
        blocks = self._known(token_ids, identity)
        self._pool.share(blocks)
        self.lookups += len(token_ids)
        self.hits += len(blocks) * self._pool.block_size
        return blocks

    def peek(self, token_ids: Iterable[int], identity: Hashable = None) -> tuple[int, int]:
        """(blocks that `match` would give, how many of them wait in the pool's free list). Changes nothing."""
        blocks = self._known(listed("token_ids", token_ids, "whole numbers"), identity)
        return len(blocks), sum(not self._pool.ref_count(block_id) for block_id in blocks)

    def _known(self, token_ids: list[int], identity: Hashable) -> list[int]:
        blocks, parent = [], None
        for key, content in self._keys(token_ids[:-1], identity):
            parent = self._find(key, content, parent)
            if parent is None:
                break
            blocks.append(next(iter(parent.blocks)))
        return blocks

    def insert(
        self, token_ids: Iterable[int], blocks: Iterable[int], start: int = 0, *, identity: Hashable = None
    ) -> None:
        """Make the full blocks of a sequence findable under its `identity`. `blocks` is its table; K/V of `token_ids`
        must be in it or about to be written. `start`: so many of its blocks were inserted before with the same tokens,
        and need not be hashed again. Blocks that the table has dropped, -1, are passed over as long as their content is
        known, and nothing is inserted behind one that is lost: a prompt is found from its beginning on.

        Where other blocks hold the same content already, `match` goes on giving the one known longest; the others take
        its place when its content is lost.
        """
        last, start = self._pool.num_blocks - 1, whole_number("start", start)
        blocks = [whole_number("blocks", block_id, -1, last) for block_id in listed("blocks", blocks, "block ids")]
        entry = self._by_block.get(blocks[start - 1]) if 0 < start <= len(blocks) else None
        if entry is None or entry.key[:1] != (identity,):  # nothing to go on from: its content was lost meanwhile
            start, entry = 0, None
        token_ids = listed("token_ids", token_ids, "whole numbers")[start * self._pool.block_size :]
        blocks = blocks[start:]
        keys = list(self._keys(token_ids, identity, entry and entry.key[1]))
        held = [block_id for block_id in blocks if block_id != -1]
        if len(blocks) < len(keys) or len(set(held)) != len(held):
            raise ValueError(
                f"blocks must be at least {len(keys)} distinct blocks, one for every full block of tokens, not {blocks}"
            )
        for block_id in blocks[: len(keys)]:
            if block_id != -1 and not self._pool.ref_count(block_id):
                raise ValueError(f"blocks names block {block_id}, which is free")
        for (key, content), block_id in zip(keys, blocks, strict=False):
            known = self._find(key, content, entry)
            if known is None and block_id == -1:
                return
            entry = known or self._new(key, content, entry)
            if block_id != -1 and block_id not in entry.blocks:
                self._pool.keep(block_id, self._lose)
                entry.blocks[block_id] = None
                self._by_block[block_id] = entry

    def clear(self) -> None:
        """Forget every block, as when the model's weights have changed. Blocks in use stay their owners'; what those
        hold was computed before, so a scheduler makes none of it findable again (`clears` tells it).
        """
        self.clears += 1
        for block_id in list(self._by_block):
            self._pool.forget(block_id)

    def _keys(
        self, token_ids: Iterable[int], identity: Hashable, parent: bytes | None = None
    ) -> Iterator[tuple[tuple[Hashable, bytes], bytes]]:
        """(key, content) of each full block of `token_ids`, which come after the block named `parent`."""
        hashable("identity", identity)
        for name, content in hash_blocks(token_ids, self._pool.block_size, self._salt, parent):
            yield (identity, name), content

    def _find(self, key: tuple[Hashable, bytes], content: bytes, parent: _Entry | None) -> _Entry | None:
        entry = self._by_key.get(key)
        return entry if entry is not None and entry.content == content and entry.parent is parent else None

    def _new(self, key: tuple[Hashable, bytes], content: bytes, parent: _Entry | None) -> _Entry:
        if key in self._by_key:  # a colliding hash, or the orphan of a parent that was evicted
            for block_id in list(self._by_key[key].blocks):
                self._pool.forget(block_id)
        self._by_key[key] = entry = _Entry(key, content, parent)
        return entry

    def _lose(self, block_id: int) -> None:
        entry = self._by_block.pop(block_id)
        del entry.blocks[block_id]
        if not entry.blocks:
            del self._by_key[entry.key]
