"""The exercise of lesson 3.3 in which the learner appends a token to a table that may be shared: copy-on-write."""

import copy

from pagedkv.course.judge.compare import Wrong, alike, same
from pagedkv.course.judge.exercise import Exercise, Part, call


def append_one(blocks, num_tokens, refs, free_blocks, block_size):
    """(slot of the next token, (source, destination) of the copy to make first or None); `refs` counts the owners of
    each block.
    """
    offset = num_tokens % block_size
    pair = None
    if offset == 0:
        blocks.append(free_blocks.pop())
        refs[blocks[-1]] = 1
    elif refs[blocks[-1]] > 1:
        pair = (blocks[-1], free_blocks.pop())
        refs[pair[0]] -= 1
        refs[pair[1]] = 1
        blocks[-1] = pair[1]
    return blocks[-1] * block_size + offset, pair


def _observe(function, case):
    """(result, table, reference counts, free blocks) after one call on copies."""
    blocks, num_tokens, refs, free_blocks, size = copy.deepcopy(case)
    result = call(function, blocks, num_tokens, refs, free_blocks, size, changes=(0, 2, 3))
    return result, blocks, refs, free_blocks


def _cow_part(title, cases):
    def test(function):
        seen = [_observe(function, case) for case in cases]
        right = [_observe(append_one, case) for case in cases]
        if alike(right, seen):
            return
        for wrong, sentence in COW_MISTAKES:
            if alike([_observe(wrong, case) for case in cases], seen):
                raise Wrong(sentence)
        for case, (result, *state), (my_result, *my_state) in zip(cases, right, seen, strict=True):
            blocks, num_tokens, *_, size = case
            if result[1] and my_state[0] == blocks and _is_pair(my_result) and my_result[1] is None:
                raise Wrong(COW_MISTAKES[0][1])
            if blocks and not num_tokens % size and my_state == [case[0], *case[2:4]]:
                raise Wrong("nothing is changed though the last block is full: take a new one, shared or not, in place")
            if state[2] != case[3] and my_state[2] == case[3][1:]:
                raise Wrong("take the new block from the end of the list: `free_blocks.pop()`")
            if any(my_state[1][block] for block in my_state[2] if block < len(my_state[1])):
                raise Wrong("a block in the list of free blocks still has owners; another table would get it too")
            if blocks and result[1] is None and _is_pair(my_result) and _is_pair(my_result[1]):
                raise Wrong(
                    "a block with one owner is written in place, without a copy"
                    if num_tokens % size
                    else "a full block is not written again, so it stays shared: only take a new one"
                )
            if blocks and my_state[1][blocks[-1]] < state[1][blocks[-1]] and not num_tokens % size:
                raise Wrong("a full block keeps its owners, this table among them: a new block is taken beside it")
            if blocks != state[0] == my_state[0] and my_state[1][state[0][-1]] == 0:
                raise Wrong("the new block has an owner, this table: its count is 1")
            if len(my_state[0]) > len(state[0]):
                raise Wrong("the last block has room for this token: a new one is due only when it is full")
            lists = zip(
                ("table is", "reference counts are", "free blocks are"),
                (case[0], *case[2:4]),
                state,
                my_state,
                strict=True,
            )
            for are, before, a, b in lists:
                if not alike(a, b):
                    said = (
                        "as before; the lists are changed in place"
                        if alike(before, b)
                        else "not what is expected afterwards"
                    )
                    raise Wrong(f"the {are} {said}")
            if not _is_pair(my_result):
                raise Wrong("the result is not (slot, copy), where copy is (source, destination) or None")
            for name, a, b in zip(("slot", "copy"), result, my_result, strict=True):
                try:
                    same(a, b)
                except Wrong as wrong:
                    raise Wrong(f"of the result, the {name} is wrong: {wrong}") from None

    return Part(title, test)


def _is_pair(value) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


def _in_place(blocks, num_tokens, refs, free_blocks, block_size):
    if num_tokens % block_size == 0:
        return append_one(blocks, num_tokens, refs, free_blocks, block_size)
    return blocks[-1] * block_size + num_tokens % block_size, None


def _keeps_the_old_reference(blocks, num_tokens, refs, free_blocks, block_size):
    old = blocks[-1] if blocks else None
    slot, pair = append_one(blocks, num_tokens, refs, free_blocks, block_size)
    if pair:
        refs[old] += 1
    return slot, pair


def _backwards(blocks, num_tokens, refs, free_blocks, block_size):
    slot, pair = append_one(blocks, num_tokens, refs, free_blocks, block_size)
    return slot, pair and pair[::-1]


def _in_a_list(blocks, num_tokens, refs, free_blocks, block_size):
    slot, pair = append_one(blocks, num_tokens, refs, free_blocks, block_size)
    return slot, pair and [pair]


def _no_copy(blocks, num_tokens, refs, free_blocks, block_size):
    return append_one(blocks, num_tokens, refs, free_blocks, block_size)[0], None


def _old_slot(blocks, num_tokens, refs, free_blocks, block_size):
    old = blocks[-1] if blocks else None
    slot, pair = append_one(blocks, num_tokens, refs, free_blocks, block_size)
    return (old * block_size + num_tokens % block_size if pair else slot), pair


COW_MISTAKES = [
    (_in_place, "the shared block is written in place: the other owner would read this token as its own"),
    (
        _keeps_the_old_reference,
        "the old block keeps the reference of this table, which no longer names it: it will never be free again",
    ),
    (_backwards, "the pair is (source, destination): from the old block to the new one"),
    (_in_a_list, "one copy at most is due: return the pair itself, not a list of pairs"),
    (_no_copy, "the tokens before this one must be copied into the new block: return the pair"),
    (_old_slot, "the slot is in the old block; the token goes into the copy"),
    (lambda *case: (case[1], append_one(*case)[1]), "that is the position; slots count over the whole pool"),
    (lambda *case: (case[1] % case[4], append_one(*case)[1]), "that is the offset; slots count over the whole pool"),
]


def _refs(**counts):
    refs = [0] * 16
    for name, count in counts.items():
        refs[int(name[1:])] = count
    return refs


def _grid(owners, full):
    """Tables of one to three blocks of 3, filled to every remainder, whose last block has each count in `owners`."""
    for num_tokens in range(1, 10):
        blocks = [3, 6, 2][: -(-num_tokens // 3)]
        for count in owners if (num_tokens % 3 == 0) in full else ():
            refs = _refs(**{f"b{block}": 4 for block in blocks[:-1]}, **{f"b{blocks[-1]}": count})
            yield blocks, num_tokens, refs, [8, 0], 3


COW = Exercise(
    "3.3-cow",
    "copy on write",
    (
        _cow_part(
            "a block of its own",
            [
                ([3], 2, _refs(b3=1), [8, 5], 4),
                ([3, 6], 7, _refs(b3=2, b6=1), [8, 5], 4),
                *_grid(owners=(1,), full=(False, True)),
            ],
        ),
        _cow_part(
            "a shared, partly filled block",
            [
                ([3], 2, _refs(b3=2), [8, 5], 4),
                ([3, 6], 5, _refs(b3=4, b6=3), [8, 5], 4),
                *_grid(owners=(2, 3, 4), full=(False,)),
            ],
        ),
        _cow_part(
            "a shared, full block",
            [
                ([3], 4, _refs(b3=2), [8, 5], 4),
                ([3, 6], 8, _refs(b3=2, b6=2), [8, 5], 4),
                *_grid(owners=(2, 3, 4), full=(True,)),
            ],
        ),
        _cow_part("the first token", [([], 0, _refs(), [8, 5], size) for size in (4, 1, 3)]),
    ),
)
