"""The exercise of lesson 3.1 in which the learner writes a block pool, judged beside a plain one."""

from collections.abc import Iterator

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.course.judge.exercise import Exercise, Role
from pagedkv.course.lesson_3_1.walk import Failed, Walk, attempt, machine_parts, method

NUM_BLOCKS, BLOCK_SIZE = 4, 2


def drive(cls, walk: Walk) -> Iterator[str]:
    """Make the calls of a walk on a fresh pool; see `machine_parts`."""
    yield f"MyPool({NUM_BLOCKS}, {BLOCK_SIZE})"
    pool = attempt(cls, NUM_BLOCKS, BLOCK_SIZE, does="your class")
    if getattr(pool, "block_size", None) != BLOCK_SIZE:
        raise Failed("the pool has no block_size, or not the one that it was given")
    owners = {}  # the plain pool: block -> how many hold it, in the order in which they were handed out
    refused = False
    _same_number_free(pool, owners)
    for name, number in walk:
        free = NUM_BLOCKS - len(owners)
        held, gone = list(owners), [block for block in range(NUM_BLOCKS) if block not in owners]
        if name == "allocate" and number <= free:
            yield f"allocate({number})"
            for block in _handed_out(attempt(method(pool, "allocate"), number, does="the pool"), number, owners):
                owners[block] = 1
        elif name == "too many":
            n = free + 1 + number
            yield f"allocate({n})"
            _refuses_to_allocate(pool, n, free)
        elif name in ("free", "share") and held:
            ids = [held[number % len(held)]] if number else held
            yield f"{name}({ids})"
            given = list(ids)
            attempt(method(pool, name), given, does="the pool")
            _left_alone(given, ids)
            _count(owners, ids, 1 if name == "share" else -1)
        elif name in ("free twice", "share free") and gone:
            ids = (held[: number // 2] + gone[:1])[:: -1 if number % 2 else 1]  # from either end of it, held ones first
            verb = name.split()[0]
            yield f"{verb}({ids})"
            _refuses(pool, verb, ids, gone[0])
            if getattr(pool, "num_free", free) != free:
                raise Failed("the pool has refused, and yet changed num_free: look at all ids before you touch one")
            refused = True
        else:
            continue
        _same_number_free(pool, owners, refused)


def _handed_out(ids, n: int, owners: dict) -> list[int]:
    if not isinstance(ids, (list, tuple)) or not all(type(block) is int for block in ids):
        raise Failed("the pool does not return a list of block ids")
    if len(ids) != n:
        raise Failed(f"the pool returns {len(ids)} blocks; {n} were asked for")
    if not all(0 <= block < NUM_BLOCKS for block in ids):
        raise Failed(f"the pool returns {list(ids)}; its blocks are 0 to {NUM_BLOCKS - 1}")
    if len(set(ids)) != n:
        raise Failed(f"the pool returns {list(ids)}, one block for two")
    for block in ids:
        if block in owners:
            raise Failed(f"the pool hands out block {block}, which somebody holds")
    return list(ids)


def _count(owners: dict, ids: list[int], change: int) -> None:
    for block in ids:
        owners[block] += change
        if not owners[block]:
            del owners[block]


def _refuses_to_allocate(pool, n: int, free: int) -> None:
    due = f"OutOfBlocks({n}, {free}) is due"
    error = attempt(method(pool, "allocate"), n, allowed=(OutOfBlocks, IndexError), does=f"where {due}, the pool")
    if type(error) is IndexError:
        raise Failed(f"the pool raises IndexError where {due}: compare with the free blocks before you take any")
    if not isinstance(error, OutOfBlocks):
        raise Failed(f"the pool returns {error!r:.40} where {due}")
    if (error.requested, error.free) != (n, free):
        raise Failed(f"the pool raises OutOfBlocks({error.requested}, {error.free}) where {due}")


def _refuses(pool, name: str, ids: list[int], block: int) -> None:
    given = list(ids)
    error = attempt(method(pool, name), given, allowed=ValueError, does="where ValueError is due, the pool")
    if not isinstance(error, ValueError):
        again = "has been given back already" if name == "free" else "is free"
        raise Failed(f"the pool has raised no ValueError, though block {block} {again}")
    _left_alone(given, ids)


def _left_alone(given: list, ids: list[int]) -> None:
    if given != ids:
        raise Failed(f"the caller's list `ids` is {given!r:.40}: leave it as it is, its owner still reads it")


def _same_number_free(pool, owners: dict, refused: bool = False) -> None:
    """`refused`: whether a call before has been, which a failing walk holds only where it matters."""
    if "num_free" not in dir(pool):
        raise Failed("the pool has no num_free")
    right, seen = NUM_BLOCKS - len(owners), pool.num_free
    if callable(seen):
        raise Failed("num_free is a method of the pool; make it an attribute, or put @property above it")
    if seen != right:
        why = "; a call that is refused changes no count: look at all ids before you touch one" if refused else ""
        raise Failed(f"the pool has num_free {seen!r:.20}; {right} of its {NUM_BLOCKS} blocks have no owner{why}")


POOL = Exercise(
    "3.1-pool",
    "a block pool of your own",
    machine_parts(
        drive,
        {
            "allocate and free": ["allocate", "free"],
            "all or nothing": ["allocate", "free", "too many"],
            "blocks with several owners": ["allocate", "free", "share"],
            "what is free can be neither freed nor shared": [
                "allocate",
                "free",
                "too many",
                "share",
                "free twice",
                "share free",
            ],
        },
    ),
    role=Role("pool", lambda: BlockPool, ("allocate", "share", "free")),
)
