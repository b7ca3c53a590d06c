"""The exercise of lesson 3.3 in which the learner names full blocks by a chained hash.

Names may be of any kind, so nothing is compared with a reference: what must be equal and what must differ is checked.
"""

from collections.abc import Callable

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part, Role, hidden
from pagedkv.prefix_cache import hash_blocks


def block_names(token_ids, block_size, salt=None, identity=None):
    """The name of each full block, in order."""
    return [name for name, _ in hash_blocks(token_ids, block_size, repr((salt, identity)))]


class Names:
    """A learner's function; what it returns is looked at here, so that the parts compare names only."""

    def __init__(self, function, size: int = 2):
        self.function, self.size = function, size

    def __call__(self, token_ids, salt=None, identity=None) -> list:
        names = call(self.function, token_ids, self.size, salt, identity)
        if not isinstance(names, (list, tuple)):
            raise Wrong(f"a list of names is expected, not {kind(names)}")
        if len(names) != (full := len(token_ids) // self.size):
            why = "the partly filled last one has none" if len(names) > full else "the last full one has a name too"
            raise Wrong(f"a name is due for each full block; {why}")
        try:
            set(names)
        except TypeError:
            raise Wrong("a name is looked up in a dict, so it has to be hashable: a tuple is, a list is not") from None
        return list(names)


def _all_differ(one: list, other: list, sentence: str) -> None:
    if any(a == b for a, b in zip(one, other, strict=True)):
        raise Wrong(sentence)


def _part(title: str, look: Callable) -> Part:
    """look(names, size, draw) raises Wrong; several block sizes are tried."""

    def test(function):
        for size in (2, 1, 3, 16):
            look(Names(function, size), size, hidden(title))

    return Part(title, test)


def _full_blocks(names, size, draw):
    for length in (0, 1, size - 1, size, size + 1, 2 * size, 3 * size + 1, 5 * size):
        names([draw.randrange(50_000) for _ in range(length)])


def _same_beginning(names, size, draw):
    for blocks in (1, 2, 4):
        head = [draw.randrange(50_000) for _ in range(blocks * size)]
        tails = [[draw.randrange(50_000) for _ in range(size)] for _ in range(2)]
        for salt, identity in ((None, None), ("pepper", None), (None, "picture")):
            first = names(head + tails[0], salt, identity)[:blocks]
            if names(head + tails[0], salt, identity)[:blocks] != first:
                raise Wrong("the same call gives other names the second time")
            if names(head + tails[1], salt, identity)[:blocks] != first or names(head, salt, identity) != first:
                raise Wrong(
                    "blocks with the same tokens up to their end have different names; what follows must not count"
                )
            if names(tails[0] + head, salt, identity)[:1] == first[:1]:
                raise Wrong("blocks with different tokens have one name")


def _chain(names, size, draw):
    a, b, c, d = ([draw.randrange(50_000) for _ in range(size)] for _ in range(4))
    after = "a block has the same name after other tokens: its K and V depend on all tokens before it, so its name must"
    _all_differ(names(a + b), names(c + b), after)
    _all_differ(
        names(a + b + c + d)[1:], names(d + b + c + d)[1:], "tokens further back than the block before count too"
    )
    one, two, three = names(a + a + a)
    if len({one, two, three}) < 3:
        raise Wrong(after)
    if names(a + b + c)[2] == names(b + a + c)[2] or names(d + a + b + c)[3] == names(d + b + a + c)[3]:
        raise Wrong("the order of the blocks before counts too")
    if any(names(one + c)[1] == names(other + c)[1] for one, other, _ in _pairs(size)):
        raise Wrong("of the blocks before, every token counts in its place")


PAIRS = (  # tokens that a name keeps apart, and what it leaves out where it does not
    ([1, 23], [12, 3], "[1, 23] and [12, 3] get one name: keep the tokens apart"),
    ([1, 2], [2, 1], "the same tokens in another order get one name"),
    ([1, 1], [1, 2], "[1, 1] and [1, 2] get one name: every token of a block counts"),
    ([2, 1], [1, 1], "[2, 1] and [1, 1] get one name: every token of a block counts"),
    ([0, 3], [0, 259], "token ids above 255 need more than one byte"),
    ([0, 3], [0, 65_539], "token ids above 65,535 need more than two bytes"),
    ([9, 9, 9, 9], [10, 6, 12, 8], "blocks with equal sums get one name: keep the tokens themselves"),
)


def _pairs(size):
    """The pairs as blocks of `size` tokens: at the end, at the beginning, and in the middle, where the ends agree."""
    for one, other, why in PAIRS:
        for room in {0, size - len(one), (size - len(one)) // 2} if size >= len(one) else ():
            before, after = [7] * room, [7] * (size - len(one) - room)
            yield before + one + after, before + other + after, why


def _tokens(names, size, draw):
    if size == 1:
        return
    for one, other, why in _pairs(size):
        _all_differ(names(one), names(other), why)
    seen = {name for _ in range(300) for name in names([draw.randrange(50_000) for _ in range(size)])}
    if len(seen) < 300:
        raise Wrong("among a few hundred blocks two have one name: the names are too short")
    if all(type(name) is int and name.bit_length() <= 64 for name in names([40_000 + i for i in range(8 * size)])):
        raise Wrong("a number of 64 bits is not exact enough; Python's `hash` gives (-1,) and (-2,) the same one")


def _who(names, size, draw):
    tokens = [draw.randrange(50_000) for _ in range(3 * size)]
    plain, salted, other_salt = (names(tokens, salt) for salt in (None, "pepper", "cumin"))
    if plain == salted == other_salt:
        raise Wrong("the names do not depend on the salt: mix it in")
    for one, two in ((plain, salted), (plain, other_salt), (salted, other_salt)):
        _all_differ(one, two, "under another salt every name must be another, not the first alone")
    seen, cat, dog = (names(tokens, "pepper", identity) for identity in (None, "cat", ("dog", 2)))
    for one, two in ((seen, cat), (cat, dog), (seen, dog)):
        _all_differ(
            one, two, "two requests with the same tokens and different pictures get one name: mix the identity in"
        )
    for one, two in (
        ((None, "cat"), ("cat", None)),
        (("a", "bc"), ("ab", "c")),
        (("a", None), ("a", "None")),
        (("None", "a"), (None, "a")),
    ):
        _all_differ(names(tokens, *one), names(tokens, *two), "salt and identity run into one another: keep them apart")


NAMES = Exercise(
    "3.3-names",
    "a chain of names",
    (
        _part("a name for each full block", _full_blocks),
        _part("the same beginning, the same names", _same_beginning),
        _part("other tokens, other names", _tokens),
        _part("other tokens before, other names", _chain),
        _part("another salt or identity, other names", _who),
    ),
    only_with={"a name for each full block": "other tokens, other names"},
    role=Role("hash", lambda: block_names),
)
