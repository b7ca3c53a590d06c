"""What the engine costs beside the model, and what it makes of a GPU; `make bench` runs it, and by itself

    python -m pagedkv.bench.engine --out FILE

On every machine: the host's time for a step without a model, and what a batch of 16 gains over one request. On a GPU:
decode of 1, 64 and 256 requests of 1,024 tokens by a model of random weights in Qwen3-0.6B's shape, against the time
that reading its weights, K and V takes, and against transformers on the same weights: its continuous batching, and its
`generate`, which decodes one batch of equal prompts to its end.
"""

import argparse
import gc
import time
from importlib.util import find_spec
from itertools import pairwise
from statistics import median

from pagedkv.arguments import command, installed

if __name__ == "__main__":
    installed("torch")

import torch

from pagedkv.bench import report
from pagedkv.bench.peers import Unsupported
from pagedkv.block_pool import BlockPool
from pagedkv.engine.engine import Engine, build
from pagedkv.engine.model import Llama, ModelShape
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.files import writable
from pagedkv.sizing import BLOCK_SIZE, ceil_div

RUNNING = (1, 8, 64, 256)
DECODED = (1, 64, 256)  # requests, on a GPU
CONTINUOUS = (64, 1)  # 256 would take it minutes: each prompt attends, masked, to those that decode already
QWEN3 = ModelShape(151_936, 28, 1024, 3072, 16, 8, 128, rope_base=1e6, norm_eps=1e-6)  # but for its norms of q and k
LENGTH, STEPS = 1024, 40
CACHES = ("dynamic", "static")  # of transformers' `generate`
PARTS = {  # of transformers' Llama
    "attention_norm": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
    "o": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "gate": "mlp.gate_proj", "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}  # fmt: skip


def measure(device: torch.device) -> dict:
    """All of it, ready for JSON; what could not be measured is said under "left_out"."""
    record = {"overhead_us": {str(n): overhead_us(n) for n in RUNNING}, "left_out": {}}
    try:
        record["batch_16_over_1"] = batch_gain()
    except ImportError as reason:
        record["left_out"]["batch_16_over_1"] = str(reason)
    if device.type == "cuda":
        record["decode"] = decode(device, record["left_out"])
    else:
        record["left_out"]["decode"] = "needs a CUDA device"
    return record


def overhead_us(running: int, steps: int = 60) -> float:
    """CPU time of one step of scheduler and engine with that many requests, each a token; the fastest of three runs."""
    found = []
    for _ in range(3):
        pool = BlockPool(running * (ceil_div(LENGTH + steps + 2, BLOCK_SIZE) + 1), BLOCK_SIZE)
        engine = Engine(Scheduler(pool), lambda step: [1] * len(step.ready))
        for request in range(running):
            engine.add([1] * (LENGTH - request % BLOCK_SIZE), Sampling(steps + 2))
        engine.step()
        start = time.process_time()
        for _ in range(steps):
            engine.step()
        found.append((time.process_time() - start) * 1e6 / steps)
    return min(found)


def batch_gain(batch: int = 16, new: int = 32, rounds: int = 5) -> float:
    """Tokens per second of that many requests together over those of one, by the small model on a CPU."""
    from pagedkv.engine import plays

    model, tokenizer = plays.load()
    prompt, best = tokenizer.encode("**HAMLET**\n").ids, [float("inf")] * 2
    for _ in range(rounds):
        for i, count in enumerate((1, batch)):
            engine = build(model, 32 * batch, max_running=batch)
            start = time.perf_counter()
            engine.generate([prompt] * count, Sampling(new))
            best[i] = min(best[i], (time.perf_counter() - start) / count)
    return best[0] / best[1]


def decode(device: torch.device, left_out: dict) -> list[dict]:
    """A row for each of DECODED: ms of a step, on the device and in all, the bound, tokens per second of both."""
    from pagedkv.bench.ceilings import Ceilings

    with device:
        torch.manual_seed(0)
        model = Llama(QWEN3, torch.bfloat16, device).requires_grad_(False)
    size = 2**31
    read = size / Ceilings(device, 3).read_us(size) * 1e3  # bytes per ms
    weights, rows = sum(w.numel() * w.element_size() for w in model.parameters()), []
    for count in DECODED:
        kv = count * LENGTH * model.shape.kv_shape(2).bytes_per_token
        bound = {
            "requests": count,
            "length": LENGTH,
            "bytes": weights + kv,
            "read_gb_s": read / 1e6,
            "bound_ms": (weights + kv) / read,
        }
        try:
            rows.append(bound | ours(model, count, device))
        except (torch.cuda.OutOfMemoryError, MemoryError):
            left_out[f"decode of {count} requests"] = "more memory than the GPU has"
        gc.collect()
        torch.cuda.empty_cache()
    try:
        theirs = peer(model)
        for row in rows:
            count = row["requests"]
            row["transformers_generate_tokens_per_s"] = max(together(theirs, prompts(model, count), c) for c in CACHES)
            if count in CONTINUOUS:
                given = [continuous(theirs, prompts(model, count), graphs) for graphs in (True, None)]
                row["transformers_tokens_per_s"] = max(given)
    except Exception as reason:  # whatever breaks there does not end the run
        left_out["transformers"] = str(reason) if isinstance(reason, Unsupported) else type(reason).__name__
    return rows


@torch.no_grad()
def ours(model: Llama, count: int, device: torch.device) -> dict:
    """Single steps about LENGTH tokens: all that the engine does, and at LENGTH replays of the captured graph alone."""
    blocks = ceil_div(LENGTH + STEPS, BLOCK_SIZE)
    engine = build(model, count * blocks, max_running=count, max_blocks=blocks, watermark=0.0, device=device)
    for prompt in prompts(model, count):
        engine.add(prompt, Sampling(STEPS + 10))
    steps, replays = [], []
    while len(steps) < STEPS:
        start = time.perf_counter()
        engine.step()
        if len(engine.usage) > 2:  # the first is the prefill, the second captures
            steps.append((time.perf_counter() - start) * 1e3)
        if engine.usage[-1].tokens_stored == count * LENGTH:
            graph = list(engine.run.graphs.values())[-1].graph
            replays = [_replay_ms(graph) for _ in range(STEPS)]
    step = median(steps)
    return {"replay_ms": median(replays), "step_ms": step, "tokens_per_s": count / step * 1e3}


def prompts(model: Llama, count: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(model.shape.vocab_size, (count, LENGTH - STEPS // 2), generator=draw).tolist()


def _replay_ms(graph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def peer(model: Llama):
    """The same model, of the same weights, by transformers."""
    if find_spec("transformers") is None:
        raise Unsupported("transformers is not installed")
    import transformers

    shape, device = model.shape, model.embed.device
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden, intermediate_size=shape.ffn,
        num_hidden_layers=shape.num_layers, num_attention_heads=shape.num_q_heads, head_dim=shape.head_dim,
        num_key_value_heads=shape.num_kv_heads, rms_norm_eps=shape.norm_eps, rope_theta=shape.rope_base,
        max_position_embeddings=2 * LENGTH, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None,
        pad_token_id=None, dtype=model.dtype,
    )  # fmt: skip
    weights = {"model.embed_tokens.weight": model.embed, "lm_head.weight": model.embed, "model.norm.weight": model.norm}
    for name, part in PARTS.items():
        for layer, weight in enumerate(getattr(model, name)):
            weights[f"model.layers.{layer}.{part}.weight"] = weight
    with device:
        theirs = transformers.LlamaForCausalLM(config).to(model.dtype).eval()
    theirs.load_state_dict(weights)
    return theirs


def continuous(theirs, given: list[list[int]], graphs: bool | None) -> float:
    """Tokens per second of transformers' `generate_batch` while all requests decode, by its own time stamps. graphs:
    whether in CUDA graphs, None for what it chooses.
    """
    import transformers

    count, new = len(given), STEPS + 10
    outputs = theirs.generate_batch(
        given,
        generation_config=transformers.GenerationConfig(max_new_tokens=new, do_sample=False, eos_token_id=-1),
        continuous_batching_config=transformers.ContinuousBatchingConfig(
            num_blocks=count * (ceil_div(LENGTH + STEPS, 256) + 1) + 8,
            max_batch_tokens=8192,
            use_cuda_graph=graphs,
            scheduler_type="prefill_first",
        ),
        record_timestamps=True,
    ).values()
    if len(outputs) != count or any(len(output.generated_tokens) != new for output in outputs):
        return 0.0  # it says why
    first, last = (pick(o.timestamps[at] for o in outputs) for pick, at in ((max, 0), (min, -1)))
    return sum(first < stamp <= last for o in outputs for stamp in o.timestamps) / (last - first)


def together(theirs, given: list[list[int]], cache: str, new: int = 20) -> float:
    """Tokens per second of transformers' `generate` after the prompts, which are equally long."""
    prompts, stamps = torch.tensor(given, device=theirs.device), []

    def told(tokens, scores, **_):
        stamps.append((tokens[:, -1].tolist(), time.perf_counter())[1])  # once they are here
        return torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)

    theirs.generate(
        prompts, attention_mask=torch.ones_like(prompts), stopping_criteria=[told], max_new_tokens=new, do_sample=False,
        cache_implementation=cache, disable_compile=True,
    )  # fmt: skip
    return len(given) / median(later - sooner for sooner, later in pairwise(stamps[2:]))


def main(arguments: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.bench.engine", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=writable, metavar="FILE", help="write the record there as JSON")
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    command = " ".join(["python -m pagedkv.bench.engine", *(["--out", options.out.name] if options.out else [])])
    record = {"provenance": report.provenance(device, command), "engine": measure(device)}
    print(report.engine_table(record["engine"]))
    if options.out:
        report.write(options.out, record)
    return record


if __name__ == "__main__":
    command(main)
