"""The widgets of lesson 6.5: a walk through what engines hold, and what an admission keeps free."""

from pagedkv.course.draw import widget
from pagedkv.course.draw.bars import bars
from pagedkv.course.lesson_6_5 import faults, own_policy, pictures

ENGINES = {"without a fault": "", "engine A": "A", "engine B": "B", "engine C": "C"}


def engine_svg(name: str = "without a fault", step: int = 0) -> str:
    """An engine after a step, its last where it has none so late, as an SVG."""
    seen = faults.run(ENGINES[name])
    step = min(step, len(seen) - 1)
    canvas, alt = pictures.held(name, seen, faults.NUM_BLOCKS, step, faults.right_tokens())
    return canvas.svg(alt)


def engine():
    """Four engines, step by step."""
    return widget.explore(
        engine_svg,
        name=widget.choice("Engine", list(ENGINES), "without a fault"),
        step=widget.slider("Step", 0, 0, 55),  # A's last
    )


def kept_svg(each: float = 0.0, always: int = 0) -> str:
    """What plain paging does on top of the least, beside a policy that leaves so much free at an admission, as an SVG.
    Both bars are tokens' worth of work.
    """
    rows, plain, keeps = {}, own_policy.bill_of("paged"), own_policy.kept_free(each, always)
    fewest = min(plain.steps, keeps.steps)
    for name, bill in (("plain paging", plain), ("keeps free", keeps)):
        further = own_policy.STEP * (bill.steps - fewest)
        rows[name] = {f"further steps, {own_policy.STEP} each": further, "tokens lost": bill.lost}
    change = keeps.cost / plain.cost - 1
    fact = "as dear as plain paging" if not round(100 * change, 1) else (
        f"{abs(change):.1%} {'dearer' if change > 0 else 'cheaper'} than plain paging"
    )  # fmt: skip
    title = f"{'1 block' if each == 1 else f'{each:g} blocks'} kept free for each that runs, and {always} more"
    canvas, alt = bars(title, rows, "", [fact])
    return canvas.svg(alt)


def kept():
    """What is kept free, and what that costs and saves."""
    return widget.explore(
        kept_svg,
        each=widget.steps("For each that runs", (0.0, 0.25, 0.5, 1.0, 2.0), 0.0, quick=False),
        always=widget.slider("Always", 0, 0, 12, quick=False),
    )
