import pytest

from pagedkv.sizing import MODELS, KVShape


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("opt-13b", 819_200),
        ("llama-2-7b", 524_288),
        ("llama-3-8b", 131_072),
        ("llama-3-70b", 327_680),
        ("qwen3-0.6b", 114_688),
        ("qwen3-8b", 147_456),
    ],
)
def test_bytes_per_token_of_known_models(model, bytes_per_token):
    assert MODELS[model].bytes_per_token == bytes_per_token


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
