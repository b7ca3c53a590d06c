"""The widgets of lesson 3.1: the way of one position to its slot, and a pool of blocks to work by hand."""

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.course.draw import style, widget
from pagedkv.course.draw.pool import pool_and_tables
from pagedkv.course.lesson_3_1 import pictures


def address_svg(position: int = 37, step: int = 4, block_size: int = 16) -> str:
    """The way of one position up to `step`, as an SVG."""
    table = pictures.example_table(block_size)
    logical, offset, block, slot = table.translate(position)
    words = [
        f"{position} is offset {offset} of logical block {logical}",
        f"table entry {logical} is {block}",
        f"block {block} begins at slot {block * block_size}",
        f"the slot is {slot}",
    ]
    alt = f"Token {position} of {pictures.NUM_TOKENS}, blocks of {block_size}: {', '.join(words[:step])}."
    return pictures.address_path(table, position, step).svg(alt)


def address():
    """One position on its way to a slot, a step at a time."""
    return widget.explore(
        address_svg,
        position=widget.slider("Token", 37, 0, pictures.NUM_TOKENS - 1),
        step=widget.slider("Step", 4, 1, 4),
        block_size=widget.steps("Block size", [8, 16, 32], 16),
    )


NUM_BLOCKS, BLOCK_SIZE, NAMES = 16, 4, "ABCDE"
START = (("append", "A", 6), ("append", "B", 9), ("append", "A", 5))  # the picture above it; forks are 3.3's


def replay(operations):
    """Run ("append", name, tokens), ("fork", name), ("free", name), ("preempt",) and ("resume",) in order.

    Appending to an unused name starts a sequence. Returns (pool, {name: table}, {name: tokens} of the preempted ones,
    what happened last).
    An operation that cannot be done changes nothing and says why.
    """
    pool, tables, waiting, said = BlockPool(NUM_BLOCKS, BLOCK_SIZE), {}, {}, "an empty pool"
    for verb, *arguments in operations:
        try:
            said = _do(pool, tables, waiting, verb, *arguments)
        except OutOfBlocks as error:
            said = f"out of blocks: {error}; preempt or free a sequence"
    return pool, tables, waiting, said


def _do(pool, tables, waiting, verb, name=None, tokens=0):
    if verb == "append":
        table = tables.get(name) or BlockTable(pool)
        slots, copies = table.append(tokens)
        tables[name] = table
        copied = f"; copy-on-write: block {copies[0][0]} copied to {copies[0][1]}" if copies else ""
        listed = ", ".join(map(str, slots if len(slots) < 7 else [*slots[:3], "…", *slots[-2:]]))
        return f"{name} got slot{'s' * (len(slots) > 1)} {listed}{copied}"
    if verb == "fork":
        child = next((free for free in NAMES if free not in tables and free not in waiting), None)
        if child is None:
            return f"all {len(NAMES)} names are taken; free a sequence first"
        tables[child] = tables[name].fork()
        return f"{child} is a fork of {name}: no block was taken, no K/V copied"
    if verb == "free":
        tables.pop(name).free()
        return f"{name} gave its blocks back"
    if verb == "preempt":
        name = [*tables][-1]  # the latest to come
        waiting[name] = tables[name].num_tokens
        tables.pop(name).free()
        return f"{name}, the latest, was preempted: its {style.counted(waiting[name], 'token')} will be computed again"
    name = next(iter(waiting))
    table = BlockTable(pool)
    table.append(waiting[name])
    tables[name] = table
    return f"{name} runs again, its {style.counted(waiting.pop(name), 'token')} in other blocks"


def blocks_svg(operations=START, sequence: str = "A", position: int = 0) -> str:
    """The pool and the tables after `operations`, with the way of one token, as an SVG."""
    pool, tables, waiting, said = replay(operations)
    picked, address = None, f"{sequence} does not run"
    if sequence in tables:
        address = f"{sequence} has no token {position}"
        if position < tables[sequence].num_tokens:
            picked = sequence, position
            logical, offset, block, slot = tables[sequence].translate(position)
            way = f"logical block {logical}, offset {offset} → table[{logical}] = {block} → slot {slot}"
            address = f"token {position} of {sequence} → {way}"
    note = f" · waiting: {', '.join(waiting)}" if waiting else ""
    canvas, alt = pool_and_tables(said, pool, tables, picked, address, note, NAMES)
    return canvas.svg(alt)


def blocks():
    """Append, fork, free and preempt by hand, and follow any token to its slot."""
    operations = widget.State(value=START)
    sequence = widget.choice("Sequence", list(NAMES), "A")
    tokens = widget.slider("Tokens to append", 3, 1, 16)
    position = widget.slider("Follow token", 5, 0, NUM_BLOCKS * BLOCK_SIZE - 1)

    def add(*operation):
        operations.value += (operation,)

    def on_running(verb):
        if sequence.value in replay(operations.value)[1]:
            add(verb, sequence.value)

    def append():
        if sequence.value not in replay(operations.value)[2]:  # a preempted one must resume first
            add("append", sequence.value, tokens.value)

    def preempt():
        if replay(operations.value)[1]:
            add("preempt")

    def resume():
        if replay(operations.value)[2]:
            add("resume")

    def undo():
        operations.value = operations.value[:-1]

    buttons = [
        widget.button("Append", append, "to the chosen sequence; a new name starts one"),
        widget.button("Fork", lambda: on_running("fork")),
        widget.button("Free", lambda: on_running("free")),
        widget.button("Preempt the latest", preempt),
        widget.button("Resume", resume),
        widget.button("Undo", undo),
    ]
    return widget.explore(
        blocks_svg, buttons, inputs=[tokens], operations=operations, sequence=sequence, position=position
    )
