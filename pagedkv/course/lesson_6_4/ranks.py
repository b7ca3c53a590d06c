"""A model on several ranks, processes that each hold some heads: one block table serves them all.

    python -m pagedkv.course.lesson_6_4.ranks --rank 0 --ranks 2 --file FILE --prompts 12,7,31 5,9

Each rank keeps the rows of q, k, v, gate and up, and the columns of o and down, that belong to its heads, and K and V
of its heads only. Twice a layer their parts are added (`all_reduce`); the rest each computes for itself, so all have
the same logits, sample the same tokens and take the same blocks. Rank 0 prints what all did as JSON.

Where there is a GPU for each rank, a rank runs on its own and they talk through NCCL; everywhere else they run on the
CPU and talk through gloo. Tests run gloo. NCCL is used as PyTorch describes it and was not run for this course.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pagedkv.engine import plays
from pagedkv.engine.engine import build
from pagedkv.engine.model import Llama
from pagedkv.engine.request import Sampling

SPLIT = {
    "q": 1,
    "k": 1,
    "v": 1,
    "gate": 1,
    "up": 1,
    "o": 2,
    "down": 2,
}  # weight [layers, out, in] -> the axis that is cut


class Shard(Llama):
    """The heads of one rank. The parts of all ranks are added behind attention and behind the feed-forward layer."""

    def attention(self, layer, x, rotate, attend):
        return self._summed(super().attention(layer, x, rotate, attend))

    def feed_forward(self, layer, x):
        return self._summed(super().feed_forward(layer, x))

    def _summed(self, part):
        dist.all_reduce(part)
        return part


def meeting(rank: int, ranks: int) -> tuple[str, str]:
    """(what the ranks talk through, the device of this one)."""
    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    return ("nccl", f"cuda:{rank}") if gpus >= ranks else ("gloo", "cpu")


def shard(model: Llama, rank: int, ranks: int, device: str = "cpu") -> Shard:
    """The part of `model` that one rank of `ranks` runs: whole heads, so both kinds of heads must divide."""
    whole = model.shape
    if whole.num_kv_heads % ranks or whole.num_q_heads % ranks or whole.ffn % ranks:
        raise ValueError(f"ranks must divide {whole.num_kv_heads} KV heads, {whole.num_q_heads} query heads and ffn")
    heads = {"num_q_heads": whole.num_q_heads // ranks, "num_kv_heads": whole.num_kv_heads // ranks}
    part = Shard(replace(whole, ffn=whole.ffn // ranks, **heads), model.dtype, device)
    for name, weight in model.state_dict().items():
        mine = weight.chunk(ranks, SPLIT[name])[rank] if name in SPLIT else weight
        part.get_parameter(name).data.copy_(mine)
    return part.requires_grad_(False)


def main(rank: int, ranks: int, file: str, prompts: Sequence[Sequence[int]], new: int = 24) -> None:
    torch.set_num_threads(1)
    through, device = meeting(rank, ranks)
    if through == "nccl":
        torch.cuda.set_device(device)  # before the ranks meet: NCCL takes the current one
    dist.init_process_group(through, init_method=f"file://{file}", rank=rank, world_size=ranks)
    model, _ = plays.load()
    engine = build(shard(model, rank, ranks, device), num_blocks=20, block_size=4, watermark=0.0, device=device)
    tables, run = [], engine.run

    def noted(step):
        tables.append([request.table.blocks for request, _ in step.work])
        return run(step)

    engine.run = noted
    tokens = engine.generate(prompts, [Sampling(new, 0.8, seed) for seed in range(len(prompts))])
    everyone = [None] * ranks
    mine = {"tokens": tokens, "tables": tables, "bytes_per_token": run.cache.shape.bytes_per_token}
    mine["preempted"] = sum(row.preempted for row in engine.usage)
    dist.all_gather_object(everyone, mine)
    if rank == 0:
        print(json.dumps(everyone))
    dist.destroy_process_group()


def on_ranks(ranks: int, prompts: Sequence[Sequence[int]]) -> list[dict]:
    """What each of `ranks` processes reports: tokens, the block tables of each step, bytes per token, preemptions."""
    with tempfile.TemporaryDirectory() as folder:
        lists = [",".join(map(str, prompt)) for prompt in prompts]
        command = [sys.executable, "-m", __name__, "--ranks", f"{ranks}", "--file", str(Path(folder) / "meet")]
        runs = [
            subprocess.Popen(
                [*command, "--rank", f"{rank}", "--prompts", *lists], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for rank in range(ranks)
        ]
        try:
            (out, error), *_ = [run.communicate(timeout=300) for run in runs]
        finally:
            for run in runs:
                run.kill()
    if any(run.returncode for run in runs):
        raise RuntimeError(error.decode()[-2000:])
    return json.loads(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rank", type=int, required=True, help="which of the processes this is, from 0")
    parser.add_argument("--ranks", type=int, required=True, help="how many there are")
    parser.add_argument("--file", required=True, help="a file that does not exist yet, by which they meet")
    parser.add_argument("--prompts", nargs="+", required=True, help="token ids, separated by commas")
    given = parser.parse_args()
    main(given.rank, given.ranks, given.file, [[int(token) for token in text.split(",")] for text in given.prompts])
