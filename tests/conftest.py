import os
import signal
import sys

import pytest

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # several processes share the cores: more threads would only wait for one another
    os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    from torch.cuda import is_available
except ImportError:
    is_available = bool

if not is_available():
    # Collecting the tests, or torch.compile, may import Triton: if that came first, kernels could not be interpreted.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def ctrl_c_is_pythons():
    """An event loop of a test before this one may have left a handler of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def references_are_answers(monkeypatch):
    """The package's own functions may be handed in, which a learner is refused."""
    monkeypatch.setattr("pagedkv.course.judge.check.borrowed", lambda answer: False)


def pytest_collection_modifyitems(items):
    if not is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def nothing_kept(monkeypatch, tmp_path):
    """What another test's cells kept is not found."""
    monkeypatch.setenv("PAGEDKV_MINE", str(tmp_path))


@pytest.fixture
def destructors_may_raise(monkeypatch):
    """For a limit that strikes in one, and may strike again in pytest's own hook, which then fails."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
