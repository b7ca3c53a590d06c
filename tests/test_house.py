"""The rules of the house: a module imports only what lies below it, and no wing another. Imports are read, not run."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pagedkv"
BLOCKS = ("arguments", "block_pool", "block_table", "prefix_cache", "sizing")
ENGINE = (*BLOCKS, "attention", "device_tables", "files", "kv_cache", "model_config")
BELOW_THE_COURSE = (*ENGINE, "engine", "simulation", "bench")
WINGS = [f"course.{path.name}" for path in sorted(PACKAGE.glob("course/lesson_*"))]
# Room -> the rooms that it stands on. A module belongs to the longest name that begins its own.
FLOORS = {
    "arguments": (),
    "sizing": ("arguments",),
    "model_config": ("arguments", "sizing"),
    "files": (),
    "tensors": ("arguments",),
    "block_pool": ("arguments", "sizing"),
    "block_table": ("arguments", "sizing", "block_pool"),
    "prefix_cache": ("arguments", "block_pool"),
    "kv_cache": ("arguments", "sizing", "tensors"),
    "device_tables": ("arguments", "sizing", "block_table", "tensors"),
    "attention": ("arguments", "sizing", "tensors"),
    "engine": (*ENGINE, "tensors"),
    "simulation": BLOCKS,
    "bench": (*ENGINE, "tensors", "engine", "simulation"),
    "course": (*BELOW_THE_COURSE, "course.draw", "course.judge", "course.lessons", "course.thread", *WINGS),
    "course.lessons": ("arguments",),  # the wings are found by their folders
    "course.thread": (),  # the request that every lesson follows
    "course.draw": (*BELOW_THE_COURSE, "course.lessons", "course.thread"),
    "course.judge": (*BELOW_THE_COURSE, "course.lessons"),
    **dict.fromkeys(WINGS, (*BELOW_THE_COURSE, "course.draw", "course.judge", "course.thread")),
}
FLOORS["__init__"] = ()  # of the package: it hands nothing on
FLOORS["course.lesson_1"] += ("course.lessons",)  # for the map
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """The room of "pagedkv.a.b", "" for the package itself."""
    name = module.removeprefix("pagedkv").removeprefix(".")
    return max((room for room in FLOORS if f"{name}.".startswith(f"{room}.")), key=len, default="")


def imported(source: str) -> set[str]:
    """Every module of this package that a source imports, inside functions too; a relative import as it stands."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module or ''}.{name}" for name in names]
        found |= {name for name in names if name.split(".")[0] in ("pagedkv", "")}
    return found


def upward(room: str, source: str) -> list[str]:
    """What a file of `room` imports and must not: anything that is neither in its room nor in one that the room stands
    on.
    """
    return sorted(name for name in imported(source) if room_of(name) not in (room, *FLOORS[room]))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_go_down(path):
    room = room_of(".".join(("pagedkv", *path.relative_to(PACKAGE).with_suffix("").parts)))
    assert upward(room, path.read_text(encoding="utf-8")) == []


def test_an_import_that_goes_up_or_into_another_wing_is_seen():
    assert upward("attention", "def f():\n    from pagedkv.course.draw.style import INK") == [
        "pagedkv.course.draw.style.INK"
    ]
    assert upward("bench", "import pagedkv.bench.cases, pagedkv.attention.paged") == []
    assert upward("simulation", "from pagedkv import course") == ["pagedkv.course"]
    assert upward("course.lesson_2_3", "from pagedkv.course.lesson_2_2 import pictures") == [
        "pagedkv.course.lesson_2_2.pictures"
    ]
    assert upward("course.lesson_2_3", "from pagedkv.course.lessons import wings") == ["pagedkv.course.lessons.wings"]
    assert upward("course.lesson_2_3", "from ..lesson_2_2 import pictures") == ["..lesson_2_2.pictures"]
    assert upward("course.draw", "from pagedkv.course.judge.check import check") == ["pagedkv.course.judge.check.check"]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_a_file_is_no_longer_than_an_evening_allows_and_no_shorter_than_a_thought():
    assert {path.name: lines(path) for path in MODULES if lines(path) > 260} == {}
    may_be_short = {
        "__init__.py",
        "exercises.py",
        "predictions.py",
        "pictures.py",
        "widgets.py",
        "__main__.py",
        "figures.py",
        "sampler.py",
    }  # or a command
    short = {
        path.relative_to(PACKAGE).as_posix(): lines(path)
        for path in MODULES
        if lines(path) < 40 and path.name not in may_be_short
    }
    assert short == {}


def test_every_wing_has_its_tests():
    tests = {path.name for path in Path(__file__).parent.glob("test_lesson_*.py")}
    if not tests:
        pytest.skip("what is handed out has no solutions, and none of the tests that hold them")
    assert {f"test_{wing.removeprefix('course.')}.py" for wing in WINGS} == tests


def test_every_lesson_but_the_first_says_what_happens_to_the_request_that_all_follow():
    silent = [
        path.parent.name
        for path in sorted(PACKAGE.glob("course/lesson_*/__init__.py"))
        if "\nTHREAD = " not in path.read_text(encoding="utf-8")
    ]
    assert silent == ["lesson_1"]
