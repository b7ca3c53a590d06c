"""What a config.json says of the cache: files as they are, each way to say the same, and what is refused by name."""

import pytest

from pagedkv.model_config import kv_layers
from pagedkv.sizing import MODELS, KVShape, LatentShape, WindowedShape

GQA = dict(num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, hidden_size=4096, dtype="bfloat16")
QWEN = dict(num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4, hidden_size=3584, dtype="bfloat16")
GEMMA = dict(num_hidden_layers=34, num_attention_heads=8, num_key_value_heads=4, head_dim=256, hidden_size=2560)
GPT_OSS = dict(
    model_type="gpt_oss",
    num_hidden_layers=24,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=64,
    hidden_size=2880,
    sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 12,
    torch_dtype="bfloat16",
    quantization_config={"quant_method": "mxfp4"},
)
DEEPSEEK = dict(
    model_type="deepseek_v3",
    num_hidden_layers=61,
    num_attention_heads=128,
    num_key_value_heads=128,
    hidden_size=7168,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    num_nextn_predict_layers=1,
    torch_dtype="bfloat16",
    quantization_config={"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
)
GEMMA_FILE = dict(  # as it is published: what the code of gemma3_text assumes is left out
    architectures=["Gemma3ForConditionalGeneration"],
    model_type="gemma3",
    torch_dtype="bfloat16",
    mm_tokens_per_image=256,
    text_config=dict(
        model_type="gemma3_text",
        hidden_size=2560,
        intermediate_size=10240,
        num_hidden_layers=34,
        rope_scaling={"factor": 8.0, "rope_type": "linear"},
        sliding_window=1024,
    ),
    vision_config=dict(
        model_type="siglip_vision_model", hidden_size=1152, num_attention_heads=16, num_hidden_layers=27
    ),
)

FILES = {  # the keys that count, and some that do not
    "opt-13b": dict(
        model_type="opt",
        num_hidden_layers=40,
        num_attention_heads=40,
        hidden_size=5120,
        word_embed_proj_dim=5120,
        torch_dtype="float16",
    ),
    "llama-2-7b": GQA | dict(num_key_value_heads=32, pretraining_tp=1),
    "llama-3-8b": GQA | dict(model_type="llama", rope_theta=500000.0, attention_bias=False),
    "llama-3-70b": GQA | dict(num_hidden_layers=80, num_attention_heads=64, hidden_size=8192),
    "qwen3-0.6b": dict(
        model_type="qwen3",
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        hidden_size=1024,
        max_window_layers=28,
        sliding_window=None,
        use_sliding_window=False,
        torch_dtype="bfloat16",
    ),
    "qwen3-8b": GQA | dict(num_hidden_layers=36, head_dim=128),
    "gemma-3-4b": GEMMA_FILE,
    "gpt-oss-20b": GPT_OSS,
    "deepseek-v3": DEEPSEEK,
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_what_its_file_says(name):
    assert kv_layers(FILES[name]) == MODELS[name]


def without(config, *names):
    return {name: value for name, value in config.items() if name not in names}


@pytest.mark.parametrize(
    ("config", "bytes_per_token"),
    [
        (GQA, 131_072),  # 2*32*8*128*2
        (GQA | dict(head_dim=None), 131_072),
        (GQA | dict(dtype=None, torch_dtype="bfloat16"), 131_072),
        (without(GQA, "dtype") | dict(torch_dtype="torch.bfloat16"), 131_072),
        (GQA | dict(num_key_value_heads=None), 524_288),  # 2*32*32*128*2
        (without(GQA, "num_key_value_heads"), 524_288),
        (GQA | dict(dtype="float32"), 262_144),
        (GQA | dict(dtype="float8_e4m3fn"), 65_536),
        (dict(n_layer=12, n_head=12, n_embd=768, torch_dtype="float32"), 73_728),  # GPT-2: 2*12*12*64*4
        (dict(n_layer=70, num_attention_heads=112, n_embed=14336, torch_dtype="bfloat16"), 4_014_080),  # BLOOM
        (dict(num_hidden_layers=32, num_attention_heads=71, hidden_size=4544, multi_query=True, dtype="bfloat16"),
         8192),  # Falcon-7B: 2*32*1*64*2
        (dict(num_hidden_layers=32, num_attention_heads=32, hidden_size=2048, multi_query=False, dtype="bfloat16"),
         262_144),  # 2*32*32*64*2
        (dict(num_hidden_layers=60, num_attention_heads=128, num_kv_heads=8, hidden_size=8192, multi_query=True,
              new_decoder_architecture=True, dtype="bfloat16"), 122_880),  # Falcon-40B: 2*60*8*64*2
        (dict(n_layer=60, n_head=128, n_head_kv=8, hidden_size=8192, torch_dtype="bfloat16"), 122_880),
        (dict(text_config=GQA, vision_config=dict(num_hidden_layers=24)), 131_072),
        (dict(text_config=without(GQA, "dtype"), torch_dtype="bfloat16"), 131_072),
        (dict(text_config=GQA | dict(dtype=None), torch_dtype="bfloat16", hidden_size=1), 131_072),
        (dict(text_config=None) | GQA, 131_072),
        (dict(text_config=GEMMA | dict(sliding_window=1024, sliding_window_pattern=6), dtype="bfloat16"), 139_264),
        (GQA | dict(num_kv_shared_layers=0, is_encoder_decoder=False, v_head_dim=None), 131_072),
        (DEEPSEEK, 70_272),
        (dict(num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16, hidden_size=2048, kv_lora_rank=512,
              qk_rope_head_dim=64, dtype="bfloat16"), 31_104),  # 27*(512+64)*2
        (DEEPSEEK | dict(kv_lora_rank=None, v_head_dim=None, qk_nope_head_dim=None), 1_748_992),
    ],
)  # fmt: skip
def test_bytes_per_token_of_files_as_they_are(config, bytes_per_token):
    shape = kv_layers(config)
    assert shape.bytes_per_token == shape.bytes_for(1) == bytes_per_token


@pytest.mark.parametrize(
    ("config", "num_tokens", "num_bytes"),
    [
        (GEMMA_FILE, 1000, 139_264_000),
        (GEMMA_FILE, 32_768, 792_723_456),
        (GPT_OSS, 131_072, 3_224_371_200),
        (DEEPSEEK, 1000, 70_272_000),
    ],
)
def test_bytes_of_a_sequence(config, num_tokens, num_bytes):
    assert kv_layers(config).bytes_for(num_tokens) == num_bytes


FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("keys", "windows"),
    [
        (dict(sliding_window=7, layer_types=[FULL, SLIDING, SLIDING, FULL]), (None, 7, 7, None)),
        (dict(sliding_window=7, sliding_window_pattern=3, layer_types=[FULL, SLIDING] * 2), (None, 7, None, 7)),
        (dict(sliding_window=7, sliding_window_pattern=3), (7, 7, None, 7)),
        (dict(sliding_window=7, _sliding_window_pattern=2), (7, None, 7, None)),
        (dict(sliding_window=7, use_sliding_window=True, max_window_layers=3), (None, None, None, 7)),
        (dict(sliding_window=7, use_sliding_window=True, max_window_layers=0), (7, 7, 7, 7)),
        (dict(sliding_window=7, model_type="mistral"), (7, 7, 7, 7)),
        (dict(sliding_window=7, model_type="gemma2", sliding_window_size=7), (7, None, 7, None)),
        (dict(model_type="gpt_oss"), (128, None, 128, None)),
        (dict(sliding_window=7, model_type="gemma3_text", sliding_window_pattern=4), (7, 7, 7, None)),
    ],
)
def test_which_layers_have_a_window(keys, windows):
    assert kv_layers(GQA | dict(num_hidden_layers=4, head_dim=16) | keys) == WindowedShape(windows, 8, 16)


@pytest.mark.parametrize(
    "keys",
    [
        dict(sliding_window=None),
        dict(sliding_window=None, model_type="mistral"),
        dict(sliding_window=131_072, use_sliding_window=False, max_window_layers=28),
        dict(sliding_window=131_072, use_sliding_window=False, max_window_layers=0),
        dict(sliding_window=4096, model_type="qwen2"),
        dict(sliding_window=4096, use_sliding_window=True, max_window_layers=28),
        dict(sliding_window=None, layer_types=[FULL] * 28),
    ],
)
def test_a_window_that_no_layer_has(keys):
    assert kv_layers(QWEN | keys) == KVShape(28, 4, 128)


def test_another_dtype_for_the_cache():
    assert kv_layers(GQA, dtype_bytes=1) == KVShape(32, 8, 128, 1)
    assert kv_layers(without(GQA, "dtype"), dtype_bytes=1) == KVShape(32, 8, 128, 1)
    assert kv_layers(GEMMA_FILE, dtype_bytes=1).bytes_for(32_768) == 792_723_456 // 2
    assert kv_layers(DEEPSEEK, dtype_bytes=1) == LatentShape(61, 512, 64, 1)
    scheme = dict(quantization_config={"kv_cache_scheme": {"num_bits": 8, "type": "float"}})
    assert kv_layers(GQA | scheme, dtype_bytes=1) == KVShape(32, 8, 128, 1)
    with pytest.raises(ValueError, match="dtype_bytes must be given.*kv_cache_scheme"):
        kv_layers(GQA | scheme)
    with pytest.raises(ValueError, match="dtype_bytes must be given.*kv_cache_quant_algo"):
        kv_layers(GQA | {"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}})


SMALL = {"num_hidden_layers": 2, "num_attention_heads": 16, "hidden_size": 2048, "dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("keys", "heads", "head_dim"),
    [
        ({"model_type": "mixtral"}, 8, 128),
        ({"model_type": "mixtral", "num_key_value_heads": None}, 16, 128),
        ({"model_type": "gpt_bigcode"}, 1, 128),
        ({"model_type": "falcon"}, 1, 128),
        ({"model_type": "falcon", "multi_query": False}, 16, 128),
        ({"model_type": "gemma"}, 16, 256),
    ],
)
def test_what_a_model_assumes_where_its_file_says_nothing(keys, heads, head_dim):
    assert kv_layers(SMALL | keys) == KVShape(2, heads, head_dim)


def test_mistral_has_a_window_unless_its_file_says_null():
    assert kv_layers(SMALL | {"model_type": "mistral"}) == WindowedShape((4096, 4096), 8, 128)
    assert kv_layers(SMALL | {"model_type": "mistral", "sliding_window": None}) == KVShape(2, 8, 128)


def test_the_file_is_left_as_it_is():
    config = dict(GEMMA_FILE, text_config=dict(GEMMA_FILE["text_config"]))
    kv_layers(config)
    assert config == GEMMA_FILE


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ("config.json", TypeError, "config must be the dict of a config.json, not 'config.json'"),
        ({}, ValueError, "dtype is missing in config, and so is torch_dtype"),
        (GQA | dict(dtype="int4"), ValueError, "dtype must be one of 'float32'.*not 'int4'"),
        (GQA | dict(dtype=None, torch_dtype="auto"), ValueError, "torch_dtype must be one of.*not 'auto'"),
        (without(GQA, "num_hidden_layers"), ValueError, "num_hidden_layers is missing in config, and so is n_layer"),
        (without(GQA, "num_attention_heads"), ValueError, "num_attention_heads is missing in config"),
        (without(GQA, "hidden_size"), ValueError, "hidden_size is missing in config"),
        (GQA | dict(num_hidden_layers="32"), TypeError, "num_hidden_layers must be a whole number.*'32'"),
        (GQA | dict(num_hidden_layers=10**12), ValueError, "num_hidden_layers must be a whole number"),
        (dict(n_layer=0, n_head=12, n_embd=768, dtype="float32"), ValueError, "n_layer must be a whole number.*not 0"),
        (GQA | dict(num_key_value_heads=[8, 4]), TypeError, r"num_key_value_heads must be a whole number.*\[8, 4\]"),
        (GQA | dict(num_key_value_heads=7), ValueError, "num_attention_heads, 32, is no multiple of num_key"),
        (GQA | dict(head_dim=0), ValueError, "head_dim must be a whole number of at least 1"),
        (GQA | dict(hidden_size=4100), ValueError, "head_dim is missing, and hidden_size, 4100, is no multiple of 32"),
        (GQA | dict(multi_query="yes"), TypeError, "multi_query must be true, false or null, not 'yes'"),
        (GQA | dict(text_config=["a"]), TypeError, "text_config must be a dict"),
        (DEEPSEEK | dict(qk_rope_head_dim=None), ValueError, "qk_rope_head_dim is missing"),
        (DEEPSEEK | dict(index_head_dim=128), ValueError, "index_head_dim is not understood.*128"),
        (DEEPSEEK | dict(sliding_window=9, sliding_window_pattern=2), ValueError, "kv_lora_rank and sliding_window"),
        (GQA | dict(sliding_window=4096), ValueError, "sliding_window is 4096, and nothing in config says in which"),
        (GQA | dict(sliding_window=9, model_type="new"), ValueError, "sliding_window is 9, and nothing"),
        (GQA | dict(sliding_window=0, model_type="mistral"), ValueError, "sliding_window must be a whole number"),
        (GQA | dict(sliding_window=[9], model_type="mistral"), TypeError, "sliding_window must be a whole number"),
        (GQA | dict(sliding_window=9, sliding_window_pattern="LLLG"), TypeError, "sliding_window_pattern must be"),
        (GQA | dict(sliding_window=9, use_sliding_window=True), ValueError, "max_window_layers is missing"),
        (GQA | dict(sliding_window=9, use_sliding_window=1), TypeError, "use_sliding_window must be true, false"),
        (GQA | dict(sliding_window_pattern=6), ValueError, "sliding_window is missing"),
        (GQA | dict(layer_types=[SLIDING] * 32), ValueError, "sliding_window is missing"),
        (GQA | dict(layer_types=[FULL] * 4), ValueError, "layer_types must have 32 entries.*not 4"),
        (GQA | dict(layer_types=[FULL] * 31 + ["linear_attention"]), ValueError, "layer_types.*not 'linear_attention'"),
        (GQA | dict(layer_types=[["a"]] * 32), ValueError, "layer_types must name"),
        (GQA | dict(layer_types=32), TypeError, "layer_types must be an iterable"),
    ],
)  # fmt: skip
def test_what_is_refused(config, error, words):
    with pytest.raises(error, match=words) as caught:
        kv_layers(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attention_chunk_size", 8192),  # Llama 4
        ("num_kv_shared_layers", 15),  # Gemma 3n
        ("global_head_dim", 512),  # Gemma 4
        ("num_global_key_value_heads", 8),
        ("attention_k_eq_v", True),
        ("v_head_dim", 64),  # K and V of different sizes
        ("swa_num_key_value_heads", 8),  # MiMo
        ("num_key_value_heads_per_layer", [8, 4]),
        ("attn_layer_period", 8),  # Jamba
        ("mamba_d_state", 16),
        ("hybrid_override_pattern", "M-M*"),  # Nemotron-H
        ("full_attention_interval", 4),  # Qwen3-Next
        ("linear_num_key_heads", 16),
        ("linear_attn_config", {"head_dim": 128}),  # Kimi Linear
        ("attn_type_list", [0, 1]),  # MiniMax
        ("block_types", ["recurrent", "attention"]),  # RecurrentGemma
        ("attention_window_size", 2048),
        ("conv_L_cache", 3),  # LFM2
        ("cross_attention_layers", [3, 8]),  # Llama 3.2 Vision
        ("is_encoder_decoder", True),
        ("multi_query_group_num", 2),  # ChatGLM
        ("attention_types", [[["global", "local"], 12]]),  # GPT-Neo
        ("attention_type", "block_sparse"),  # BigBird
        ("layer_group_size", 5),  # Ring and Ling, linear but for one layer in five
        ("local_attention", 128),  # ModernBERT's decoder
        ("global_attn_every_n_layers", 3),
        ("block_configs", [{}]),
        ("use_cla", True),  # Hunyuan
        ("total_ut_steps", 4),  # Ouro, whose layers run several times
        ("slstm_at", [1]),  # xLSTM
        ("add_cross_attention", True),
    ],
)
def test_a_key_that_may_change_what_is_kept_is_named(name, value):
    for config in (GQA | {name: value}, {"text_config": GQA | {name: value}}):
        with pytest.raises(ValueError, match=f"^{name} is not understood"):
            kv_layers(config)
    assert kv_layers(GQA | {name: None}) == MODELS["llama-3-8b"]
