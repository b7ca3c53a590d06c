"""The exercise in which a benchmark is written that the traps of a card do not fool."""

from collections.abc import Callable
from statistics import median

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part, hidden
from pagedkv.course.lesson_4_5.card import L2_FACTOR, Card

NEAR = 0.03  # how far from the truth a measurement may be, as a share of it


def measure(card):
    """The µs that the card takes for a typical call that reads K and V from memory."""
    graph, times = card.capture(list(range(card.copies)) * 20), []
    for _ in range(9):
        start = card.clock()
        graph.replay()
        card.synchronize()
        times.append((card.clock() - start) / (20 * card.copies))
    return median(times)


def _part(title: str, sentences: Callable[[float], str], **traps) -> Part:
    """A card with one trap. `sentences`: the measured time over the true one -> what is wrong with it."""

    def test(answer):
        kernel_us = traps.get("kernel_us", hidden(title).uniform(150, 200))
        for stretches in range(6 if "shared" in traps else 1):  # something else comes at any time
            judge(answer, Card(**({"kernel_us": kernel_us, "stretches": stretches} | traps)), kernel_us)

    def judge(answer, card, kernel_us):
        measured = call(answer, card, changes=(0,))
        if measured is None:
            raise Wrong("it returns nothing; is the return missing?")
        if isinstance(measured, bool) or not isinstance(measured, (int, float)):
            raise Wrong(f"a number of µs is expected, not {kind(measured)}")
        ratio = measured / kernel_us
        if not abs(ratio - 1) <= NEAR:
            raise Wrong(_units(ratio) or sentences(ratio))

    return Part(title, test)


def _units(ratio: float) -> str | None:
    """What is wrong with every card alike."""
    if ratio <= 0:
        return "a time is above 0: is the clock read before and after the calls?"
    if abs(ratio * 1000 - 1) < 0.2:
        return "that is in ms; the card's clock counts µs"
    return None


def _waits(ratio: float) -> str:
    if ratio < 1 - NEAR:
        return (
            "that is less than the card needs: `launch` returns before anything has run, so wait before the clock is "
            "read the second time"
        )
    if ratio > 5:
        return "that is the time of many calls: divide by their number"
    return "the launch and the wait are in it: put more calls between two readings of the clock"


def _first(ratio: float) -> str:
    if ratio > 1:
        return "the first call compiles the kernel, and that is in it: make a call before the clock starts"
    return _waits(ratio)


def _memory(ratio: float) -> str:
    if L2_FACTOR - NEAR < ratio < 1 - NEAR:
        return (
            "that is faster than memory: K and V lie in the L2 cache from a call before; walk over all `card.copies` "
            "copies"
        )
    return _waits(ratio)


def _typical(ratio: float) -> str:
    if ratio > 1 + NEAR:
        return (
            "now and then something else has the card, and that is in it: take the time of five stretches of calls or "
            "more, and their median"
        )
    return _waits(ratio)


def _short(ratio: float) -> str:
    if ratio > 1.6:
        return (
            "the host needs longer to launch this kernel than the card to run it, and so the card waits: capture the "
            "calls in a graph"
        )
    if ratio > 1 + NEAR:
        return "the launch and the wait of a replay are in it: capture more calls in the graph"
    return _waits(ratio)


BENCHMARK = Exercise(
    "4.5-benchmark",
    "measure a kernel on a card",
    (
        _part("the card has run what is timed", _waits),
        _part("the first call apart", _first, compile_us=400_000.0),
        _part("K and V from memory", _memory, cached=3),
        _part("a typical time", _typical, shared=True),
        _part("a kernel shorter than its launch", _short, kernel_us=9.0),
    ),
    in_order=True,
)
