"""Which K/V each step computes: a triangle of all tokens again without a cache, one token a step with it."""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

CELL = 22


def recomputed_and_kept(prompt: int, steps: int) -> tuple[Canvas, str]:
    """A row for each decode step, a cell for each token that attention reads; dark cells are computed in that step.

    Returns the picture and its words.
    """
    tokens = prompt + steps - 1
    half = (style.WIDTH - 100) / 2
    cell = min(CELL, (half - 90) / tokens)
    canvas = Canvas(style.WIDTH, 150 + steps * cell)
    canvas.text(20, 24, f"A prompt of {prompt} tokens, then {steps} steps: whose K and V are computed?", size=style.TITLE, bold=True)
    for column, (name, kept) in enumerate((("without a cache", False), ("with a cache", True))):
        x, y, computed = 100 + column * (half + 20), 84, 0
        for step in range(steps):
            for token in range(prompt + step):
                old = kept and step > 0 and token < prompt + step - 1
                canvas.rect(x + token * cell, y + step * cell, cell, cell, style.RESERVED if old else style.TOKEN, line=0.6)
                computed += not old
            if not column:
                canvas.text(x - 10, y + (step + 0.5) * cell, f"step {step}", anchor="end", fill=style.MUTED)
        canvas.text(x, 60, f"{name}: {computed}", bold=True)
        canvas.text(x + prompt * cell / 2, y + steps * cell + 16, "prompt", anchor="middle", fill=style.MUTED)
    y = canvas.height - 12
    for x, fill, words in ((100, style.TOKEN, "computed in this step"), (320, style.RESERVED, "read from the cache")):
        canvas.rect(x, y - 8, 16, 16, fill)
        canvas.text(x + 24, y, words)
    alt = (
        f"Two triangles of cells, a row for each of {steps} steps after a prompt of {prompt} tokens. Without a cache every cell of "
        f"every row is computed: {sum(range(prompt, prompt + steps))}. With a cache only the prompt in step 0 and one new cell in each "
        f"later row are: {prompt + steps - 1}."
    )
    return canvas, alt
