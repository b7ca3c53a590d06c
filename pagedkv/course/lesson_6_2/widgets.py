"""The widget of lesson 6.2: a long prompt under a budget, step by step."""

from pagedkv.course.draw import widget
from pagedkv.course.lesson_6_2 import pictures
from pagedkv.course.lesson_6_2.batching import grid_of, plain_engine
from pagedkv.engine.request import Sampling

BUDGETS = (1, 2, 4, 6, 8, 12, 16, 24, None)


def budget_svg(budget: int | None = 8, prompt: int = 14, running: int = 3) -> str:
    """`running` requests decode, then a prompt arrives: who runs how many tokens in each step, under a budget."""
    engine = plain_engine(token_budget=budget)
    for i in range(running):
        engine.add([1] * 2, Sampling(9 - i))
    while any(not request.output for request in (*engine.scheduler.waiting, *engine.scheduler.running.values())):
        engine.step()
    engine.add([1] * prompt, Sampling(3))
    steps = grid_of(engine)[: pictures.MOST_STEPS]
    said = "no budget" if budget is None else f"a budget of {budget}"
    canvas, alt = pictures.shares_by_step(steps, running + 1, said, budget)
    return canvas.svg(alt)


def budget():
    """A prompt that arrives while others decode, cut by a budget."""
    return widget.explore(
        budget_svg,
        budget=widget.steps("Budget", [("none" if b is None else str(b), b) for b in BUDGETS], 8),
        prompt=widget.slider("Tokens of the prompt", 14, 1, 30),
        running=widget.slider("Others running", 3, 1, 5),
    )
