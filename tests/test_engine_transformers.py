"""The engine against transformers, where it is installed: the same weights in its Llama, `generate` and its own
continuous batching, `generate_batch`. Seen with transformers 5.24.0.
"""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
transformers = pytest.importorskip("transformers")

from pagedkv.engine import plays  # noqa: E402
from pagedkv.engine.engine import build  # noqa: E402
from pagedkv.engine.model import dense  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("default")]
COUNT = 30
PARTS = {
    "attention_norm": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
    "o": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "gate": "mlp.gate_proj", "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}  # fmt: skip


@pytest.fixture(scope="module")
def both():
    """(our model, the same weights in theirs, prompts)"""
    model, tokenizer = plays.load()
    s = model.shape
    config = transformers.LlamaConfig(
        vocab_size=s.vocab_size, hidden_size=s.hidden, intermediate_size=s.ffn, num_hidden_layers=s.num_layers,
        num_attention_heads=s.num_q_heads, num_key_value_heads=s.num_kv_heads, head_dim=s.head_dim,
        rms_norm_eps=s.norm_eps, rope_theta=s.rope_base, tie_word_embeddings=True, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    weights = {"model.embed_tokens.weight": model.embed, "lm_head.weight": model.embed, "model.norm.weight": model.norm}
    for name, part in PARTS.items():
        for layer, weight in enumerate(getattr(model, name)):
            weights[f"model.layers.{layer}.{part}.weight"] = weight
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.load_state_dict(weights)
    prompts = [tokenizer.encode(f"**{name}**\n").ids for name in ("HAMLET", "KING LEAR", "ROMEO", "PUCK", "OTHELLO")]
    return model, theirs, prompts


@torch.no_grad()
def test_logits(both):
    model, theirs, prompts = both
    for prompt in prompts:
        ids = torch.tensor(prompt)
        right = theirs(ids[None]).logits[0]
        assert float((model(ids, torch.arange(len(ids)), dense()) - right).abs().max()) < 1e-3


def test_generate(both):
    model, theirs, prompts = both
    ours = build(model, 24, 4, watermark=0.0).generate(prompts, Sampling(COUNT))
    for prompt, tokens in zip(prompts, ours, strict=True):
        ids = torch.tensor([prompt])
        right = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=COUNT, do_sample=False)
        assert right[0, len(prompt) :].tolist() == tokens


def test_generate_batch(both):
    model, theirs, prompts = both
    how = transformers.GenerationConfig(max_new_tokens=COUNT, do_sample=False, eos_token_id=-1)
    outputs = theirs.generate_batch(prompts, generation_config=how)
    right = {tuple(output.prompt_ids): output.generated_tokens for output in outputs.values()}
    for prompt, tokens in zip(prompts, build(model, 64).generate(prompts, Sampling(COUNT)), strict=True):
        assert right[tuple(prompt)] == tokens
