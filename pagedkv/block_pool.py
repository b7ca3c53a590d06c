"""A pool of equal blocks with reference counts: the physical side of a paged KV cache.

Any free block serves any sequence, so there is nothing to search and nothing to compact: blank blocks wait on a stack,
and free blocks that still hold reusable content wait in a queue, the least recently used at its head, and are taken
only when no blank one is left. Every operation costs O(1) per block, whatever the size of the pool.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable

from pagedkv.arguments import listed, shown, whole_number
from pagedkv.sizing import BLOCK_SIZE, MAX_BLOCK_SIZE, MAX_BLOCKS


class OutOfBlocks(RuntimeError):
    """More blocks were asked for than are free. Nothing was allocated."""

    def __init__(self, requested: int, free: int):
        super().__init__(f"{shown(requested)} block{'s' * (requested != 1)} requested, {free} free")
        self.requested = requested
        self.free = free


class BlockPool:
    """`num_blocks` blocks, named 0 to num_blocks - 1, of `block_size` token slots each (Kwon et al., SOSP 2023, section
    4.2).

    The pool hands out names and counts references; it holds no K or V. A block id is never a token slot.
    """

    def __init__(self, num_blocks: int, block_size: int = BLOCK_SIZE):
        self.num_blocks = whole_number("num_blocks", num_blocks, 1, MAX_BLOCKS)
        self.block_size = whole_number("block_size", block_size, 1, MAX_BLOCK_SIZE)
        self._refs = [0] * self.num_blocks
        self._blank = list(range(self.num_blocks - 1, -1, -1))  # a stack: block 0 is handed out first
        self._kept: dict[int, Callable[[int], None]] = {}  # block -> whom to tell when its content is lost
        self._idle: OrderedDict[int, None] = OrderedDict()  # free blocks among the kept, least recently freed first

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can hand out, those with reusable content included."""
        return len(self._blank) + len(self._idle)

    def ref_count(self, block_id: int) -> int:
        """How many owners hold the block; 0 when it is free."""
        return self._refs[whole_number("block_id", block_id, 0, self.num_blocks - 1)]

    def allocate(self, n: int) -> list[int]:
        """Take `n` blocks, one reference each: all of them or none. Raises OutOfBlocks when fewer are free."""
        if type(n) is not int or n < 0:
            n = whole_number("n", n)
        blank, refs, ids = self._blank, self._refs, []
        if n > len(blank):
            self._reclaim(n)
        for _ in range(n):
            ids.append(block_id := blank.pop())
            refs[block_id] = 1
        return ids

    def share(self, ids: Iterable[int]) -> None:
        """Take one more reference on each block.

        A free block may be shared only while it holds reusable content (see `keep`).
        """
        refs = self._refs
        for block_id in self._checked(ids, self._idle):
            if not refs[block_id]:
                del self._idle[block_id]
            refs[block_id] += 1

    def free(self, ids: Iterable[int]) -> None:
        """Give back one reference on each block, in this order.

        Raises ValueError, changing nothing, if one of them is free.
        """
        refs = self._refs
        for block_id in self._checked(ids):
            refs[block_id] = left = refs[block_id] - 1
            if left:
                continue
            if block_id in self._kept:
                self._idle[block_id] = None
            else:
                self._blank.append(block_id)

    def claim(self, block_id: int) -> bool:
        """Ask to write to a block that one holds. False if it has other owners, who would see it; else content kept in
        it is forgotten.

        `block_id` is not checked: this runs once for every token.
        """
        if self._refs[block_id] > 1:
            return False
        if block_id in self._kept:
            self.forget(block_id)
        return True

    def keep(self, block_id: int, on_lost: Callable[[int], None]) -> None:
        """Declare that a block holds reusable content: `on_lost(block_id)` is called once, when it is handed out again
        or forgotten.
        """
        block_id = whole_number("block_id", block_id, 0, self.num_blocks - 1)
        if not self._refs[block_id]:
            raise ValueError(f"block_id {block_id} is free: only allocated blocks can be kept")
        self.forget(block_id)
        self._kept[block_id] = on_lost

    def forget(self, block_id: int) -> None:
        """Declare a block's content worthless, as before it is overwritten. Nothing happens if it is not kept."""
        block_id = whole_number("block_id", block_id, 0, self.num_blocks - 1)
        if block_id in self._kept:
            self._kept.pop(block_id)(block_id)
            if block_id in self._idle:
                del self._idle[block_id]
                self._blank.append(block_id)

    def check(self, owners: Iterable[Iterable[int]] | None = None) -> None:
        """Raise AssertionError that says which invariant is broken.

        With `owners`, the block lists of everyone who holds blocks, also compare every reference count with the lists:
        a block with more references than owners has leaked, one with fewer will be given away while it is in use.
        """
        waiting = Counter([*self._blank, *self._idle])
        for block_id, refs in enumerate(self._refs):
            if refs < 0:
                raise AssertionError(f"block {block_id} has {refs} references")
            if waiting.pop(block_id, 0) != (refs == 0):
                state = (
                    f"has {refs} references and is in the free list"
                    if refs
                    else "has no reference and is not in the free list once"
                )
                raise AssertionError(f"block {block_id} {state}")
            if refs == 0 and (block_id in self._kept) != (block_id in self._idle):
                raise AssertionError(
                    f"block {block_id} is free and waits among the wrong ones: kept {block_id in self._kept}"
                )
        if waiting:
            raise AssertionError(f"the free list names {sorted(waiting)}, which are no blocks of this pool")
        if owners is not None:
            lists = [
                listed("owners", blocks, "lists of block ids")
                for blocks in listed("owners", owners, "lists of block ids")
            ]
            ids = [whole_number("owners", block_id, -1) for blocks in lists for block_id in blocks]
            held = Counter(block_id for block_id in ids if block_id != -1)  # -1: dropped
            for block_id, refs in enumerate(self._refs):
                if refs != (found := held.pop(block_id, 0)):
                    raise AssertionError(f"block {block_id} has {refs} references and {found} owners")
            if held:
                raise AssertionError(f"the owners name {sorted(held)}, which are no blocks of this pool")

    def _reclaim(self, n: int) -> None:
        """Make `n` blocks blank by giving up the content that was used least recently."""
        if n > self.num_free:
            raise OutOfBlocks(n, self.num_free)
        lost = [self._idle.popitem(last=False)[0] for _ in range(n - len(self._blank))]
        self._blank[:0] = reversed(lost)  # below the blank ones, so that those are handed out first
        for block_id in lost:
            self._kept.pop(block_id)(block_id)

    def _checked(self, ids: Iterable[int], revivable: Container[int] = ()) -> list[int]:
        """`ids` as a list: distinct blocks of this pool, each with a reference or among the `revivable`."""
        if type(ids) is not list:
            ids = listed("ids", ids, "block ids")
        refs, num_blocks = self._refs, self.num_blocks
        for block_id in ids:
            if type(block_id) is not int or not 0 <= block_id < num_blocks:
                return self._checked([whole_number("ids", i, 0, num_blocks - 1) for i in ids], revivable)
            if not refs[block_id] and block_id not in revivable:
                raise ValueError(f"ids names block {block_id}, which is free")
        if len(ids) > 1 and len(set(ids)) != len(ids):
            raise ValueError(f"ids names block {Counter(ids).most_common(1)[0][0]} more than once")
        return ids
