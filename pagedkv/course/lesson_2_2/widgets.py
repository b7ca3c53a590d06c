"""The arena playground: allocate and free by hand, and watch holes appear until a request that ought to fit does not."""

from pagedkv.course.draw import widget
from pagedkv.course.draw.playground import playground
from pagedkv.simulation.arena import Arena, BuddyArena, OutOfMemory

CAPACITY = 64
ARENAS = {
    "first fit": lambda: Arena(CAPACITY, fit="first"),
    "best fit": lambda: Arena(CAPACITY, fit="best"),
    "buddy": lambda: BuddyArena(CAPACITY),
}
START = (("allocate", 12), ("allocate", 9), ("allocate", 14), ("allocate", 7), ("free", 0), ("free", 2))


def replay(operations, kind: str):
    """Run ("allocate", size) and ("free", number) in order; allocations are numbered from 0, those that fail too.

    Returns (arena, {number: extent}, error): the OutOfMemory of the last operation, or None. Freeing a request that was refused in this
    kind of arena does nothing.
    """
    arena, extents, error, number = ARENAS[kind](), {}, None, 0
    for verb, value in operations:
        error = None
        if verb == "free":
            if value in extents:
                arena.free(extents.pop(value))
            continue
        try:
            extents[number] = arena.allocate(value)
        except OutOfMemory as failure:
            error = failure
        number += 1
    return arena, extents, error


def picture(operations=START, kind: str = "first fit") -> str:
    """The arena after `operations`, as an SVG."""
    arena, extents, error = replay(operations, kind)
    last = "an empty arena"
    if operations:
        verb, value = operations[-1]
        last = f"freed r{value}" if verb == "free" else f"allocated {value} slots"
    title = f"{kind}: {'OutOfMemory' if error else last}"
    canvas, alt = playground(arena, extents, title, error)
    return canvas.svg(alt)


def explorer():
    """The widget."""
    operations = widget.State(value=START)
    kind = widget.choice("Arena", list(ARENAS), "first fit")
    size = widget.slider("Slots to allocate", 16, 1, CAPACITY)
    victim = widget.choice("Request to free", [], None)

    def offer(_=None):
        held = replay(operations.value, kind.value)[1]
        victim.options = [(f"r{number}: {extent.requested} slots", number) for number, extent in held.items()]
        victim.index = 0 if held else None

    def free():
        if victim.value is not None:
            operations.value += (("free", victim.value),)

    def allocate():
        operations.value += (("allocate", size.value),)

    def undo():
        operations.value = operations.value[:-1]

    def clear():
        operations.value = ()

    operations.observe(offer, "value")
    kind.observe(offer, "value")
    offer()
    buttons = [widget.button("Allocate", allocate), widget.button("Free", free), widget.button("Undo", undo), widget.button("Clear", clear)]
    return widget.explore(picture, buttons, inputs=[size, victim], operations=operations, kind=kind)
