"""What a learner keeps is source that works in a process of its own; what cannot be kept is refused in a sentence."""

import json
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from cells import run_cell

from pagedkv.block_pool import BlockPool
from pagedkv.course.judge import keep as keeping
from pagedkv.course.judge.check import check
from pagedkv.course.judge.exercise import Exercise, Part, Role
from pagedkv.course.judge.keep import keep, mine
from pagedkv.course.lesson_3_3.names import block_names
from pagedkv.course.lessons import find

ROLES = {
    "pool": Role("pool", lambda: BlockPool, ("allocate", "free")),
    "hash": Role("hash", lambda: hash),
    "kernel": Role("kernel", lambda: None),
}
POOL = """
import math
import collections as c
from functools import reduce
SIZE, NAMES = 4, {"a": [1, 2]}

def half(n):
    return math.floor(n / 2)

class Base:
    limit = SIZE

    @property
    def rest(self):
        return half(self.limit)

class MyPool(Base):
    def allocate(self, n, start=SIZE):
        blocks = [size for size in range(n)]
        return c.deque(blocks), reduce(max, blocks, start), NAMES["a"], self.rest

    def free(self, ids: list[int]): return OutOfBlocks

from pagedkv.block_pool import OutOfBlocks
size = blocks = object()  # names of the notebook that are names of their own inside the class
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDKV_MINE", str(tmp_path / "mine"))
    monkeypatch.setattr(keeping, "_role", ROLES.__getitem__)
    monkeypatch.setattr(keeping, "_passed", {})
    return tmp_path / "mine"


def cell(*sources) -> SimpleNamespace:
    namespace = {"__name__": "__main__"}
    for source in sources:
        run_cell(source, namespace)
    return SimpleNamespace(**namespace)


def passed(role: str, answer) -> None:
    keeping.remember_passed(Exercise("x", "x", (Part("x", print),), role=ROLES[role]), answer)


def kept(role: str, answer, capsys) -> str:
    passed(role, answer)
    keep(answer)
    return capsys.readouterr().out


def test_a_class_is_kept_with_all_it_uses_and_works_in_a_process_of_its_own(folder, capsys):
    assert kept("pool", cell(POOL).MyPool, capsys) == 'pool: kept, for mine("pool") in later lessons\n'
    assert [path.name for path in folder.iterdir()] == ["pool.py"]
    program = (
        f"import runpy; p = runpy.run_path({str(folder / 'pool.py')!r})['kept'](); print(p.allocate(3), p.free([]))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "(deque([0, 1, 2]), 4, [1, 2], 2) <class 'pagedkv.block_pool.OutOfBlocks'>", (
        said.stderr
    )
    part = mine("pool")
    assert capsys.readouterr().out == "pool: yours\n"
    assert part().allocate(2)[1] == 4 and part.__module__ == "mine_pool"


def test_what_was_loaded_can_be_kept_again(folder, capsys):
    kept("pool", cell(POOL).MyPool, capsys)
    first = (folder / "pool.py").read_text()
    assert "kept, for" in kept("pool", mine("pool"), capsys)
    assert (folder / "pool.py").read_text().splitlines()[-1] == first.splitlines()[-1] == "kept = MyPool"
    assert mine("pool")().allocate(1)[0]


def test_a_function_under_another_name_brings_its_helper(capsys):
    part = cell("def f(x):\n    return 2 * x\n\ng = f", "def twice(x):\n    return g(g(x)) if x else twice(1)").twice
    assert "hash: kept" in kept("hash", part, capsys)
    assert mine("hash")(0) == 4


def test_an_import_is_kept_as_it_was_written(folder, capsys):
    source = "from hashlib import sha256 as name_of\nfrom numpy import argsort\n\ndef f(x): return name_of(x), argsort"
    assert "hash: kept" in kept("hash", cell(source).f, capsys)
    text = (folder / "hash.py").read_text()
    assert "from hashlib import sha256 as name_of\n" in text and "from numpy import argsort\n" in text


def test_a_class_without_methods_a_dataclass_and_a_named_tuple_are_found(capsys):
    part = cell(
        "from dataclasses import dataclass\nfrom typing import NamedTuple\n\n"
        "class Pair(NamedTuple):\n    x: int\n\n@dataclass\nclass Box:\n    n: int = 3",
        "class Pool:\n    def allocate(self, n): return Pair(Box().n)\n    def free(self): ...",
    ).Pool
    assert "pool: kept" in kept("pool", part, capsys)
    assert mine("pool")().allocate(1) == (3,)


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is for Linux only")
def test_a_kernel_runs_from_its_file(capsys):
    import torch

    part = cell(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef two(x):\n    return x + 2",
        "@triton.jit\ndef kernel(out, N: tl.constexpr):\n    at = tl.arange(0, N)\n    tl.store(out + at, two(at))",
    ).kernel
    assert "kernel: kept" in kept("kernel", part, capsys)
    out = torch.zeros(4, dtype=torch.int32, device="cuda" if torch.cuda.is_available() else "cpu")
    mine("kernel")[(1,)](out, N=4)
    assert out.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("sources", "name", "reason"),
    [
        (("pool = object()", "def f(): return pool"), "f", "it uses pool, an object of the notebook"),
        (("f = lambda x: x",), "f", "a lambda has no name"),
        (("def g():\n    def f(): return 1\n    return f\n\nf = g()",), "f", "f is not written at the top of a cell"),
        (
            ("def h(): return 1\n\nh1 = h", "def h(): return 2", "def f(): return h() + h1()"),
            "f",
            "two things called h",
        ),
        (("def f(x=[][0] if 'math' in globals() else 1): return x",), "f", ""),
    ],
)
def test_what_cannot_be_kept_is_refused_in_a_sentence(sources, name, reason, folder, capsys):
    said = kept("hash", getattr(cell(*sources), name), capsys)
    assert (f"not kept: {reason}" in said) if reason else "hash: kept" in said
    assert not folder.exists() or not reason or list(folder.iterdir()) == []


def test_what_works_only_in_its_notebook_leaves_the_earlier_part_as_it_is(folder, capsys):
    kept("hash", cell("def f(): return 1").f, capsys)
    part = cell("import sys\nsys.here = 1", "def f(x=sys.here): return 2").f
    del sys.here
    assert kept("hash", part, capsys) == "not kept: your hash does not load (AttributeError) in a module of its own\n"
    assert [path.name for path in folder.iterdir()] == ["hash.py"] and mine("hash")() == 1


def test_only_what_has_passed_its_check_is_kept(folder, capsys):
    keep(lambda: 1)
    assert capsys.readouterr().out.startswith("not kept: check it first")
    passed("hash", cell("def f(): return 1").f)
    keep(cell("def f(): return 2").f)
    assert capsys.readouterr().out.startswith("not kept: check it first")
    assert not folder.exists()


def test_without_a_kept_part_and_with_a_broken_one_the_package_serves_and_says_so(folder, capsys):
    assert mine("pool") is BlockPool
    assert capsys.readouterr().out == "pool: the package's (yours: pool not kept)\n"
    folder.mkdir()
    for text, words in (
        ("kept = =", "does not load (SyntaxError)"),
        ("1 / 0", "does not load (ZeroDivisionError)"),
        ("class A:\n    def allocate(self): ...\n\nkept = A", "has no free"),
    ):
        (folder / "pool.py").write_text(text)
        assert mine("pool") is BlockPool
        assert capsys.readouterr().out == f"pool: the package's (yours: pool {words})\n"
    (folder / "hash.py").write_text("kept = 3")
    assert mine("hash") is hash
    assert "hash cannot be called" in capsys.readouterr().out


def test_several_parts_are_all_the_learners_or_all_the_packages(capsys):
    kept("pool", cell(POOL).MyPool, capsys)
    assert mine("pool", "hash", "kernel") == (BlockPool, hash, None)
    assert capsys.readouterr().out.endswith("the package's (yours: hash, kernel not kept)\n")
    assert mine("pool", "hash") == (BlockPool, hash)
    assert capsys.readouterr().out == "pool, hash: the package's (yours: hash not kept)\n"
    kept("hash", cell("def f(): return 1").f, capsys)
    assert [part.__module__ for part in mine("pool", "hash")] == ["mine_pool", "mine_hash"]


def test_the_folder_lies_beside_the_notebooks_and_in_ci_nowhere(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("PAGEDKV_MINE")
    monkeypatch.delenv("CI", raising=False)
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    monkeypatch.chdir(tmp_path)
    part = cell("def f(): return 1").f
    assert kept("hash", part, capsys) == "not kept: the learner's notebooks are not in this folder\n"
    (notebooks / "1_start_here.ipynb").write_text(json.dumps({}))
    assert "hash: kept" in kept("hash", part, capsys) and (notebooks / "mine/hash.py").is_file()
    monkeypatch.chdir(notebooks)
    assert mine("hash")() == 1
    monkeypatch.setenv("CI", "1")
    keeping._of_this_process.cache_clear()
    assert mine("hash") is hash
    assert "hash: kept" in kept("hash", cell("def f(): return 2").f, capsys)
    assert mine("hash")() == 2 and (notebooks / "mine/hash.py").read_text().count("return 1") == 1
    keeping._of_this_process().cleanup()
    keeping._of_this_process.cache_clear()


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PAGEDKV_MINE", str(tmp_path / "file"))
    assert "cannot be written" in kept("hash", cell("def f(): return 1").f, capsys)


def test_a_name_that_no_exercise_has_is_an_error_that_lists_those_there_are(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(ValueError, match="name must be one of .*, not 'pond'"):
        mine("pond")


@pytest.mark.usefixtures("references_are_answers")
@pytest.mark.parametrize("name", ["3.1-pool", "3.3-names", "3.3-match", "4.1-decode"])
def test_the_packages_part_passes_the_check_that_the_learners_has_to(name, monkeypatch):
    if name == "4.1-decode":
        pytest.importorskip("torch")
    monkeypatch.setattr("pagedkv.course.lesson_3_1.walk._reason", lambda cls: None)
    role = find(name).role
    part = role.package()
    answer = part if role.of is None else (block_names, part)
    assert check(name, answer).points == find(name).max_points


def test_the_packages_table_is_used_as_the_learners_is():
    table = find("3.1-table").role.package()(BlockPool(4, 3))
    assert table.append(4) == [0, 1, 2, 3] and tuple(table.translate(3)) == (1, 0, 1, 3)
    table.free()
    assert (table.blocks, table.num_tokens, table.append(1)) == ([], 0, [0])


def test_an_interrupted_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    from pagedkv.course.judge import beside

    beside.replace(tmp_path / "kept.json", "old")

    def full(*_):
        raise OSError("no space left on device")

    for stops in (full, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)):
        monkeypatch.setattr(beside.os, "replace", stops)
        with pytest.raises((OSError, KeyboardInterrupt)):
            beside.replace(tmp_path / "kept.json", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]
    assert (tmp_path / "kept.json").read_text() == "old"
