"""Reuse of full blocks: two prompts that begin with the same tokens need the K/V of that beginning only once.

K/V at a position depend on every token up to it, so a block is named by a hash of its own tokens and of the name of the
block before it. A hash only finds a candidate: what is compared on a hit is the tokens, and the identity of the block
before.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from pagedkv.arguments import listed
from pagedkv.block_pool import BlockPool


def block_hash(parent: bytes, content: bytes) -> bytes:
    """The name of a block with this content after the block named `parent`."""
    return blake2b(parent + content, digest_size=16).digest()


def hash_blocks(token_ids: Iterable[int], block_size: int, salt: str | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, content) of each full block of `token_ids`; the content is the tokens as bytes."""
    token_ids = listed("token_ids", token_ids, "whole numbers")  # an array is made from a list in half the time
    try:
        content = array("q", token_ids).tobytes()
    except (TypeError, OverflowError) as error:
        raise TypeError(f"token_ids must be whole numbers of at most 64 bits: {error}") from None
    step = 8 * block_size
    name = block_hash(b"", repr(salt).encode())
    for start in range(0, len(content) - step + 1, step):
        piece = content[start : start + step]
        name = block_hash(name, piece)
        yield name, piece


@dataclass(eq=False, slots=True)
class _Entry:
    name: bytes
    content: bytes
    parent: "_Entry | None"
    block_id: int


class PrefixCache:
    """Finds the full blocks of `pool` that hold the K/V of a prompt's beginning.

    A cached block without references stays free for others and keeps its content until the pool hands it out, the least
    recently used first. Each cache sees only what was inserted into it; the `salt`, a string, also gives each tenant
    hashes of its own.
    """

    def __init__(self, pool: BlockPool, salt: str | None = None):
        if not isinstance(pool, BlockPool):
            raise TypeError(f"pool must be a BlockPool, not {pool!r}")
        if salt is not None and not isinstance(salt, str):
            raise TypeError(f"salt must be a string or None, not {salt!r}")
        self._pool = pool
        self._salt = salt
        self._by_name: dict[bytes, _Entry] = {}
        self._by_block: dict[int, _Entry] = {}

    def __len__(self) -> int:
        """Blocks whose content can be found, in use or not."""
        return len(self._by_block)

    def match(self, token_ids: list[int]) -> list[int]:
        """The blocks that hold the longest known prefix, with one reference taken on each, as
        `BlockTable(pool, blocks)` expects.

        At least the last token is left to compute, since its output is what the caller waits for: a prompt of exactly
        two cached blocks matches one.
        """
        blocks, parent, token_ids = [], None, listed("token_ids", token_ids, "whole numbers")
        for name, content in hash_blocks(token_ids[:-1], self._pool.block_size, self._salt):
            parent = self._find(name, content, parent)
            if parent is None:
                break
            blocks.append(parent.block_id)
        self._pool.share(blocks)
        return blocks

    def insert(self, token_ids: list[int], blocks: list[int]) -> None:
        """Make the full blocks of a sequence findable. `blocks` is its table; K/V of `token_ids` must be in it or about
        to be written.

        Where another block is known to hold the same content already, that one stays known and this one remains its
        owner's alone.
        """
        blocks = listed("blocks", blocks, "block ids")
        names = list(hash_blocks(token_ids, self._pool.block_size, self._salt))
        if len(blocks) < len(names) or len(set(blocks)) != len(blocks):
            raise ValueError(
                f"blocks must be at least {len(names)} distinct blocks, one for every full block of tokens, not "
                f"{blocks}"
            )
        for block_id in blocks[: len(names)]:
            if not self._pool.ref_count(block_id):
                raise ValueError(f"blocks names block {block_id}, which is free")
        parent = None
        for (name, content), block_id in zip(names, blocks, strict=False):
            parent = self._find(name, content, parent) or self._add(_Entry(name, content, parent, block_id))

    def _find(self, name: bytes, content: bytes, parent: _Entry | None) -> _Entry | None:
        entry = self._by_name.get(name)
        return entry if entry and entry.content == content and entry.parent is parent else None

    def _add(self, entry: _Entry) -> _Entry:
        if entry.name in self._by_name:  # a colliding hash, or the orphan of a parent that was evicted
            self._pool.forget(self._by_name[entry.name].block_id)
        self._pool.keep(entry.block_id, self._lose)
        self._by_name[entry.name] = self._by_block[entry.block_id] = entry
        return entry

    def _lose(self, block_id: int) -> None:
        del self._by_name[self._by_block.pop(block_id).name]
