"""The course's own model: about a million parameters that were trained on Shakespeare's plays (`train`).

`record.json` says how: command, seed, steps, loss, versions, licence.
"""

import json
from pathlib import Path

import torch

from pagedkv.engine.model import Llama, ModelShape

HERE = Path(__file__).parent
WEIGHTS, TOKENIZER, RECORD = HERE / "model.safetensors", HERE / "tokenizer.json", HERE / "record.json"
END = "<|end|>"  # the token after each play


def load(dtype: torch.dtype = torch.float32, device="cpu"):
    """(model, tokenizer): a Llama, and a `tokenizers.Tokenizer` with `.encode(text).ids` and `.decode(ids)`."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    model = Llama(ModelShape(**json.loads(RECORD.read_text(encoding="utf-8"))["shape"]), dtype, device)
    model.load_state_dict(load_file(WEIGHTS))  # copies, and so converts from bfloat16
    return model.requires_grad_(False), Tokenizer.from_file(str(TOKENIZER))
