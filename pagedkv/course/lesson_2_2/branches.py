"""Several outputs of one prompt in contiguous memory: every branch has a prompt of its own, and all but one are copies."""

from collections.abc import Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, bracket, draw_strip


def copied_prompts(prompt: int, outputs: Sequence[int]) -> tuple[Canvas, str]:
    """One strip with the branches side by side: a prompt of `prompt` tokens and an output of their own each.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 176)
    copies, total = prompt * (len(outputs) - 1), prompt * len(outputs) + sum(outputs)
    title = f"{len(outputs)} branches of one prompt: {copies:,} of {total:,} slots hold copies ({100 * copies / total:.0f} %)"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    pieces = []
    for branch, output in enumerate(outputs):
        copy = branch > 0
        pieces.append(Piece(prompt, style.mix(style.request_colour(0)) if copy else style.request_colour(0), "/" if copy else None,
                            "copy" if copy else "prompt"))
        pieces.append(Piece(output, style.request_colour(branch + 1), None, f"{output}"))
    spans = draw_strip(canvas, 20, 84, style.WIDTH - 40, 44, total, pieces)
    for branch in range(len(outputs)):
        bracket(canvas, spans[2 * branch][0] + 2, spans[2 * branch + 1][1] - 2, 70, f"branch {branch}")
        begin, end = spans[2 * branch]
        canvas.text((begin + end) / 2, 146, f"{prompt}", anchor="middle", fill=style.MUTED)
    own = ", ".join(map(str, outputs))
    return canvas, f"{title}. They lie side by side in memory, each a prompt of {prompt} tokens and an output of its own: {own} tokens."
