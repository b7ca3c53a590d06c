"""The widget of lesson 6.3: eight requests in a pool of any size."""

from pagedkv.block_pool import BlockPool
from pagedkv.course.draw import style, widget
from pagedkv.course.lesson_6_3 import pictures
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler

PROMPTS = (9, 8, 8, 10, 14, 7, 9, 10)  # tokens


def served(num_blocks: int, watermark: float, output: int, block_size: int = 4) -> Engine:
    """Requests of PROMPTS tokens and `output` new ones in such a pool, without a model."""
    pool = BlockPool(num_blocks, block_size)
    engine = Engine(Scheduler(pool, watermark=watermark), lambda step: [0] * len(step.ready))
    engine.generate([[1] * tokens for tokens in PROMPTS], Sampling(output))
    return engine


def lives_svg(num_blocks: int = 31, watermark: float = 0.0, output: int = 60) -> str:
    """When each request runs and waits, and what the preemptions cost, as an SVG."""
    engine = served(num_blocks, watermark, output)
    lost, needed = sum(row.lost for row in engine.usage), sum(PROMPTS) + len(PROMPTS) * (output - 1)
    preempted = sum(row.preempted for row in engine.usage)
    steps, gone, again = map(style.counted, (len(engine.usage), preempted, lost), ("step", "preemption", "token"))
    facts = [f"{steps}, {gone}, {again} run again: {lost / needed:.0%} more"]
    kept = f", {watermark:.0%} kept free" if watermark else ""
    canvas, alt = pictures.lives(f"Eight requests in {num_blocks} blocks of 4{kept}", engine, facts)
    return canvas.svg(alt)


def lives():
    """The lives of eight requests under another pool, watermark and length."""
    marks = [(f"{share:.0%}", share) for share in (0.0, 0.05, 0.1, 0.2, 0.4)]
    return widget.explore(
        lives_svg,
        num_blocks=widget.slider("Blocks of 4", 31, 20, 160),
        watermark=widget.steps("Watermark", marks, 0.0),
        output=widget.slider("New tokens each", 60, 1, 64),
    )
