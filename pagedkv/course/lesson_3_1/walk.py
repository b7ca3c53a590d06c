"""A state machine for classes that a learner wrote: random walks of calls beside a plain model, and of the first that
goes wrong the shortest version.

A walk is a list of calls such as ("free", 2), whose number picks among what can be freed at that point; a call that
cannot be made there is left out. So any part of a walk is a walk, and a failing one is shortened by leaving out calls
and lowering numbers for as long as something still goes wrong.
"""

from collections.abc import Callable, Iterable, Iterator

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Part, hidden

WALKS, CALLS, NUMBERS = 150, 14, 8  # walks, calls in each; the numbers of a call are below NUMBERS

Walk = list[tuple[str, int]]


class Failed(Exception):
    """What a class does wrong, in words that follow "after allocate(3), free([1]) ..."."""


def machine_parts(drive: Callable, calls: dict[str, Iterable[str]]) -> tuple[Part, ...]:
    """A part for each title: the calls that its walks are made of. What goes wrong is said by the first part that sees
    it.

    `drive(cls, walk)` makes the calls of a walk on a fresh object. It yields each call as text before it is made, and
    raises Failed where the object does not do what the model does.
    """
    return tuple(Part(title, _test(drive, list(calls.items())[: i + 1])) for i, title in enumerate(calls))


def _walks(title: str, names: Iterable[str]) -> Iterator[Walk]:
    draw, names = hidden(title), list(names)
    for _ in range(WALKS):
        yield [(draw.choice(names), draw.randrange(NUMBERS)) for _ in range(CALLS)]


def _test(drive, earlier_and_own: list[tuple[str, Iterable[str]]]) -> Callable:
    def test(cls):
        *earlier, own = [list(_walks(*calls)) for calls in earlier_and_own]
        if sentence := _reason(cls) or call(lambda: _first_failure(drive, cls, own), answer=cls):
            seen = any(
                _reason(cls) or call(lambda walks=walks: _first_failure(drive, cls, walks), answer=cls)
                for walks in earlier
            )
            raise Wrong("mend what a part above names first" if seen else sentence)

    return test


def _reason(cls) -> str | None:
    """Why this is no class to be judged, or None."""
    if not isinstance(cls, type):
        return f"the class is expected, not {kind(cls)}; hand over the class itself, without calling it"
    if any(base.__module__.startswith("pagedkv.") for base in cls.__mro__):
        return "this class stands on the package's; write one of your own"


def _first_failure(drive, cls, walks: list[Walk]) -> str | None:
    walk = next((walk for walk in walks if _sentence(drive, cls, walk)), None)
    return walk and _sentence(drive, cls, _shortest(drive, cls, walk))


def _sentence(drive, cls, walk: Walk) -> str | None:
    """What goes wrong first, and after which calls; None if all goes well."""
    made = []
    try:
        for text in drive(cls, walk):
            made.append(text)
    except Failed as failed:
        return (f"after {', '.join(made)} " if made else "") + str(failed)
    return None


def _shortest(drive, cls, walk: Walk) -> Walk:
    """A walk that goes wrong too, of which no call can be left out and no number lowered."""
    smaller = True
    while smaller:
        fewer = (walk[:i] + walk[i + 1 :] for i in reversed(range(len(walk))))
        lower = ([*walk[:i], (name, n), *walk[i + 1 :]] for i, (name, number) in enumerate(walk) for n in range(number))
        smaller = next((one for group in (fewer, lower) for one in group if _sentence(drive, cls, one)), None)
        walk = smaller or walk
    return walk


def method(thing, name: str) -> Callable:
    """A method of a learner's object; Failed where it has none of that name."""
    if not callable(found := getattr(thing, name, None)):
        raise Failed(f"there is no method {name}")
    return found


def attempt(function, *inputs, allowed: type[Exception] = (), does: str):
    """What a learner's method returns, or the `allowed` exception that it raises; any other is Failed."""
    try:
        return function(*inputs)
    except allowed as error:
        return error
    except Exception as error:
        said = f" ({error})" if str(error) and "\n" not in str(error) else ""
        raise Failed(f"{does} raises {type(error).__name__}{said}") from None
