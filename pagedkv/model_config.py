"""What a model keeps of a token, read from its config.json: `kv_layers` gives the shape.

The file is written for the code of one model, so the same number has several names, may be null, may stand under
text_config, or may be left out because that code has a default. Read here: one K and V for each head, for groups of
heads or for all heads; windows in some layers or in all; latent attention. A key that may change what is kept and is
not understood is refused by its name: a wrong number of bytes would be seen only when the memory runs out.
"""

import re
from collections.abc import Mapping

from pagedkv.arguments import listed, shown, whole_number
from pagedkv.sizing import KVShape, LatentShape, WindowedShape

NAMES = {  # the names of a number, the usual one first
    "num_hidden_layers": ("num_hidden_layers", "n_layer"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "hidden_size": ("hidden_size", "n_embd", "n_embed"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "sliding_window": ("sliding_window", "sliding_window_size"),
    "sliding_window_pattern": ("sliding_window_pattern", "_sliding_window_pattern"),
    "dtype": ("dtype", "torch_dtype"),
}
NESTED = ("text_config", "llm_config", "language_config")  # beside what the file says of images or sound
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
SLIDES = {"full_attention": False, "sliding_attention": True}  # entries of layer_types

EVERY_LAYER_SLIDES = {"use_sliding_window": True, "max_window_layers": 0}
QWEN = {"use_sliding_window": False}
LEFT_OUT = {  # by model_type: what its code assumes where the file says nothing
    "falcon": {"multi_query": True},
    "gemma": {"head_dim": 256},
    "gpt_bigcode": {"multi_query": True},
    "gemma2": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 2,
    },
    "gemma3": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
    "gpt_oss": {"head_dim": 64, "sliding_window": 128, "sliding_window_pattern": 2},
    "qwen3": QWEN | {"head_dim": 128},
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3_moe", "qwen2_vl", "qwen2_5_vl"), QWEN),
    "mistral": EVERY_LAYER_SLIDES | {"num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": EVERY_LAYER_SLIDES | {"num_key_value_heads": 8},
    **dict.fromkeys(("phi3", "phimoe", "starcoder2"), EVERY_LAYER_SLIDES),
}

# Keys that may change what is kept: those that speak of it, and some that do not sound like it.
SPEAKS_OF_IT = re.compile(
    r"(^|_)(kv|key_value|head_dim|window|sliding|swa|chunk|layers?_types?|block_types?|mamba|ssm|conv|linear|hybrid"
    r"|layer_group|local|global)(_|$)"
    r"|^(attn_(type_list|layer\w+)|attention_(types?|k_eq_v)|full_att\w+|cross_attention_layers|is_encoder_decoder"
    r"|multi_query_group_num|num_attention_groups|block_configs|compress_ratios|use_cla|index_topk"
    r"|total_ut_steps|slstm_at|add_cross_attention)$"
)
KNOWN = {name for names in NAMES.values() for name in names} | {
    *("layer_types", "use_sliding_window", "max_window_layers", "multi_query", "mlp_layer_types"),
    *("kv_lora_rank", "qk_rope_head_dim"),
}
KNOWN_OF_LATENT = {"qk_nope_head_dim", "qk_head_dim", "v_head_dim"}  # sizes of what is computed, not kept


def kv_layers(config: Mapping, dtype_bytes: int | None = None) -> KVShape | WindowedShape | LatentShape:
    """The shape of a model from `config`, the dict of its config.json; `dtype_bytes` if the cache's numbers are not of
    the model's own dtype (1 for an fp8 cache).

    Raises ValueError or TypeError that names a key which is missing, makes no sense or is not understood.
    """
    keys = _read(config)
    if dtype_bytes is None:
        dtype_bytes = _dtype_bytes(keys)
    num_layers = _number(keys, "num_hidden_layers")
    windows = _windows(keys, num_layers)
    if "kv_lora_rank" in keys:
        if any(windows):
            raise ValueError("kv_lora_rank and sliding_window must not both be in config: latent layers have no window")
        rank, rope_dim = _number(keys, "kv_lora_rank"), _number(keys, "qk_rope_head_dim")
        return LatentShape(num_layers, rank, rope_dim, dtype_bytes)
    heads, head_dim = _kv_heads(keys), _head_dim(keys)
    if any(windows):
        return WindowedShape(windows, heads, head_dim, dtype_bytes)
    return KVShape(num_layers, heads, head_dim, dtype_bytes)


def _read(config) -> dict:
    """The keys that have a value, what is nested before what is not, and the model's defaults after both."""
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be the dict of a config.json, not {shown(config)}")
    levels = [config]
    for name in NESTED:
        if config.get(name) is not None:
            if not isinstance(config[name], Mapping):
                raise TypeError(f"{name} must be a dict, not {shown(config[name])}")
            levels.append(config[name])
    keys = {name: value for level in levels for name, value in level.items() if value is not None}
    known = KNOWN | KNOWN_OF_LATENT if "kv_lora_rank" in keys else KNOWN
    for name, value in keys.items():
        if value and name not in known and SPEAKS_OF_IT.search(str(name)):
            raise ValueError(f"{name} is not understood, and may change what a layer keeps: it is {shown(value)}")
    defaults = LEFT_OUT.get(str(keys.get("model_type")).removesuffix("_text"), {})
    stated = {name for level in levels for name in level}  # null, too: mistral's says that there is no window
    return {name: value for name, value in defaults.items() if _found(stated, name) is None} | keys


def _found(keys, name) -> str | None:
    """Under which of its names a number stands."""
    return next((alias for alias in NAMES.get(name, (name,)) if alias in keys), None)


def _number(keys, name, minimum=1, maximum=2**20) -> int:
    found = _found(keys, name)
    if found is None:
        others = "".join(f", and so is {alias}" for alias in NAMES.get(name, (name,))[1:])
        raise ValueError(f"{name} is missing in config{others}")
    return whole_number(found, keys[found], minimum, maximum)


def _flag(keys, name) -> bool:
    value = keys.get(name, False)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true, false or null, not {shown(value)}")
    return value


def _dtype_bytes(keys) -> int:
    """Bytes of the model's own dtype, in which engines keep K and V unless they are told otherwise."""
    quantized = keys.get("quantization_config")
    items = quantized.items() if isinstance(quantized, Mapping) else ()
    scheme = next(((key, value) for key, value in items if str(key).startswith("kv_cache") and value is not None), None)
    if scheme:
        raise ValueError(f"dtype_bytes must be given, since quantization_config has a {scheme[0]}: {shown(scheme[1])}")
    found = _found(keys, "dtype")
    if found is None:
        raise ValueError("dtype is missing in config, and so is torch_dtype: dtype_bytes must be given")
    dtype = str(keys[found]).removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"{found} must be one of {', '.join(map(repr, DTYPE_BYTES))}, not {shown(keys[found])}")
    return DTYPE_BYTES[dtype]


def _kv_heads(keys) -> int:
    if _flag(keys, "multi_query") and not _flag(keys, "new_decoder_architecture"):
        return 1  # Falcon's newer architecture has groups, and leaves the flag as it was
    if not _found(keys, "num_key_value_heads"):
        return _number(keys, "num_attention_heads")
    heads = _number(keys, "num_key_value_heads")
    if _found(keys, "num_attention_heads") and (query_heads := _number(keys, "num_attention_heads")) % heads:
        raise ValueError(f"num_attention_heads, {query_heads}, is no multiple of num_key_value_heads, {heads}")
    return heads


def _head_dim(keys) -> int:
    if _found(keys, "head_dim"):
        return _number(keys, "head_dim")
    hidden_size, heads = _number(keys, "hidden_size"), _number(keys, "num_attention_heads")
    if hidden_size % heads:
        raise ValueError(f"head_dim is missing, and hidden_size, {hidden_size}, is no multiple of {heads} heads")
    return hidden_size // heads


def _windows(keys, num_layers) -> tuple[int | None, ...]:
    """For each layer its window, or None if it keeps every token."""
    slides = _slides(keys, num_layers)
    if not any(slides):
        return (None,) * num_layers
    window = _number(keys, "sliding_window", maximum=None)
    return tuple(window if slide else None for slide in slides)


def _slides(keys, num_layers) -> list[bool]:
    """For each layer, whether it has a window."""
    types = keys.get("layer_types")
    if types is not None:
        types = listed("layer_types", types, "strings")
        for kind in types:
            if kind not in list(SLIDES):
                raise ValueError(
                    f"layer_types must name {' or '.join(map(repr, SLIDES))} for each layer, not {shown(kind)}"
                )
        if len(types) != num_layers:
            raise ValueError(
                f"layer_types must have {num_layers} entries, as many as there are layers, not {len(types)}"
            )
    if "use_sliding_window" in keys and not _flag(keys, "use_sliding_window"):
        return [False] * num_layers
    if types is not None:
        return [SLIDES[kind] for kind in types]
    if _found(keys, "sliding_window_pattern"):
        period = _number(keys, "sliding_window_pattern")
        return [(layer + 1) % period != 0 for layer in range(num_layers)]
    if not _found(keys, "sliding_window"):
        return [False] * num_layers
    if "use_sliding_window" in keys:
        first = _number(keys, "max_window_layers", minimum=0)
        return [layer >= first for layer in range(num_layers)]
    raise ValueError(
        f"sliding_window is {keys[_found(keys, 'sliding_window')]!r}, and nothing in config says in which layers: "
        "neither layer_types nor sliding_window_pattern, use_sliding_window or a model_type that is known"
    )
