"""The widget of lesson 2.1: a calculator of KV bytes."""

from dataclasses import replace

from pagedkv.course.draw import widget
from pagedkv.course.lesson_2_1 import pictures
from pagedkv.sizing import MODELS

NUMBERS = {"fp16 or bf16": 2, "fp8": 1, "fp32": 4}


def kv_size_svg(model: str = "opt-13b", num_tokens: int = 2048, batch: int = 7, dtype_bytes: int = 2) -> str:
    """The bytes of `batch` sequences of `num_tokens` tokens, as an SVG."""
    shape = replace(MODELS[model], dtype_bytes=dtype_bytes)
    canvas, alt = pictures.kv_size(model, shape, num_tokens, batch)
    return canvas.svg(alt)


def kv_size():
    """Model, numbers, length and batch become bytes."""
    lengths = sorted([2**i for i in range(19)] + [3 * 2**16])  # up to 32 GiB of Llama-3-8B, and its 24
    return widget.explore(
        kv_size_svg,
        model=widget.choice("Model", list(MODELS), "opt-13b"),
        dtype_bytes=widget.choice("Numbers", list(NUMBERS.items()), 2),
        num_tokens=widget.steps("Tokens a sequence", [(f"{n:,}", n) for n in lengths], 2048),
        batch=widget.steps("Sequences", [(f"{n:,}", n) for n in (1, 2, 4, 7, 8, 16, 32, 64, 128, 256)], 7),
    )
