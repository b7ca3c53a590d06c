"""A tree of merges over blocks: leaves at the bottom, each node with its m and l, the root with what every tree must give."""
# ruff: noqa: E741 (l is the papers' name)

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas

BOX, ROW = 92, 72


def merge_trees(trees, states) -> tuple[Canvas, str]:
    """`trees`: (title, tree) pairs, a tree being a block's number or a pair of trees; `states`: tree -> (m, l, output).

    Returns the picture and its words.
    """
    depth = max(_depth(tree) for _, tree in trees)
    canvas = Canvas(style.WIDTH, 46 + ROW * (depth + 1))
    width = style.WIDTH / len(trees)
    for column, (title, tree) in enumerate(trees):
        canvas.text(14 + width * column, 20, title, size=style.TITLE, bold=True)
        leaves = _leaves(tree)
        step = (width - 28) / len(leaves)
        places = {leaf: 14 + width * column + step * (i + 0.5) for i, leaf in enumerate(leaves)}
        _draw(canvas, tree, places, states, depth, root=True)
    words = []
    for title, tree in trees:
        m, l, output = states[tree]
        words.append(f"{title}: blocks {', '.join(map(str, _leaves(tree)))}, at the root m = {m:.2f}, l = {l:.2f}, O / l = {output:.4f}")
    return canvas, f"Trees of merges over blocks, each node with its m and l. {'; '.join(words)}."


def _draw(canvas, tree, places, states, depth, root=False):
    """Draw a tree and return the middle of its root, (x, y of its top)."""
    m, l, output = states[tree]
    y = 44 + ROW * (depth - _depth(tree))
    if isinstance(tree, tuple):
        ends = [_draw(canvas, child, places, states, depth) for child in tree]
        x = sum(x for x, _ in ends) / 2
        for end_x, end_y in ends:
            canvas.line(end_x, end_y, x, y + 48, stroke=style.MUTED)
    else:
        x = places[tree]
        canvas.text(x, y + 60, f"block {tree}", anchor="middle")
    fill = style.REQUESTS[0] if not isinstance(tree, tuple) else style.REQUESTS[1] if root else style.FREE
    canvas.rect(x - BOX / 2, y, BOX, 48, fill)
    canvas.text(x, y + 14, f"m = {m:.2f}", anchor="middle")
    canvas.text(x, y + 34, f"l = {l:.2f}", anchor="middle")
    if root:
        canvas.text(x + BOX / 2 + 8, y + 24, f"O / l = {output:.4f}", bold=True)
    return x, y


def _depth(tree) -> int:
    return 1 + max(map(_depth, tree)) if isinstance(tree, tuple) else 0


def _leaves(tree) -> list:
    return [leaf for child in tree for leaf in _leaves(child)] if isinstance(tree, tuple) else [tree]
