"""The bill of a preemption: each way brings back what it took, and the record says what it is."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pagedkv.bench import preemption  # noqa: E402
from pagedkv.engine.model import ModelShape  # noqa: E402
from pagedkv.kv_cache import PagedKVCache  # noqa: E402
from pagedkv.sizing import KVShape  # noqa: E402

RECORD = Path(__file__).parents[1] / "figures/data/preemption_h200.json"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = ModelShape(50, 2, 16, 32, 2, 1, 16)
WAYS = ["one copy a block", "gathered", "engine"]


@pytest.mark.parametrize("way", WAYS)
def test_each_way_brings_back_what_it_took(way):
    cache = PagedKVCache(KVShape(2, 1, 16, 2), 4, 8, DEVICE, torch.bfloat16)
    cache.k.normal_(), cache.v.normal_()
    before = [cache.k.clone(), cache.v.clone()]
    ways = preemption.ways_there_and_back(cache)
    assert list(ways) == WAYS
    for _ in range(2):
        ways[way]()
    assert torch.equal(cache.k, before[0]) and torch.equal(cache.v, before[1])


def test_a_model_is_measured_whole(monkeypatch):
    for name, value in dict(TOKENS=8, BLOCK_SIZES=(2, 8), RUNS=1).items():
        monkeypatch.setattr(preemption, name, value)
    found = preemption.measure(SMALL, DEVICE)
    assert found["parameters"] == 50 * 16 + 2 * (16 + 32 * 16 + 2 * 16 * 16 + 16 * 32 + 16 + 3 * 32 * 16) + 16
    assert list(found["swap_ms"]) == [2, 8] and all(list(ways) == WAYS for ways in found["swap_ms"].values())


def test_the_record_has_the_models_and_ways_of_today():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert {"command", "date", "torch", "gpu", "tokens", "dtype"} <= set(record["provenance"])
    assert record["provenance"]["tokens"] == preemption.TOKENS and list(record["models"]) == list(preemption.SHAPES)
    for model in record["models"].values():
        assert [int(size) for size in model["swap_ms"]] == list(preemption.BLOCK_SIZES)
        assert all(list(ways) == WAYS for ways in model["swap_ms"].values())
