"""Lesson 1: its report and self-test, here and where Triton, PyTorch or correct arithmetic is missing; its map."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from picture_rules import texts
from prediction_rules import prediction_test

from pagedkv.course.lesson_1 import environment, pictures, predictions
from pagedkv.course.lessons import wings
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS

# The environment

ABSENT = """
import sys; sys.modules.update(dict.fromkeys({names}))
import importlib.metadata as metadata
found = metadata.version
def version(name):
    if name in {names}:
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
from pagedkv.course.lesson_1 import environment as e
e.report()
print(e.self_test())
"""


def run_without(*names: str) -> str:
    """What report and self_test print in a process in which these packages cannot be imported."""
    ran = subprocess.run([sys.executable, "-c", ABSENT.format(names=list(names))], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr == ""
    return ran.stdout


def test_the_report_names_versions_device_and_backend(capsys):
    torch = pytest.importorskip("torch")
    environment.report()
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(rows) == ["Python", "NumPy", "PyTorch", "Triton", "device", "backend"]
    assert rows["PyTorch"] == torch.__version__
    assert rows["backend"] == ("triton" if torch.cuda.is_available() and rows["Triton"][0].isdigit() else "torch")


def test_the_self_test_runs_the_tiny_kernel(capsys):
    pytest.importorskip("triton")
    assert environment.self_test() is True
    assert "Triton's interpreter: the tiny kernel gives the right answer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("triton", "numpy", "said"),
    [
        ("9.9.0", "2.5.0", "wrong, with triton 9.9.0 and numpy 2.5.0"),
        ("3.6.0", "2.3.5", "wrong, with triton 3.6.0"),
        ("3.6.0", "2.4.6", "triton 3.6.0 cannot interpret kernels with numpy 2.4.6: install triton 3.7, or"),
    ],
)
def test_a_wrong_answer_is_said_and_versions_that_do_not_fit_are_named(triton, numpy, said, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(environment, "_version", {"triton": triton, "numpy": numpy}.get)
    assert environment.self_test() is False
    assert said in capsys.readouterr().out


def test_the_pins_do_not_hold_versions_that_do_not_fit():
    pinned = (Path(__file__).parents[1] / "requirements.txt").read_text(encoding="utf-8")
    least = re.search(r"triton>=(\d+)\.(\d+)", pinned)
    assert tuple(map(int, least.groups())) >= (3, 7)


def test_the_tiny_kernel_can_fail():
    pytest.importorskip("triton")
    other_weights = "import runpy, sys, torch; torch.Tensor.log = torch.Tensor.sqrt; sys.argv[1:] = ['cpu']; "
    kernel = "runpy.run_module('pagedkv.course.lesson_1.tiny_kernel', run_name='__main__')"
    run = [sys.executable, "-c", other_weights + kernel]
    ran = subprocess.run(run, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr == ""


def test_without_triton_a_sentence_says_what_is_missing():
    pytest.importorskip("torch")
    said = run_without("triton")
    assert said.count(environment.NO_TRITON) == 2 and "backend  torch" in said


def test_without_torch_a_sentence_says_what_is_missing():
    said = run_without("torch", "triton")
    assert said.count(environment.NO_TORCH) == 2 and "none, without PyTorch" in said


# Pictures


def test_every_lesson_is_on_the_map():
    said = texts(pictures.chapter_map()[0])
    assert {text.split()[0] for text in said if text[0].isdigit()} == {wing.number for wing in wings()}
    assert {f"{wing.number}  {wing.title}" for wing in wings()} <= set(said)


# Predictions


def at_once():
    """Requests that only take what they need against those that hold the longest one's room, in OPT-13B's 12 GiB."""
    lengths = [request.total_tokens for request in sample_requests("paper-sharegpt", 1000, seed=0)]
    capacity = MODELS["opt-13b"].tokens_in(12 * 2**30)
    held = np.cumsum(lengths)
    times = (held <= capacity).sum() / (capacity // max(lengths))
    return {1: "about as many", 2: "about twice as many", 5: "about five times as many"}[round(times)]


COMPUTED = {"1-at-once": at_once, "1-slot": lambda: [6, 1, 4][9 // 4] * 4 + 9 % 4}
test_answers = prediction_test(predictions.PREDICTIONS, COMPUTED)
