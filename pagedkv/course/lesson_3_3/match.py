"""The exercise of lesson 3.3 in which the learner finds the beginning of a prompt by the names of its blocks.

The names are those that the learner's own function of the exercise before gives.
"""

from collections.abc import Callable, Iterator

from pagedkv.course.judge.calling import NotAttempted, call
from pagedkv.course.judge.compare import Wrong, alike, same
from pagedkv.course.judge.exercise import Exercise, Part, Role, hidden
from pagedkv.course.judge.stub import is_stub
from pagedkv.course.lesson_3_3.names import Names, block_names

SIZE, BLOCKS = 2, [12, 7, 42, 3]  # tokens in a block; the blocks of a stored sequence of eight tokens


def match(token_ids, block_size, known, salt=None, identity=None):
    """The blocks of the longest known beginning, without the one that holds the last token."""
    blocks = []
    for name in block_names(token_ids[:-1], block_size, salt, identity):
        if name not in known:
            break
        blocks.append(known[name])
    return blocks


def _part(title: str, cases: Callable) -> Part:
    """cases(names, draw) yields (prompt, known, salt, identity, right blocks)."""

    def test(answer):
        try:
            naming, matching = answer
        except (TypeError, ValueError):
            raise Wrong("two functions are expected, (block_names, match), as in the cell of the check") from None
        if is_stub(matching) or is_stub(naming):
            raise NotAttempted
        names = Names(naming, SIZE)
        drawn = list(cases(names, hidden(title)))
        got = [call(matching, prompt, SIZE, known, *owner) for prompt, known, *owner, _ in drawn]
        right = [blocks for *_, blocks in drawn]
        if alike(right, got):
            return
        for mistake, sentence in MISTAKES:
            if alike([mistake(names, *case) for case in drawn], got):
                raise Wrong(sentence)
        for a, b in zip(right, got, strict=True):
            same(a, b)

    return Part(title, test)


def _found(names, known: dict) -> list[int]:
    """The blocks of the names up to the first that is not known."""
    blocks = [known.get(name) for name in names]
    return blocks[: blocks.index(None)] if None in blocks else blocks


# Each takes the learner's names and a case, and returns what a usual mistake would.
MISTAKES = [
    (
        lambda names, prompt, known, *owner: _found(names(prompt, *owner[:2]), known),
        "the block of the prompt's last token is found too; that token is always computed, since its output is what "
        "the caller waits for",
    ),
    (
        lambda names, prompt, known, *owner: _found(names(prompt, *owner[:2]), known)[:-1],
        "the last block that is found is always dropped; only the prompt's last token has to be computed",
    ),
    (
        lambda names, prompt, known, *owner: [known[n] for n in names(prompt[:-1], *owner[:2]) if n in known],
        "blocks after one that is not known are of no use: stop at the first gap",
    ),
    (
        lambda names, prompt, known, *owner: owner[2] if len(owner[2]) == len(names(prompt[:-1], *owner[:2])) else [],
        "a beginning that is known is of use though what follows it is not: return the blocks before the gap",
    ),
    (
        lambda names, prompt, known, *owner: names(prompt[:-1], *owner[:2])[: len(owner[2])],
        "these are names; return the block ids that stand under them in `known`",
    ),
    (
        lambda names, prompt, known, *owner: len(owner[2]),
        "that is how many blocks are found; return their ids",
    ),
    (
        lambda names, prompt, known, *owner: _found(names(prompt[:-1]), known),
        "blocks of another salt or identity are found: hand both on to block_names",
    ),
    (
        lambda names, prompt, known, salt, identity, right: _found(names(prompt[:-1], salt), known),
        "blocks of another identity are found: hand it on to block_names",
    ),
    (
        lambda names, prompt, known, salt, identity, right: _found(names(prompt[:-1], None, identity), known),
        "blocks of another salt are found: hand it on to block_names",
    ),
]


def _stored(names, draw) -> tuple[list[int], dict]:
    tokens = [draw.randrange(50) for _ in range(SIZE * len(BLOCKS))]
    return tokens, dict(zip(names(tokens), BLOCKS, strict=True))


def _longest(names, draw) -> Iterator[tuple]:
    tokens, known = _stored(names, draw)
    for shared in range(len(tokens) + 1):
        yield [*tokens[:shared], *range(90, 95)], known, None, None, BLOCKS[: shared // SIZE]
    yield [90, 91, *tokens], known, None, None, []
    yield [90], {}, None, None, []


def _last_token(names, draw) -> Iterator[tuple]:
    tokens, known = _stored(names, draw)
    for length in range(1, len(tokens) + 1):
        yield tokens[:length], known, None, None, BLOCKS[: (length - 1) // SIZE]


def _gap(names, draw) -> Iterator[tuple]:
    tokens, known = _stored(names, draw)
    for lost, block in enumerate(BLOCKS):
        left = {name: other for name, other in known.items() if other != block}
        yield [*tokens, 99], left, None, None, BLOCKS[:lost]


def _others(names, draw) -> Iterator[tuple]:
    tokens = [draw.randrange(50) for _ in range(6)]
    owners = {
        (None, None): [0, 1, 2],
        ("pepper", None): [3, 4, 5],
        (None, "cat"): [6, 7, 8],
        ("pepper", "cat"): [9, 10, 11],
    }
    known = {name: b for owner, ids in owners.items() for name, b in zip(names(tokens, *owner), ids, strict=True)}
    for owner, blocks in [*owners.items(), (("cumin", "cat"), []), (("pepper", "dog"), [])]:
        yield [*tokens, 99], known, *owner, blocks


MATCH = Exercise(
    "3.3-match",
    "find the beginning of a prompt",
    (
        _part("the longest known beginning", _longest),
        _part("the last token is always computed", _last_token),
        _part("a block that was lost", _gap),
        _part("blocks of others", _others),
    ),
    role=Role("match", lambda: match, of=1),
)
