"""The measurements that ship with the course, for machines without a GPU. Imports no torch."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "figures" / "data"


def recorded(name: str = "h200") -> dict:
    """The record of that name. Raises FileNotFoundError where the package was installed without the course."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is not in figures/data; make it with: python -m pagedkv.bench --out figures/data/{path.name}")
    return json.loads(path.read_text(encoding="utf-8"))


def source(record: dict) -> str:
    """Where a record comes from, in one line: the GPU, the versions, the day and the command."""
    facts = record["provenance"]
    versions = f"torch {facts['torch']}, Triton {facts['triton']}"
    return f"{facts.get('gpu', 'CPU')}, driver {facts.get('driver', 'none')}, {versions}, {facts['date'][:10]}: {facts['command']}"


def results(record: dict, case: str) -> dict[str, dict]:
    """What was measured in one case, by implementation; empty where the case was left out."""
    return next((entry["results"] for entry in record["cases"] if entry["case"] == case), {})
