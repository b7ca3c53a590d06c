"""`python -m pagedkv.bench`: the whole grid, one case (--case d), one shape (--shape 64x2048,32/8,128,16) or random
shapes (--sweep SEED).
"""

import argparse
import sys
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path

from pagedkv.arguments import command, installed, whole_number

if __name__ == "__main__":
    installed("torch")

import torch

from pagedkv.bench import engine, prefill_sweep, report, sweep
from pagedkv.bench.cases import GRID, HELD_OUT, Case, named, parse, shrunk
from pagedkv.bench.flashinfer_peers import has_flashinfer
from pagedkv.bench.host import ratios
from pagedkv.bench.ladder import LADDER_CASES, ladder
from pagedkv.bench.peers import PEERS, ours, planned, sdpa
from pagedkv.bench.run import accuracy, measure_case
from pagedkv.files import writable
from pagedkv.tensors import here


def main(arguments: list[str] | None = None) -> dict:
    """Measure what the arguments ask for, print the tables and return the record that `--out` writes."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows what it can
    try:
        device = here(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        cases = [named(name) for name in options.case] + [parse(text) for text in options.shape]
        for name in ("runs", "shapes"):
            whole_number(f"--{name}", getattr(options, name), 1)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    words = [
        Path(word).name if "/" in word and "," not in word else word
        for word in (sys.argv[1:] if arguments is None else arguments)
    ]
    record = {"provenance": report.provenance(device, " ".join(["python -m pagedkv.bench", *words]))}
    whole, cases = not cases and options.sweep is None, cases or list((GRID | HELD_OUT).values())
    if options.cache == "fp8":
        whole, cases = False, [replace(case, cache="fp8") for case in cases if case.is_decode and case.cache == "bf16"]
        if not cases:
            parser.error("--cache fp8 is for decodes, and none was asked for")
    if options.sweep is not None:
        record |= _sweep(device, options)
    else:
        record |= _on_gpu(cases, device, options) if device.type == "cuda" else _on_cpu(cases, device, options)
    if whole:
        record["host_ratios"] = ratios()
        print(
            "The host's work, as ratios:",
            *(f"    {name:<52}{ratio:>7.2f}" for name, ratio in record["host_ratios"].items()),
            sep="\n",
        )
        record["engine"] = engine.measure(device)
        print(report.engine_table(record["engine"]))
    if options.out:
        report.write(options.out, record)
        print(f"written: {options.out}")
    return record


def _on_gpu(cases: list[Case], device: torch.device, options) -> dict:
    from pagedkv.bench.ceilings import Ceilings

    facts = report.provenance(device, "")
    print(f"{facts['gpu']}, driver {facts['driver']}, torch {facts['torch']}, Triton {facts['triton']}")
    print(
        f"FlashInfer {facts['flashinfer-python']}, cuDNN's front end {facts['nvidia-cudnn-frontend']}"
        if has_flashinfer()
        else "FlashInfer is not installed: its columns stay empty"
    )
    ceilings = Ceilings(device, options.runs)
    records = []
    for case in cases:
        everyone = {report.OURS: ours("triton"), report.PLANNED: planned(True)} | PEERS
        if case.name in LADDER_CASES and case.cache == "bf16" and not options.no_ladder:
            everyone |= ladder()
        records.append(measure_case(case, everyone, device, options.runs, ceilings))
        print(report.row(records[-1]), flush=True)
        torch.cuda.empty_cache()
    summary = report.summary(records)
    print(summary)
    return {"summary": summary, "cases": records, "ceilings": ceilings.asdict(), "accuracy": accuracy(device)}


def _on_cpu(cases: list[Case], device: torch.device, options) -> dict:
    print(
        "No CUDA device: the torch backend on small versions of the cases, as a ratio to attention on contiguous K "
        "and V"
    )
    everyone = {report.OURS: ours("torch"), report.SDPA: sdpa}
    records = []
    for case in cases:
        records.append(measure_case(shrunk(case), everyone, device, options.runs))
        print(report.row(records[-1]), flush=True)
    return {"summary": report.summary(records), "cases": records, "accuracy": accuracy(device, length=512)}


def _sweep(device: torch.device, options) -> dict:
    if options.prefill:
        records = prefill_sweep.measure_prefills(options.sweep, options.shapes, device, options.runs)
        summary = prefill_sweep.summary(records)
    else:
        records = sweep.measure_sweep(options.sweep, options.shapes, device, options.runs, options.cache)
        summary = sweep.summary(records)
    for name, value in summary.items():
        print(f"{name}: {value}")
    if options.out and not options.prefill:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        sweep.draw(records, options.out.with_suffix(".png"))
    return {"summary": summary, "cases": records}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.bench", description=__doc__)
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help=f"one of {', '.join(GRID | HELD_OUT)}; may be repeated",
    )
    parser.add_argument(
        "--shape", action="append", default=[], metavar="SHAPE", help="BATCHxLENGTH,QHEADS/KVHEADS,HEADDIM,BLOCKSIZE"
    )
    parser.add_argument("--sweep", metavar="SEED", help="random shapes drawn from that seed, each beside all others")
    parser.add_argument("--prefill", action="store_true", help="random prompts, chunks and mixed batches, not decodes")
    parser.add_argument("--shapes", type=int, default=100, help="how many random shapes (default 100)")
    parser.add_argument(
        "--cache", choices=("bf16", "fp8"), default="bf16", help="of random shapes, and of decode cases"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs; the median of them is reported (default 3)")
    parser.add_argument("--out", type=writable, metavar="FILE", help="write the record there as JSON")
    parser.add_argument("--no-ladder", action="store_true", help="leave the ladder's rungs out")
    parser.add_argument("--device", help="cuda or cpu; the GPU if there is one")
    return parser


if __name__ == "__main__":
    command(main)
