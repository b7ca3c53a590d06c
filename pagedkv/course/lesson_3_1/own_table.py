"""The exercise of lesson 3.1 in which the learner writes a block table, judged beside a plain one over a plain pool."""

from collections.abc import Iterator

from pagedkv.block_pool import OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.course.judge.exercise import Exercise, Role
from pagedkv.course.lesson_3_1.walk import Failed, Walk, attempt, machine_parts, method

NUM_BLOCKS, BLOCK_SIZE = 6, 3
NAMES = "AB"  # of the two tables over one pool


class PlainPool:
    """A pool that has what the exercise before asks for and nothing else; its blocks come in no order."""

    def __init__(self):
        self.block_size, self.num_free = BLOCK_SIZE, NUM_BLOCKS
        self._ids, self._held = [5, 0, 3, 1, 4, 2], []

    def allocate(self, n):
        if n < 0:
            raise ValueError("the pool is asked for fewer than no blocks")
        if n > self.num_free:
            raise OutOfBlocks(n, self.num_free)
        ids, self._ids = self._ids[len(self._ids) - n :][::-1], self._ids[: len(self._ids) - n]
        self._held += ids
        self.num_free -= n
        return ids

    def free(self, ids):
        ids = list(ids)
        if len(set(ids)) != len(ids) or not set(ids) <= set(self._held):
            raise ValueError(f"blocks {ids} are given back, and {self._held} are held")
        self._held = [block for block in self._held if block not in ids]
        self._ids += ids
        self.num_free += len(ids)

    def held(self) -> list[int]:
        return sorted(self._held)


class _Pair:
    """A learner's table, and what it should hold: blocks, number of tokens."""

    def __init__(self, cls, pool, name):
        self.name, self.pool, self.blocks, self.num_tokens = name, pool, [], 0
        self.table = attempt(cls, pool, does="MyTable(pool)")
        if getattr(self.table, "blocks", None) or getattr(self.table, "num_tokens", None):
            raise Failed("a new table is not empty; what belongs to one table is made in __init__, not in the class")

    def append(self, n: int) -> None:
        needed = -(-(self.num_tokens + n) // BLOCK_SIZE) - len(self.blocks)
        if needed > self.pool.num_free:
            return self._append_too_many(n, needed)
        slots = attempt(method(self.table, "append"), n, does="append")
        start, self.num_tokens = self.num_tokens, self.num_tokens + n
        blocks = getattr(self.table, "blocks", None)
        if not isinstance(blocks, list):
            raise Failed("the table has no list called blocks")
        if blocks[: len(self.blocks)] != self.blocks:
            raise Failed(
                f"{self.name}.blocks is {blocks!r:.60}; the blocks {self.blocks} that it had stay in their places"
            )
        if len(blocks) != (right := len(self.blocks) + needed):
            many = f"{right} block{'s' if right != 1 else ''}"
            raise Failed(f"{self.name}.blocks is {blocks!r:.60}; a length of {self.num_tokens} takes {many}")
        self.blocks = list(blocks)
        right = [self._slot(position) for position in range(start, self.num_tokens)]
        if not isinstance(slots, (list, tuple)) or list(slots) != right:
            raise Failed(f"append has returned {slots!r:.60}; with blocks {self.blocks} the new slots are {right}")

    def _append_too_many(self, n: int, needed: int) -> None:
        due, free = f"OutOfBlocks({needed}, {self.pool.num_free}) is due", self.pool.num_free
        error = attempt(method(self.table, "append"), n, allowed=OutOfBlocks, does=f"where {due}, append")
        if not isinstance(error, OutOfBlocks):
            raise Failed(f"append has returned where {due}")
        if self.pool.num_free != free:
            raise Failed(f"append has failed and yet taken blocks: ask the pool once, for all {needed} that it needs")
        if (error.requested, error.free) != (needed, free):
            raise Failed(f"append raises OutOfBlocks({error.requested}, {error.free}) where {due}")

    def check(self) -> None:
        for name, right in (("blocks", self.blocks), ("num_tokens", self.num_tokens)):
            seen = getattr(self.table, name, None)
            if seen != right:
                raise Failed(f"{self.name}.{name} is {seen!r:.60}; {right} is right")

    def translate(self) -> None:
        for position in range(self.num_tokens):
            block = self.blocks[position // BLOCK_SIZE]
            right = position // BLOCK_SIZE, position % BLOCK_SIZE, block, self._slot(position)
            got = attempt(method(self.table, "translate"), position, does=f"{self.name}.translate({position})")
            if not isinstance(got, (tuple, list)) or tuple(got) != right:
                raise Failed(
                    f"{self.name}.translate({position}) is {got!r:.60}; with blocks {self.blocks} {right} is right"
                )
        for position in (self.num_tokens, -1):
            where = f"{self.name}.translate({position})"
            holds = f"{self.num_tokens or 'no'} token{'s' if self.num_tokens != 1 else ''}"
            due = f"the table holds {holds}, so ValueError is due"
            got = attempt(method(self.table, "translate"), position, allowed=ValueError, does=f"{due}; {where}")
            if not isinstance(got, ValueError):
                raise Failed(f"{due}; {where} is {got!r:.60}")

    def free(self) -> None:
        attempt(method(self.table, "free"), does=f"{self.name}.free()")
        self.blocks, self.num_tokens = [], 0

    def _slot(self, position: int) -> int:
        return self.blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE


def drive(cls, walk: Walk) -> Iterator[str]:
    """Make the calls of a walk on two fresh tables over one pool; see `machine_parts`."""
    pool = PlainPool()
    pairs = [_Pair(cls, pool, name) for name in NAMES]
    for name, number in walk:
        pair = pairs[number % 2]
        room = len(pair.blocks) * BLOCK_SIZE - pair.num_tokens + pool.num_free * BLOCK_SIZE
        n = {"append": (0, 1, 2, 5)[number // 2], "too many": room + 1 + number // 2}.get(name, 0)
        if name == "append" and n <= room or name == "too many":
            yield f"{pair.name}.append({n})"
            pair.append(n)
        elif name == "free" and pair.blocks:
            yield f"{pair.name}.free()"
            pair.free()
        elif name == "translate":
            pair.translate()
        held = sorted(block for one in pairs for block in one.blocks)
        if pool.held() != held:
            raise Failed(f"the pool has lent out blocks {pool.held()}, and the tables name {held}")
        for one in pairs:
            one.check()


class _Table(BlockTable):
    """The package's table as the exercise asks for it: no fork, so no copies to make, and usable after `free`."""

    def append(self, n):
        return super().append(n).slots

    def free(self):
        self.truncate(0)


TABLE = Exercise(
    "3.1-table",
    "a block table of your own",
    machine_parts(
        drive,
        {
            "append": ["append"],
            "translate": ["append", "translate"],
            "free, and begin anew": ["append", "free"],
            "too few free blocks: raise and change nothing": ["append", "free", "too many"],
        },
    ),
    role=Role("table", lambda: _Table, ("append", "translate", "free")),
)
