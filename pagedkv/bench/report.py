"""Tables for the screen and the JSON file: what was measured, on what, when and with which command; and the records
that ship with the course, for machines without a GPU. Nothing but a GPU's own facts needs torch.
"""

import json
import platform
import subprocess
from collections.abc import Container
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import exp, log
from pathlib import Path

from pagedkv.bench.cases import MAIN
from pagedkv.files import replace

OURS, PLANNED, SDPA = "pagedkv", "pagedkv, planned", "SDPA, contiguous"


def provenance(device, command: str) -> dict:
    """GPU, driver and library versions, date (UTC) and the command, for the record of a run on that torch.device."""
    facts = {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
    }
    libraries = ("torch", "triton", "flashinfer-python", "nvidia-cudnn-frontend", "transformers")
    facts |= {name: _version(name) for name in libraries}
    if device.type == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(device)
        driver = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True
        )
        facts |= {
            "gpu": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "driver": driver.stdout.split("\n")[0].strip(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return facts


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def row(record: dict) -> str:
    """One case: a line for each implementation, the fastest first."""
    lines = [
        f"{record['case']}: {record['shape']}"
        + (f"   ceiling {record['ceiling_us']:.1f} µs" if "ceiling_us" in record else "")
    ]
    ours = record["results"].get(OURS, {}).get("us")
    for name, timing in sorted(record["results"].items(), key=lambda item: item[1]["us"]):
        parts = [f"    {name:<27}{timing['us']:>10.1f} µs ±{timing['spread']:>5.1%}{timing['gb_s']:>8.4g} GB/s"]
        parts += [f"{timing['share']:>7.1%}"] if "share" in timing else []
        parts += [f"{timing['tflop_s']:>7.3g} TFLOP/s"] if "tflop_s" in timing else []
        parts += [f"  {timing['us'] / ours:>6.2f} × ours"] if ours else []
        parts += (
            [f"  host {timing['host_us']:.0f}, replay {timing['replay_us']:.1f} µs"] if timing.get("host_us") else []
        )
        lines.append("".join(parts) + f"  error {timing['error']:.1e}")
    lines += [f"    {name:<27}  failed: {reason}" for name, reason in record["failed"].items()]
    return "\n".join(lines)


def ratios(records: list[dict], peer: str, only: Container[str] | None = MAIN, name: str = OURS) -> dict[str, float]:
    """How many times faster than `peer` ours, of that name, is in each case that both ran; `peer` is a prefix, its
    best variant counts.
    """
    found = {}
    for record in records:
        ours = record["results"].get(name)
        peers = [timing["us"] for theirs, timing in record["results"].items() if theirs.startswith(peer)]
        if ours and peers and (only is None or record["case"] in only):
            found[record["case"]] = min(peers) / ours["us"]
    return found


def mean_ratio(records: list[dict], peer: str, only: Container[str] | None = MAIN, name: str = OURS) -> float | None:
    """The geometric mean of `ratios`, None without any."""
    logs = [log(ratio) for ratio in ratios(records, peer, only, name).values()]
    return exp(sum(logs) / len(logs)) if logs else None


def summary(records: list[dict]) -> dict:
    """The figures that a reader asks for first; None where a part of them was not measured."""
    by_name = {record["case"]: record for record in records}

    def gain(eight: str, sixteen: str) -> float | None:
        pair = [by_name.get(name, {}).get("results", {}).get(OURS, {}).get("us") for name in (eight, sixteen)]
        return pair[1] / pair[0] if all(pair) else None

    return {
        "times_faster_than_flashinfer": mean_ratio(records, "FlashInfer"),
        "planned_times_faster_than_flashinfer": mean_ratio(records, "FlashInfer", name=PLANNED),
        "times_faster_than_contiguous_sdpa": mean_ratio([r for r in records if r["kind"] == "decode"], SDPA, None),
        "fp8_tokens_per_s_over_bf16": {"d": gain("d8", "d"), "e": gain("e8", "e")},
    }


def engine_table(record: dict) -> str:
    """What `engine.measure` found, a line each; then what was left out."""
    lines = ["The engine, without a model: CPU time of a step"]
    lines += [f"    {count:>4} running {us:>10.1f} µs" for count, us in record["overhead_us"].items()]
    if "batch_16_over_1" in record:
        lines.append(f"Tokens per second on a CPU, 16 requests together over one: {record['batch_16_over_1']:.1f}")
    if "decode" in record:
        lines.append("Decode at 1,024 tokens each, 0.6 billion weights: ms of a step on the device, and over the bound")
    for row in record.get("decode", ()):
        over = row["replay_ms"] / row["bound_ms"]
        line = f"    {row['requests']:>4} requests {row['replay_ms']:>8.2f} ms, {over:.2f} × {row['bound_ms']:.2f} ms; "
        line += f"with the host {row['step_ms']:.2f} ms, {row['tokens_per_s']:,.0f} tokens/s"
        for who, key in ("transformers", "transformers"), ("its generate", "transformers_generate"):
            theirs = row.get(f"{key}_tokens_per_s")
            line += f", {who} {theirs:,.0f}" if theirs else ""
        lines.append(line)
    return "\n".join([*lines, *(f"    {what}: left out, {why}" for what, why in record["left_out"].items())])


def write(path: Path, record: dict) -> None:
    """The record as JSON, numbers rounded to five digits."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, json.dumps(_rounded(record), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise SystemExit(f"{path} is not written: {error.strerror}; what was measured stands above") from None


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


FOLDER = Path(__file__).parents[2] / "figures" / "data"


def recorded(name: str = "h200") -> dict:
    """The record of that name. Raises FileNotFoundError where the package was installed without the course."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is not in figures/data; make it with: python -m pagedkv.bench --out figures/data/{path.name}"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def source(record: dict) -> str:
    """Where a record comes from, in one line: the GPU, the versions, the day and the command."""
    facts = record["provenance"]
    versions = f"torch {facts['torch']}, Triton {facts['triton']}"
    return (
        f"{facts.get('gpu', 'CPU')}, driver {facts.get('driver', 'none')}, {versions}, {facts['date'][:10]}: "
        f"{facts['command']}"
    )


def results(record: dict, case: str) -> dict[str, dict]:
    """What was measured in one case, by implementation; empty where the case was left out."""
    return next((entry["results"] for entry in record["cases"] if entry["case"] == case), {})
