"""Which answers count as untouched, read off their source."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest
from cells import run_cell

from pagedkv.course.judge import stub
from pagedkv.course.judge.stub import has_gap, is_stub


def stub_with_docstring(xs, n):
    """Return something."""
    ...


def stub_that_passes(xs):
    pass  # nothing yet


def stub_that_returns(xs):
    return


@functools.lru_cache
def decorated(xs):
    """Return something."""
    ...


class StubClass:
    def allocate(self, n): ...


UNTOUCHED = [
    None, ..., stub_with_docstring, stub_that_passes, stub_that_returns, decorated, StubClass, StubClass().allocate,
    lambda xs, n: ..., lambda *_: None, (stub_that_passes, ...), {"a": None}, [[stub_that_passes]],
]  # fmt: skip


@pytest.mark.parametrize("answer", UNTOUCHED)
def test_a_stub_is_known(answer):
    assert is_stub(answer)


def begun(xs):
    """It ends like a stub."""
    xs.append(1)
    ...


def returns_zero(xs):
    return 0


BEGUN = [
    0, False, "", [], (), {}, begun, returns_zero, lambda: 0, lambda x: x, (begun, ...), print, np.zeros(2),
    StubClass(), int, functools.partial(stub_that_passes, 1), object(), type,
]  # fmt: skip


@pytest.mark.parametrize("answer", BEGUN)
def test_what_is_no_stub(answer):
    assert not is_stub(answer)


def test_of_lambdas_in_one_line_none_is_a_stub_unless_all_are():
    first, second = lambda: ..., lambda x: x
    assert not is_stub(first) and not is_stub(second)
    first, second = lambda: ..., lambda x: None
    assert is_stub(first) and is_stub((first, second))


def test_a_function_without_source_is_no_stub():
    namespace = {}
    exec("def stub(): ...\nlater = lambda: ...", namespace)
    assert not is_stub(namespace["stub"]) and not is_stub(namespace["later"])


def test_a_cell_may_hold_several_functions():
    namespace = {}
    run_cell("import functools\n\ndef a(x):\n    ...\n\n\ndef b(x):\n    return x\n\nclass C:\n    def a(self): pass",
             namespace)  # fmt: skip
    assert [is_stub(namespace[name]) for name in "abC"] == [True, False, True]
    assert is_stub(namespace["C"]().a)


def test_source_that_has_changed_on_disk_is_no_stub(tmp_path, monkeypatch):
    (tmp_path / "learner.py").write_text("x = 1\n\n\ndef answer():\n    ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import learner

    (tmp_path / "learner.py").write_text("def answer(:\n", encoding="utf-8")
    assert not is_stub(learner.answer)


def partly():
    for i in range(3):
        ...
        print(i)


def test_a_gap_is_seen_wherever_it_is():
    assert has_gap(partly) and has_gap(stub_with_docstring)
    assert not has_gap(returns_zero) and not has_gap(lambda: ...) and not has_gap(print)


def test_no_module_reads_bytecode():
    words = re.compile(r"^\s*(import|from) dis\b|co_code|get_instructions|opname", re.MULTILINE)
    modules = Path(stub.__file__).parents[2].rglob("*.py")
    assert [path.name for path in modules if words.search(path.read_text(encoding="utf-8"))] == []
