"""The pictures of lesson 2.1: how bytes multiply, what a cache spares, and figure 1, a pool of reservations."""

from collections.abc import Callable, Mapping, Sequence

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.strip import Piece, bracket, draw_strip, state_piece
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS, KVShape, LatentShape, WindowedShape

Shape = KVShape | WindowedShape | LatentShape
LEFT = 150  # where the layers and the bars begin
GPUS = {"24 GiB": 24, "40 GiB": 40, "80 GiB": 80, "141 GiB": 141}


def in_words(num_bytes: float) -> str:
    """Bytes with a binary unit and three digits: 819,200 is "800 KiB"."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while num_bytes >= 1024 and len(units) > 1:
        num_bytes /= 1024
        del units[0]
    return f"{num_bytes:.3g} {units[0]}" if num_bytes < 1000 else f"{num_bytes:,.0f} {units[0]}"


def kv_size(name: str, shape: Shape, num_tokens: int, batch: int) -> tuple[Canvas, str]:
    """The product that gives the bytes of a token, what each layer keeps of a sequence, and a bar for one sequence and
    one for `batch` of them, where they are several.

    Returns the picture and its words.
    """
    canvas = Canvas(style.WIDTH, 440)
    one = shape.bytes_for(num_tokens)
    each = style.counted(num_tokens, "token")
    title = f"{name}: {batch:,} × {each} take {in_words(one * batch)}"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    product = _product(canvas, shape, y=54)
    kept = _kept_by_layers(canvas, shape, num_tokens, y=136)
    several = {f"{batch:,} sequences": one * batch} if batch > 1 else {}
    lines = _bars(canvas, {"one sequence": one} | several, y=262)
    alt = (
        f"{title}. {product} bytes a token. {' '.join(kept)} A bar for one sequence, {in_words(one)}"
        + (f", and one for {batch:,}" if several else "")
        + _marked(lines)
    )
    return canvas, alt


def _marked(lines: list[str]) -> str:
    if len(lines) == 1:
        return f"; a dashed line marks a GPU of {lines[0]}."
    return f"; dashed lines mark GPUs of {' and '.join(lines)}." if lines else "."


def _product(canvas: Canvas, shape: Shape, y) -> str:
    """The factors as boxes in a row, from the left edge to the right; returns the product in words."""
    if isinstance(shape, LatentShape):
        factors = [(shape.num_layers, "layers"), (f"({shape.latent_dim} + {shape.rope_dim})", "numbers for all heads")]
    else:
        factors = [(2, "K and V"), (shape.num_layers, "layers"), (shape.num_kv_heads, "KV heads")]
        factors.append((shape.head_dim, "numbers a head"))
    factors.append((shape.dtype_bytes, f"byte{'s' * (shape.dtype_bytes > 1)} a number"))
    x = 20
    for index, (number, words) in enumerate(factors):
        width = max(84, style.text_width(words))
        canvas.rect(x, y, width, 36, style.FREE, label=number, bold=True)
        canvas.text(x + width / 2, y + 52, words, anchor="middle")
        canvas.text(x + width + 13, y + 18, "=" if index == len(factors) - 1 else "×", anchor="middle")
        x += width + 26
    canvas.rect(x, y, style.WIDTH - 20 - x, 36, style.TOKEN, label=f"{shape.bytes_per_token:,} B", bold=True)
    canvas.text((x + style.WIDTH - 20) / 2, y + 52, "a token", anchor="middle")
    return " × ".join(f"{number} {words}" for number, words in factors) + f" = {shape.bytes_per_token:,}"


def _kept_by_layers(canvas: Canvas, shape: Shape, num_tokens: int, y) -> list[str]:
    """A column for each layer, filled as far as the layer keeps the sequence's tokens; returns the sentences below."""
    kept = [num_tokens if window is None else min(num_tokens, window) for window in shape.windows]
    width = (style.WIDTH - 20 - LEFT) / len(kept)
    for layer, tokens in enumerate(kept):
        x, height = LEFT + layer * width, 52 * tokens / num_tokens
        tip = f"layer {layer}: {style.counted(tokens, 'token')}"
        canvas.rect(x, y, width, 52, style.FREE, line=0.6, tip=tip)
        canvas.rect(x, y + 52 - height, width, height, style.TOKEN, line=0.6, tip=tip)
    canvas.text(LEFT - 12, y + 17, "kept by", anchor="end")
    canvas.text(LEFT - 12, y + 35, "each layer", anchor="end")
    full, few = kept.count(num_tokens), min(kept)
    if few == num_tokens:
        tokens = "the one token" if num_tokens == 1 else f"all {num_tokens:,} tokens"
        sentences = [f"Each of the {full} layers keeps {tokens}."]
    else:
        every = in_words(shape.bytes_per_token * num_tokens)
        sentences = [
            f"{full} of {len(kept)} layers keep all {num_tokens:,} tokens, {len(kept) - full} only the last {few:,}.",
            f"One more token takes {shape.growth:,} B. If each layer kept all, a sequence would take {every}.",
        ]
    for row, sentence in enumerate(sentences):
        canvas.text(LEFT, y + 70 + 20 * row, sentence)
    return sentences


def _bars(canvas: Canvas, sizes: Mapping[str, int], y) -> list[str]:
    """A bar for each named number of bytes, to one scale, over the memory of GPUs; returns which of them are marked."""
    right = style.WIDTH - 130
    most = max(sizes.values()) / 2**30
    top = next((size for size in GPUS.values() if size >= most), most)
    scale = (right - LEFT) / top
    last, lines = LEFT, []
    for words, size in GPUS.items():
        at = LEFT + size * scale
        if size <= top and at - last > 70:
            canvas.line(at, y, at, y + 124, stroke=style.MUTED, dash=True)
            canvas.text(at, y + 138, words, anchor="middle", fill=style.MUTED)
            last = at
            lines.append(words)
    if lines:
        canvas.text(LEFT - 12, y + 138, "GPU memory", anchor="end", fill=style.MUTED)
    for row, (words, num_bytes) in enumerate(sizes.items()):
        top = y + 12 + 60 * row
        width = max(num_bytes / 2**30 * scale, 1)
        canvas.text(LEFT - 12, top + 18, words, anchor="end")
        canvas.rect(LEFT, top, width, 36, style.TOKEN)
        x, label = LEFT + width, in_words(num_bytes)
        # no line crosses the number
        canvas.rect(x + 4, top + 8, style.text_width(label) + 24, 20, style.BACKGROUND, stroke=None)
        canvas.text(x + 10, top + 18, label, bold=True)
    return lines


CELL = 22


def recomputed_and_kept(prompt: int, steps: int) -> tuple[Canvas, str]:
    """A row for each decode step, a cell for each token that attention reads; dark cells are computed in that step.

    Returns the picture and its words.
    """
    tokens = prompt + steps - 1
    half = (style.WIDTH - 100) / 2
    cell = min(CELL, (half - 90) / tokens)
    canvas = Canvas(style.WIDTH, 150 + steps * cell)
    title = f"A prompt of {prompt} tokens, then {steps} steps: whose K and V are computed?"
    canvas.text(20, 24, title, size=style.TITLE, bold=True)
    for column, (name, kept) in enumerate((("without a cache", False), ("with a cache", True))):
        x, y, computed = 100 + column * (half + 20), 84, 0
        for step in range(steps):
            for token in range(prompt + step):
                old = kept and step > 0 and token < prompt + step - 1
                canvas.rect(
                    x + token * cell, y + step * cell, cell, cell, style.RESERVED if old else style.TOKEN, line=0.6
                )
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
        f"Two triangles of cells, a row for each of {steps} steps after a prompt of {prompt} tokens. Without a cache "
        f"every cell of every row is computed: {sum(range(prompt, prompt + steps))}. With a cache only the prompt in "
        f"step 0 and one new cell in each later row are: {prompt + steps - 1}."
    )
    return canvas, alt


def reservation() -> tuple[Canvas, str]:
    """Figure 1: the KV memory of OPT-13B on a 40 GB GPU under max-length reservation, with lengths drawn from
    ShareGPT's.
    """
    capacity, max_seq_len = MODELS["opt-13b"].tokens_in(12 * 2**30), 2048
    requests = sample_requests("paper-sharegpt", capacity // max_seq_len, seed=577)
    lengths = [(request.prompt_tokens, request.output_tokens) for request in requests]
    prompt, output = lengths[3]
    alt = (
        f"Figure 1: a pool of {capacity:,} slots as one strip: {len(lengths)} requests each hold {max_seq_len:,} "
        f"slots in a row, most of them never used, and {capacity - max_seq_len * len(lengths):,} slots at the end "
        f"are too few for another. Enlarged below, request 3: {prompt} slots of prompt, {output} of output, "
        f"{max_seq_len - prompt - output:,} never used."
    )
    return _pool_of_reservations(capacity, max_seq_len, lengths, zoom=3), alt


def _pool_of_reservations(capacity: int, max_seq_len: int, lengths: Sequence[tuple[int, int]], zoom: int = 0) -> Canvas:
    """A pool of `capacity` slots that holds one reservation per (prompt, output) length, and below it reservation
    `zoom` enlarged.
    """
    left, width = 20, style.WIDTH - 40
    canvas = Canvas(style.WIDTH, 320)
    rest = capacity - max_seq_len * len(lengths)
    title = f"{capacity:,} slots hold {len(lengths)} reservations of {max_seq_len:,} slots, however few are used"
    canvas.text(left, 24, title, size=style.TITLE, bold=True)

    pieces = []
    for prompt, output in lengths:
        pieces += [state_piece("token_states", prompt + output), state_piece("internal", max_seq_len - prompt - output)]
    spans = draw_strip(canvas, left, 84, width, 44, capacity, [*pieces, Piece(rest, *style.STATES["external"])])
    for request in range(len(lengths)):
        begin, end = spans[2 * request][0], spans[2 * request + 1][1]
        canvas.rect(begin, 84, end - begin, 44, None, line=2)
        canvas.text((begin + end) / 2, 68, f"request {request}", anchor="middle")
    canvas.text(left + width, 48, f"{rest:,} slots left:", anchor="end")
    canvas.text(left + width, 68, "too few", anchor="end")

    begin, end = spans[2 * zoom][0], spans[2 * zoom + 1][1]
    canvas.polygon([(begin, 130), (end, 130), (left + width, 194), (left, 194)], style.FREE, stroke=None)
    canvas.text(
        style.WIDTH / 2, 178, f"request {zoom}: one unbroken span, kept until the request ends", anchor="middle"
    )
    prompt, output = lengths[zoom]
    idle = max_seq_len - prompt - output
    pieces = [
        state_piece("token_states", prompt, "prompt"),
        state_piece("token_states", output, "output"),
        state_piece("internal", idle, f"{idle:,} slots never used"),
    ]
    parts = draw_strip(canvas, left, 194, width, 56, max_seq_len, pieces)
    canvas.line(parts[1][0], 194, parts[1][0], 250, stroke=style.BACKGROUND, line=2)
    captions = (f"{prompt}", f"{output} tokens", f"{100 * idle / max_seq_len:.1f} % of the reservation")
    for (begin, end), words in zip(parts, captions, strict=True):
        bracket(canvas, begin + 2, end - 2, 264, words, up=False)
    canvas.text(left, 304, f"slot {zoom * max_seq_len:,}", fill=style.MUTED)
    canvas.text(left + width, 304, f"slot {(zoom + 1) * max_seq_len - 1:,}", anchor="end", fill=style.MUTED)
    return canvas


FIGURES: dict[str, Callable[[], tuple]] = {"figure_1": reservation}
