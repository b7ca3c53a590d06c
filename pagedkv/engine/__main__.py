"""`python -m pagedkv.engine "text"` streams what the model writes after the text, with a line that says what the cache
holds; `--requests FILE` serves a file of prompts, one a line, and prints a table. Ctrl-C ends either.
"""

import argparse
import sys
from collections import defaultdict
from io import TextIOWrapper
from pathlib import Path

from pagedkv.arguments import command, installed

if __name__ == "__main__":
    installed("torch", "safetensors", "tokenizers")

import torch

from pagedkv.engine import plays
from pagedkv.engine.engine import Engine, build
from pagedkv.engine.request import Sampling


def load(name: str):
    """(model, encode, decode, stop token) of the model of this name."""
    if name == "smollm2":
        from pagedkv.engine import smollm2

        return smollm2.load()
    model, tokenizer = plays.load()
    return model, lambda text: tokenizer.encode(text).ids, tokenizer.decode, tokenizer.token_to_id(plays.END)


def line(engine: Engine) -> str:
    usage, pool = engine.usage[-1], engine.scheduler.pool
    return (
        f"step {len(engine.usage)}: {usage.blocks_used} of {pool.num_blocks} blocks in use, {usage.running} running, "
        f"{usage.waiting} waiting"
    )


def stream(engine: Engine, prompt: list[int], sampling: Sampling, text: str, decode) -> None:
    """Print the text as it grows; the line about the cache goes to a terminal's stderr, and is wiped again."""
    engine.add(prompt, sampling)
    terminal, tokens, shown = sys.stderr.isatty(), [], ""
    print(text, end="", flush=True)
    for token in engine.stream():
        tokens.append(token.token)
        whole = decode(tokens)
        if not whole.endswith("\ufffd"):  # else a character of which a byte is missing
            print(whole[len(shown) :], end="", flush=True)
            shown = whole
        if terminal:
            print(f"\x1b[s\n\x1b[2K{line(engine)}\x1b[u", end="", file=sys.stderr, flush=True)
    print("\x1b[J" if terminal else "", flush=True)
    print(line(engine), file=sys.stderr)


def serve(engine: Engine, texts: list[str], encode, decode, sampling: Sampling) -> None:
    """Serve all at once, then print a line for each: tokens in, tokens out, the steps it took, what was written."""
    requests = {engine.add(encode(text), sampling): text for text in texts}
    outputs, last, reasons = defaultdict(list), {}, {}
    terminal = sys.stderr.isatty()
    for token in engine.stream():
        outputs[token.request_id].append(token.token)
        last[token.request_id], reasons[token.request_id] = len(engine.usage), token.finish_reason
        if terminal:
            print(f"\r\x1b[2K{line(engine)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{'prompt':>6} {'output':>6} {'done at step':>12} {'ended by':>8}  text")
    for request_id, text in requests.items():
        written = " ".join(decode(outputs[request_id]).split())
        print(
            f"{len(encode(text)):>6} {len(outputs[request_id]):>6} {last[request_id]:>12} {reasons[request_id]:>8}  "
            f"{text[:24]} … {written[:60]}"
        )
    usage = engine.usage
    print(
        f"{len(usage)} steps, at most {max(row.blocks_used for row in usage)} blocks and "
        f"{max(row.running for row in usage)} requests at once, {sum(row.preempted for row in usage)} preemptions"
    )


def lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8") from None


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.engine", description=__doc__)
    parser.add_argument("text", nargs="?", help='what the answer goes on from, such as "**HAMLET**"')
    parser.add_argument("--requests", type=Path, metavar="FILE", help="a file of prompts, one a line")
    parser.add_argument("--model", choices=("plays", "smollm2"), default="plays")
    parser.add_argument("--tokens", type=int, default=120, help="new tokens at most")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=256, help="blocks of 16 tokens in the pool")
    given = parser.parse_args(arguments)
    if (given.text is None) == (given.requests is None):
        parser.error("give either a text or --requests FILE")
    torch.set_num_threads(min(torch.get_num_threads(), 2))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows what it can
    try:
        texts = [given.text] if given.requests is None else lines_of(given.requests)
        texts = [text for text in texts if text.strip() and text.encode()]  # what a shell hands over may be no text
        if not texts:
            parser.error("there is no prompt" + (f" in {given.requests}" if given.requests else ""))
        model, encode, decode, stop = load(given.model)
        sampling = Sampling(given.tokens, given.temperature, given.seed, stop)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        engine = build(model.to(device), given.blocks, reuse=True, device=device)
        if given.requests is None:
            text = texts[0] + "\n"
            stream(engine, encode(text if given.model == "plays" else texts[0]), sampling, text, decode)
        else:
            serve(engine, texts, encode, decode, sampling)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, ImportError, MemoryError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    command(main)
