"""Names of other libraries that no documentation promises are still there, or a sentence says which version lost it."""

from importlib.metadata import version
from importlib.util import find_spec
from platform import python_version

import pytest

pytest.importorskip("torch")

from private_names import NAMES  # noqa: E402


def gone(name) -> str | None:
    """A sentence about a name that this version of its library does not have."""
    library, seen, what, where = name
    try:
        NAMES[name]()
    except (AttributeError, ImportError) as error:
        here = python_version() if library == "_signal" else version(library)
        return f"{library} {here} has no {what}, seen in {seen} and used by {where}: {error}"
    return None


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name[0]} {name[2]}")
def test_a_private_name_is_there(name):
    if find_spec(name[0]) is None:
        pytest.skip(f"needs {name[0]}")
    assert gone(name) is None


def test_a_name_that_is_gone_is_told_with_the_version(monkeypatch):
    name = next(name for name in NAMES if name[2] == "cuda._sleep")
    monkeypatch.delattr("torch.cuda._sleep")
    assert gone(name).startswith(f"torch {version('torch')} has no cuda._sleep, seen in ")
