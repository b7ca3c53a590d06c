from dataclasses import replace

import pytest

from pagedkv.sizing import MODELS, KVShape, LatentShape, WindowedShape


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("opt-13b", 819_200),
        ("llama-2-7b", 524_288),
        ("llama-3-8b", 131_072),
        ("llama-3-70b", 327_680),
        ("qwen3-0.6b", 114_688),
        ("qwen3-8b", 147_456),
        ("gemma-3-4b", 139_264),  # 34 layers of 2*4*256*2 = 4,096
        ("gpt-oss-20b", 49_152),  # 24 layers of 2*8*64*2 = 2,048
        ("deepseek-v3", 70_272),  # 61 layers of (512+64)*2 = 1,152
    ],
)
def test_bytes_per_token_of_known_models(model, bytes_per_token):
    assert MODELS[model].bytes_per_token == MODELS[model].bytes_for(1) == bytes_per_token


@pytest.mark.parametrize(
    ("model", "num_tokens", "num_bytes"),
    [
        ("opt-13b", 2048, 1_677_721_600),
        ("gemma-3-4b", 0, 0),
        ("gemma-3-4b", 1000, 139_264_000),  # no window is full yet
        ("gemma-3-4b", 1024, 142_606_336),
        ("gemma-3-4b", 1025, 142_626_816),  # 20,480 more
        ("gemma-3-4b", 32_768, 792_723_456),  # 5*4,096*32,768 + 29*4,096*1,024
        ("gpt-oss-20b", 131_072, 3_224_371_200),  # 12*2,048*131,072 + 12*2,048*128
        ("deepseek-v3", 131_072, 9_210_691_584),
    ],
)
def test_bytes_of_a_sequence(model, num_tokens, num_bytes):
    assert MODELS[model].bytes_for(num_tokens) == num_bytes


def test_growth_is_the_bytes_of_a_token_past_every_window():
    growths = {name: shape.growth for name, shape in MODELS.items()}
    assert (growths["gemma-3-4b"], growths["gpt-oss-20b"]) == (20_480, 24_576)
    for name, shape in MODELS.items():
        assert growths[name] == shape.bytes_for(5001) - shape.bytes_for(5000)


def test_the_layers_that_keep_every_token():
    windows = MODELS["gemma-3-4b"].windows
    assert [layer for layer, window in enumerate(windows) if window is None] == [5, 11, 17, 23, 29]
    assert len(windows) == 34 and windows.count(1024) == 29
    assert MODELS["gpt-oss-20b"].windows[:4] == (128, None, 128, None)
    assert MODELS["deepseek-v3"].windows == (None,) * 61


def test_full_pages_keep_what_windows_drop():
    assert MODELS["gemma-3-4b"].full_pages.bytes_for(32_768) == 139_264 * 32_768  # 4.25 GiB
    assert MODELS["gpt-oss-20b"].full_pages.bytes_for(131_072) == 6 * 2**30


@pytest.mark.parametrize("model", MODELS)
def test_fp8_takes_half(model):
    assert 2 * replace(MODELS[model], dtype_bytes=1).bytes_for(5000) == MODELS[model].bytes_for(5000)


def test_one_gib_of_a_model_with_grouped_queries():
    shape = KVShape(num_layers=32, num_kv_heads=8, head_dim=128)
    assert shape.tokens_in(2**30) == 8192
    assert shape.block_bytes(16) == 2 * 2**20
    assert 2**30 // shape.block_bytes(16) == 512
    assert KVShape(32, 8, 128, dtype_bytes=1).tokens_in(2**30) == 2 * 8192


def test_the_published_pool():
    assert MODELS["opt-13b"].tokens_in(12 * 2**30) == 15_728


def test_only_whole_tokens_fit():
    shape = KVShape(1, 1, 4)  # 16 bytes a token
    assert [shape.tokens_in(n) for n in (0, 15, 16, 31, 32)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("field", ["num_layers", "num_kv_heads", "head_dim", "dtype_bytes"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (10**30, ValueError),
        (1.5, TypeError),
        (True, TypeError),
        ("8", TypeError),
    ],
)
def test_bad_shapes_are_named(field, value, error):
    good = {"num_layers": 1, "num_kv_heads": 1, "head_dim": 1, "dtype_bytes": 1}
    with pytest.raises(error, match=f"{field} must be a whole number.*{value!r}"):
        KVShape(**(good | {field: value}))


@pytest.mark.parametrize("value", [0, -16, 16.0, True])
def test_bad_block_sizes_are_named(value):
    with pytest.raises((ValueError, TypeError), match="block_size"):
        MODELS["opt-13b"].block_bytes(value)


def test_an_unknown_model_is_named_with_the_known_ones():
    with pytest.raises(KeyError, match="model must be one of 'opt-13b', .*not 'gpt-5'"):
        MODELS["gpt-5"]
    assert MODELS.get("gpt-5") is None
    assert "gpt-5" not in MODELS


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: WindowedShape((), 8, 64), ValueError, "windows must have an entry for each layer"),
        (lambda: WindowedShape((0, None), 8, 64), ValueError, "windows must be a whole number of at least 1, not 0"),
        (lambda: WindowedShape(("128",), 8, 64), TypeError, "windows must be a whole number.*'128'"),
        (lambda: WindowedShape(128, 8, 64), TypeError, "windows must be an iterable.*not 128"),
        (lambda: WindowedShape((128,), None, 64), TypeError, "num_kv_heads must be a whole number.*None"),
        (lambda: WindowedShape((128,), 8, 64, 0), ValueError, "dtype_bytes must be a whole number.*0"),
        (lambda: LatentShape(61, 512, -64), ValueError, "rope_dim must be a whole number.*-64"),
        (lambda: MODELS["gemma-3-4b"].bytes_for(-1), ValueError, "num_tokens must be a whole number.*-1"),
        (lambda: MODELS["deepseek-v3"].bytes_for(1.0), TypeError, "num_tokens must be a whole number.*1.0"),
    ],
)
def test_bad_layers_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
