"""Lesson 2.1: what its checks accept and refuse, and that its pictures show the numbers they are given."""

import numpy as np
import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, assert_to_scale, boxes, chart_crossings, texts
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.course.draw import style
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_2_1 import charts, exercises, pictures, predictions, widgets
from pagedkv.course.thread import MIRA
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS

# Exercises

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def count_without_cache(prompt, output):
    computed = 0
    for step in range(output):
        for _ in range(prompt + step):
            computed += 1
    return computed


def count_with_cache(prompt, output):
    there = set()
    for step in range(output):
        there |= set(range(prompt + step))
    return len(there)


def bytes_by_array(config):
    heads = config["num_attention_heads"]
    head_dim = config["head_dim"] if "head_dim" in config else config["hidden_size"] // heads
    shape = [
        config["num_hidden_layers"],
        2,
        config.get("num_key_value_heads") or heads,
        head_dim,
        BYTES[config["dtype"]],
    ]
    return np.zeros(shape, np.int8).nbytes


def bytes_by_layer(config):
    heads = config["num_attention_heads"]
    vector = config.get("head_dim", config["hidden_size"] // heads) * BYTES[config["dtype"]]
    return sum(2 * vector * config.get("num_key_value_heads", heads) for _ in range(config["num_hidden_layers"]))


def letters(max_seq_len, prompt, output, generated):
    return "".join("T" if i < prompt + generated else "r" if i < prompt + output else "." for i in range(max_seq_len))


def padded(max_seq_len, prompt, output, generated):
    return ("T" * (prompt + generated)).ljust(prompt + output, "r").ljust(max_seq_len, ".")


RIGHT = {
    "2.1-computed": [
        (count_without_cache, count_with_cache),
        (exercises.computed_without_cache, exercises.computed_with_cache),
    ],
    "2.1-config": [bytes_by_array, bytes_by_layer],
    "2.1-reservation": [letters, padded],
}

KV = exercises.kv_bytes_per_token
WITHOUT, WITH = exercises.computed_without_cache, exercises.computed_with_cache


def fills_in_what_is_missing(config):
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    return KV(config)


WRONG = {  # name: [(answer, words of the verdict)]; of a pair, one is right
    "2.1-computed": [
        ((lambda p, o: p * o, WITH), "not only the prompt"),
        ((lambda p, o: sum(range(p, p + o + 1)), WITH), "one step too many"),
        ((lambda p, o: sum(range(p + 1, p + o + 1)), WITH), "step 0 reads the prompt alone"),
        ((WITH, WITH), "this is the number with a cache"),
        ((lambda p, o: WITHOUT(p, o) / 1, WITH), "a whole number is expected"),
        ((lambda p, o: sum(p + min(step, 1) for step in range(o)), WITH), "not only the latest"),
        ((lambda p, o: p + sum(range(o)), WITH), "the prompt is read in every step"),
        ((WITHOUT, lambda p, o: sum(p + min(step, 1) for step in range(o))), "kept after step 0"),
        ((WITHOUT, lambda p, o: p + sum(range(o))), "generated tokens are kept too"),
        ((WITHOUT, lambda p, o: p + o), "the last token is never read"),
        ((WITHOUT, lambda p, o: o), "prompt's K and V are computed too"),
        ((WITHOUT, WITHOUT), "this is the number without a cache"),
    ],
    "2.1-config": [
        (lambda c: KV(c) // 2, "K and V are both kept"),
        (lambda c: KV(c) // c["num_hidden_layers"], "every layer keeps"),
        (lambda c: KV(c) // BYTES[c["dtype"]], "bytes of its dtype"),
        (lambda c: KV(c, heads="num_attention_heads"), "only KV heads are kept"),
        (lambda c: KV(c, own_head_dim=False), "where the configuration states head_dim"),
        (lambda c: KV(c, heads="num_attention_heads", own_head_dim=False), "count KV heads, not query heads"),
        (lambda c: KV({"num_key_value_heads": 1} | c), "every query head has K and V of its own"),
        (
            lambda c: KV({"head_dim": c["hidden_size"] // c.get("num_key_value_heads", c["num_attention_heads"])} | c),
            "only KV heads are kept; query heads share them",
        ),
        (lambda c: (KV(c) + KV(c, heads="num_attention_heads")) // 2, "both K and V are kept for KV heads only"),
        (fills_in_what_is_missing, "changes its input `config`"),
        (lambda c: KV(c | {"num_key_value_heads": c["num_key_value_heads"]}), "KeyError"),
        (lambda c: 8 * KV(c), "too large: your function({"),
        (lambda c: KV(c, dtype_bytes=2), "the bytes of a number depend on the dtype: 4 in float32"),
        (
            lambda c: KV(c, dtype_bytes=min(BYTES[c["dtype"]], 3)),
            "K and V for every query head: the number is too small: your function({",
        ),
        (
            lambda c: KV(c, dtype_bytes=min(BYTES[c["dtype"]], 3)),
            "a head_dim of its own: the number is too small: your function({",
        ),
        (lambda c: (KV(c), c.clear())[0], "changes its input"),
    ],
    "2.1-reservation": [
        (lambda m, p, o, g: "T" * g + "r" * (o - g) + "." * (m - o), "the prompt's K and V are kept too"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * (m - p - g), "not every idle slot will be used"),
        (lambda m, p, o, g: "T" * (p + g) + "." * (m - p - g), "some idle slots will be used later"),
        (lambda m, p, o, g: "T" * (p + o) + "." * (m - p - o), "only `generated` output tokens"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * o + "." * (m - p - g - o), "what is not yet generated"),
        (lambda m, p, o, g: "T" * (p + g) + "r" * (o - g), "goes on to max_seq_len"),
        (lambda m, p, o, g: letters(m, p, max(o - 1, 0), max(g - 1, 0)), "the last token gets a slot too"),
        (lambda m, p, o, g: letters(m, p, o, max(g - 1, 0)), "your function(8, 5, 3, 3) should return 'TTTTTTTT'"),
        (lambda m, p, o, g: list(letters(m, p, o, g)), "a string is expected"),
        (lambda m, p, o, g: "T" * p + "r" * (o - g) + "T" * g + "." * (m - p - o), "without a gap"),
        (lambda m, p, o, g: letters(m, p, o, g) if g < o else "." * m, "still holds its slots"),
        (lambda m, p, o, g: letters(m, p, o, min(g + 1, o)), "has not been stored yet"),
    ],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


@pytest.mark.usefixtures("references_are_answers")
@pytest.mark.parametrize("answer", [answer for answer, _ in WRONG["2.1-computed"]])
def test_of_a_pair_one_is_right(answer, capsys):
    check("2.1-computed", answer)
    assert capsys.readouterr().out.count("   ok ") == 1


def test_the_commonest_mistakes_are_all_made_here():
    assert unheard(exercises, WRONG) == []


# Predictions


def largest():
    names = ("OPT-13B", "Llama-2-7B", "Llama-3-8B", "Llama-3-70B")
    return max(names, key=lambda name: MODELS[name.lower()].bytes_per_token)


def window():
    times = MODELS["llama-3-8b"].bytes_for(32_768) / MODELS["gemma-3-4b"].bytes_for(32_768)
    return f"Llama-3-8B, {times:.0f} times as much"


def full():
    means = []
    for name in ("paper-sharegpt", "azure-conv", "azure-code"):
        totals = [r.total_tokens for r in sample_requests(name, 10_000, seed=0)]
        means.append(np.mean([total for total in totals if total <= 2048]))
    assert f"{min(means) / 20.48:.0f} to {max(means) / 20.48:.0f} %" in predictions.PREDICTIONS[-1].reason
    return "less than half" if max(means) < 1024 else "half to three quarters"


def kept():
    times = WITHOUT(MIRA.prompt_tokens, MIRA.output_tokens) / WITH(MIRA.prompt_tokens, MIRA.output_tokens)
    return f"about {10 ** round(np.log10(times)):,} times"


COMPUTED = {"2.1-kept": kept, "2.1-largest": largest, "2.1-window": window, "2.1-full": full}
test_answers = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Pictures


def filled(canvas: Canvas, colour: str) -> list[dict]:
    return [shape for kind, shape in canvas.shapes if kind == "polygon" and shape["fill"] == colour]


@pytest.mark.parametrize(("prompt", "steps"), [(4, 8), (1, 1), (9, 3)])
def test_a_dark_cell_for_every_token_that_is_computed(prompt, steps):
    canvas, _ = pictures.recomputed_and_kept(prompt, steps)
    without, kept = exercises.computed_without_cache(prompt, steps), exercises.computed_with_cache(prompt, steps)
    assert len(filled(canvas, style.TOKEN)) == without + kept + 1  # one in the legend
    assert {f"without a cache: {without}", f"with a cache: {kept}"} <= set(texts(canvas))


def test_the_cells_of_both_triangles_have_one_size_and_stand_where_their_token_does():
    canvas, _ = pictures.recomputed_and_kept(4, 8)
    cells = boxes(canvas, style.TOKEN) + boxes(canvas, style.RESERVED)
    (side,) = {size for _, _, *sizes in cells for size in sizes}
    without, kept = ({box[:2] for box in cells if (box[0] > style.WIDTH / 2) == right} for right in (False, True))
    for corners in (without, kept):
        left, top = map(min, zip(*corners, strict=True))
        at = {(round((x - left) / side), round((y - top) / side)) for x, y in corners}
        assert at == {(token, step) for step in range(8) for token in range(4 + step)}


def test_the_histogram_says_how_many_fit_and_how_full_they_are():
    figure, words = charts.lengths_against_reservation({"some": np.array([256, 512, 768, 5000])}, 1024)
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "some: 75 % of the requests fit, and fill 50 % of 1,024 slots"
    assert [patch.get_x() for patch in axes.patches if patch.get_height()] == [256, 512, 768]
    assert sum(patch.get_height() for patch in axes.patches) == 3
    assert [line.get_xdata()[0] for line in axes.lines] == [512, 1024]
    assert {text.get_text() for text in axes.texts} == {"mean", "a reservation ends"}
    assert "some: 75% fit, their mean of 512 tokens fills 50%" in words and chart_crossings(figure) == []


def test_k_and_v_grow_with_tokens_and_with_requests_and_reading_faster():
    shapes = {"OPT-13B": MODELS["opt-13b"], "Llama-3-8B": MODELS["llama-3-8b"]}
    figure, words = charts.growth(shapes, longest=1000, most=4)
    count, one, many = ([line.get_ydata() for line in axes.lines] for axes in figure.axes)
    assert [line[-1] for line in count] == pytest.approx([1000 * 1001 / 2e6, 1000 / 1e6])
    sizes = [shape.bytes_for(1000) / 2**30 for shape in shapes.values()]
    for lines, ends in ((one, sizes), (many, [4 * size for size in sizes])):
        assert [line[-1] for line in lines] == pytest.approx(ends)
        assert all(np.allclose(np.diff(line), line[-1] / (len(line) - 1)) for line in lines)
    assert "OPT-13B: 0.76 GiB for one request, 3.1 for 4" in words and chart_crossings(figure) == []


def test_the_bars_of_a_size_and_the_lines_of_the_cards_have_one_scale():
    canvas, _ = pictures.kv_size("opt-13b", MODELS["opt-13b"], 2048, batch=7)
    bars = [width for left, _, width, height in boxes(canvas, style.TOKEN) if (left, height) == (pictures.LEFT, 36)]
    cards = {text: x for kind, shape in canvas.shapes if kind == "text" for text, x in [(shape["text"], shape["x"])]}
    gib = MODELS["opt-13b"].bytes_for(2048) / 2**30
    assert_to_scale([*bars, cards["24 GiB"] - pictures.LEFT], [gib, 7 * gib, 24])
    assert {"1.56 GiB", "10.9 GiB"} <= set(texts(canvas))


def test_the_reservations_and_the_enlarged_one_are_as_long_as_their_numbers():
    canvas, words = pictures.reservation()
    lengths = [r.total_tokens for r in sample_requests("paper-sharegpt", 7, seed=577)]
    used, idle = (boxes(canvas, fill) for fill in (style.TOKEN, style.INTERNAL))
    strip = [[box[2] for box in found if box[3] == 44] for found in (used, idle)]
    rest = [box[2] for box in boxes(canvas, style.EXTERNAL) if box[3] == 44]
    scale = assert_to_scale([*strip[0], *strip[1], *rest], [*lengths, *(2048 - n for n in lengths), 15_728 - 7 * 2048])
    assert scale == pytest.approx((style.WIDTH - 40) / 15_728)
    large = [box[2] for found in (used, idle) for box in found if box[3] == 56]
    assert_to_scale(large, [182, 348, 1518])
    assert {"182", "348 tokens", "1,518 slots never used", "1,392 slots left:"} <= set(texts(canvas))
    assert_legible(canvas.svg(words))


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (819_200, "800 KiB"),
        (2048 * 819_200, "1.56 GiB"),
        (2**40, "1 TiB"),
        (2**60, "1,048,576 TiB"),
    ],
)
def test_bytes_in_words(num_bytes, words):
    assert pictures.in_words(num_bytes) == words


def column_heights(canvas: Canvas) -> list[float]:
    """How far the column of each layer is filled."""
    points = [shape["points"] for shape in filled(canvas, style.TOKEN) if "layer " in str(shape["tip"])]
    return [bottom - top for (_, top), _, (_, bottom), _ in points]


def test_the_picture_says_which_layers_keep_a_window():
    canvas, words = pictures.kv_size("gemma-3-4b", MODELS["gemma-3-4b"], 32_768, batch=2)
    heights = column_heights(canvas)
    assert [layer for layer, height in enumerate(heights) if height == max(heights)] == [5, 11, 17, 23, 29]
    assert len(heights) == 34 and min(heights) == pytest.approx(max(heights) / 32)
    said = [
        "5 of 34 layers keep all 32,768 tokens, 29 only the last 1,024.",
        "One more token takes 20,480 B. If each layer kept all, a sequence would take 4.25 GiB.",
    ]
    assert {*said, "139,264 B", "756 MiB", "1.48 GiB"} <= set(texts(canvas))
    assert all(sentence in words for sentence in said)


@pytest.mark.parametrize(
    ("model", "num_tokens", "sentence", "number"),
    [
        ("opt-13b", 2048, "Each of the 40 layers keeps all 2,048 tokens.", "819,200 B"),
        ("gemma-3-4b", 1000, "Each of the 34 layers keeps all 1,000 tokens.", "133 MiB"),
        ("gpt-oss-20b", 131_072, "12 of 24 layers keep all 131,072 tokens, 12 only the last 128.", "3 GiB"),
        ("deepseek-v3", 1024, "Each of the 61 layers keeps all 1,024 tokens.", "(512 + 64)"),
    ],
)
def test_the_picture_says_what_every_kind_of_layer_keeps(model, num_tokens, sentence, number):
    canvas, words = pictures.kv_size(model, MODELS[model], num_tokens, batch=1)
    assert {sentence, number} <= set(texts(canvas))
    assert sentence in words


def test_bars_beyond_every_gpu_have_no_line_and_one_token_is_one():
    canvas, words = pictures.kv_size("opt-13b", MODELS["opt-13b"], 262_144, batch=256)
    assert "GPU memory" not in texts(canvas) and "dashed" not in words
    assert "Each of the 40 layers keeps the one token." in pictures.kv_size("opt-13b", MODELS["opt-13b"], 1, 1)[1]


# Widgets

SETTINGS = {
    "kv_size": [
        {"model": model, "num_tokens": tokens, "batch": batch, "dtype_bytes": size}
        for model in MODELS
        for tokens, batch, size in ((1, 1, 1), (2048, 7, 2), (262_144, 256, 4))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
