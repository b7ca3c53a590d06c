"""The exercise of lesson 3.3 in which a pool loses blocks: how many, and one that does not, under tables that share."""

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part, equals, hidden


def _pool_part(title, drive):
    """drive(pool) works a fresh pool of 12 blocks and returns a sentence about what went wrong, or None."""

    def test(cls):
        if not isinstance(cls, type):
            raise Wrong(f"the class is expected, not {kind(cls)}")
        problem = call(lambda: drive(cls(12)), answer=cls)
        if problem:
            raise Wrong(problem)

    return Part(title, test, of=1)


def _whole(pool):
    lost = 12 - len(set(pool.free_blocks))
    if len(pool.free_blocks) != len(set(pool.free_blocks)):
        return "a block is in the free list twice: it will get two owners"
    if lost:
        return "after everyone has freed, blocks are missing from the free list"
    if any(pool.refs):
        return "after everyone has freed, some block still counts an owner"


def _alone(pool):
    blocks = pool.allocate(12)
    pool.free(blocks[:2])
    pool.free(blocks[2:])
    return _whole(pool)


def _shared(pool):
    prompt = pool.allocate(3)
    pool.share(prompt)
    pool.free(prompt)
    if {*prompt} & {*pool.free_blocks}:
        return "a block is given away while its other owner still uses it"
    if any(pool.refs[block] != 1 for block in prompt):
        return "after one of two owners has freed, each block must count one owner"
    pool.free(prompt)
    return _whole(pool)


def _mixed(pool):
    draw = hidden(0)
    prompt = pool.allocate(2)
    tables = [prompt]
    for _ in range(3):
        pool.share(prompt)
        tables.append(prompt + pool.allocate(draw.randint(1, 3)))
    draw.shuffle(tables)
    for i, table in enumerate(tables):
        pool.free(table)
        if {*pool.free_blocks} & {block for rest in tables[i + 1 :] for block in rest}:
            return "a block is given away while another owner still uses it"
    return _whole(pool)


LEAK = Exercise(
    "3.3-leak",
    "find and mend the leak",
    (
        equals(
            "blocks lost in the run above",
            3,
            of=0,
            mistakes=[
                (2, "the two shared blocks come back when the prompt's own table is freed; which do not?"),
                (5, "the two shared blocks come back later"),
                (0, "compare the free list with the number of blocks"),
            ],
        ),
        _pool_part("blocks with one owner", _alone),
        _pool_part("blocks with two owners", _shared),
        _pool_part("tables with both", _mixed),
    ),
    only_with=dict.fromkeys(("blocks with one owner", "blocks with two owners"), "tables with both"),
)
