"""How the bytes of a KV cache multiply: one token's K and V, then tokens, then sequences, next to the memory of real GPUs."""

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.sizing import KVShape

GPUS = {"24 GiB": 24, "40 GiB": 40, "80 GiB": 80, "141 GiB": 141}


def in_words(num_bytes: float) -> str:
    """Bytes with a binary unit and three digits: 819,200 is "800 KiB"."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while num_bytes >= 1024 and len(units) > 1:
        num_bytes /= 1024
        del units[0]
    return f"{num_bytes:.3g} {units[0]}" if num_bytes < 1000 else f"{num_bytes:,.0f} {units[0]}"


def kv_size(name: str, shape: KVShape, num_tokens: int, batch: int) -> tuple[Canvas, str]:
    """The product that gives the bytes of a token, and a bar for one sequence and for `batch` of them.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 330)
    total = shape.bytes_per_token * num_tokens * batch
    title = f"{name}: {batch:,} × {num_tokens:,} tokens take {in_words(total)}"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)

    factors = ((2, "K and V"), (shape.num_layers, "layers"), (shape.num_kv_heads, "KV heads"), (shape.head_dim, "numbers a head"),
               (shape.dtype_bytes, "bytes a number"))
    x = 20
    for index, (number, words) in enumerate(factors):
        width = 84 if index < 3 else 118
        canvas.rect(x, 54, width, 36, style.FREE, label=number, bold=True)
        canvas.text(x + width / 2, 106, words, anchor="middle")
        canvas.text(x + width + 13, 72, "=" if index == 4 else "×", anchor="middle")
        x += width + 26
    canvas.rect(x, 54, style.WIDTH - 20 - x, 36, style.TOKEN, label=f"{shape.bytes_per_token:,} B", bold=True)
    canvas.text((x + style.WIDTH - 20) / 2, 106, "a token", anchor="middle")

    left, right = 150, style.WIDTH - 130
    gib = total / 2**30
    top = next((size for size in GPUS.values() if size >= gib), gib)
    scale = (right - left) / top
    last, lines = left, []
    for words, size in GPUS.items():
        at = left + size * scale
        if size <= top and at - last > 70:
            canvas.line(at, 152, at, 276, stroke=style.MUTED, dash=True)
            canvas.text(at, 290, words, anchor="middle", fill=style.MUTED)
            last = at
            lines.append(words)
    canvas.text(left - 12, 290, "GPU memory", anchor="end", fill=style.MUTED)
    for row, (words, size) in enumerate((("one sequence", gib / batch), ("all together" if batch == 1 else f"{batch:,} sequences", gib))):
        y = 164 + 60 * row
        canvas.text(left - 12, y + 18, words, anchor="end")
        canvas.rect(left, y, max(size * scale, 1), 36, style.TOKEN)
        x, label = left + max(size * scale, 1), in_words(size * 2**30)
        canvas.rect(x + 4, y + 8, style.text_width(label) + 24, 20, style.BACKGROUND, stroke=None)  # no line crosses the number
        canvas.text(x + 10, y + 18, label, bold=True)
    product = " × ".join(f"{number} {words}" for number, words in factors)
    alt = (
        f"{title}. {product} = {shape.bytes_per_token:,} bytes a token. Bars for one sequence, {in_words(total / batch)}, "
        f"and for {batch:,}; dashed lines mark GPUs of {' and '.join(lines)}."
    )
    return canvas, alt
