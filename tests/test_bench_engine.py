"""The benchmark of the engine: what is measured where, what is left out and said, how it is printed and recorded."""

import json

import pytest

torch = pytest.importorskip("torch")

from pagedkv.bench import engine, report  # noqa: E402

CPU = torch.device("cpu")
ROW = {
    "requests": 64,
    "length": 1024,
    "bytes": 1,
    "read_gb_s": 4600.0,
    "bound_ms": 2.0,
    "replay_ms": 2.5,
    "step_ms": 3.0,
}

GENERATE = {"transformers_generate_tokens_per_s": 900.0}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(engine, "RUNNING", (1, 3))
    monkeypatch.setattr(engine, "LENGTH", 20)
    monkeypatch.setattr(engine, "batch_gain", lambda: 11.0)


def test_a_step_of_the_engine_takes_time(quick):
    assert all(engine.overhead_us(running, steps=3) > 0 for running in engine.RUNNING)


def test_a_batch_is_measured_on_the_small_model():
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    assert engine.batch_gain(batch=2, new=2, rounds=1) > 0


def test_without_a_gpu_it_is_said_what_is_left_out(quick):
    record = engine.measure(CPU)
    assert set(record) == {"overhead_us", "batch_16_over_1", "left_out"} and set(record["overhead_us"]) == {"1", "3"}
    assert record["left_out"] == {"decode": "needs a CUDA device"}


def test_the_table_has_a_line_for_each_number_and_for_what_was_left_out():
    record = {
        "overhead_us": {"1": 5.0, "256": 480.0},
        "batch_16_over_1": 11.04,
        "decode": [ROW | {"tokens_per_s": 21_333.0, "transformers_tokens_per_s": 450.0} | GENERATE],
        "left_out": {"transformers": "not installed"},
    }
    lines = report.engine_table(record).splitlines()
    assert [line.split() for line in lines[1:3]] == [["1", "running", "5.0", "µs"], ["256", "running", "480.0", "µs"]]
    assert lines[3].endswith("over one: 11.0") and "64 requests" in lines[5]
    assert (
        "2.50 ms, 1.25 × 2.00 ms" in lines[5]
        and "21,333" in lines[5]
        and lines[5].endswith("tokens/s, transformers 450, its generate 900")
    )
    assert lines[6].strip() == "transformers: left out, not installed"


def test_the_command_writes_a_record(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    engine.main(["--out", str(tmp_path / "engine.json")])
    record = json.loads((tmp_path / "engine.json").read_text(encoding="utf-8"))
    assert record["provenance"]["command"] == "python -m pagedkv.bench.engine --out engine.json"
    assert record["engine"]["batch_16_over_1"] == 11.0 and "CPU time of a step" in capsys.readouterr().out
