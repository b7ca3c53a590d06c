"""Slips in the worked solutions: a check tells each from the solution, or EQUIVALENT in a lesson's test says why."""

from importlib import import_module
from importlib.util import find_spec

import nbformat
import pytest
from cells import run_cell
from mutation import mutants

from pagedkv.course import editions
from pagedkv.course.judge import limit
from pagedkv.course.lessons import wings

pytest.importorskip("torch")
pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("nothing_kept")]
KERNELS = ("4_3_triton_from_zero", "4_4_the_ladder")  # right ones take seconds here, and no slip makes one endless
SOURCES = sorted((editions.FOLDER / "solutions").glob("*.ipynb"))


def equivalent() -> dict[str, dict[str, str]]:
    """By exercise: mutants that gain every point, and why, as the tests of the lessons say in EQUIVALENT."""
    files = [f"test_lesson_{wing.number.replace('.', '_')}" for wing in wings()]
    modules = [import_module(file) for file in files if find_spec(file)]
    return {name: known for module in modules for name, known in getattr(module, "EQUIVALENT", {}).items()}


def explained(name: str, mutant: str) -> bool:
    before, _, after = mutant.partition(" → ")
    known = equivalent().get(name, {})
    numbers = all(part.replace(".", "").replace("-", "").isdigit() for part in (before, after))
    return mutant in known or numbers and (f"{before} → ..." in known or "... → ..." in known)


def survivors(path):
    """(exercise, mutant) for each slip in a solution that leaves the check at full marks. Cells run in this process."""
    namespace, stubs = {}, []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        graded = editions.GRADED.search(cell.source)
        if graded:
            check = cell.source.removeprefix(editions.OWN_CHECK)
            answer = compile(check[: check.rindex(".points")], "<check>", "eval")
            for number, (source, before) in enumerate(stubs):
                for mutant, code in mutants(source):
                    changed = dict(before)
                    try:
                        for text in (code, *(text for text, _ in stubs[number + 1 :])):
                            run_cell(text, changed)
                        result = eval(answer, changed)
                    except Exception:  # noqa: S112 (a slip that does not even run is told from the solution)
                        continue
                    if result.points == result.max_points:
                        yield graded[1], mutant
            stubs = []
        elif editions.SOLUTION.search(cell.source):
            stubs.append((cell.source, dict(namespace)))
        run_cell(cell.source, namespace)


@pytest.mark.usefixtures("destructors_may_raise")
@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_a_slip_in_a_solution_loses_points(path, monkeypatch):
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(limit, "SECONDS", 60 if path.stem in KERNELS else 1)
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    monkeypatch.chdir(path.parent)
    assert [survivor for survivor in survivors(path) if not explained(*survivor)] == []


def test_mutants_reach_the_solution_only():
    source = "a = 1\n### BEGIN SOLUTION\nif a < 2:\n    b = max(a, 3)\n### END SOLUTION\nc = 4"
    found = {mutant for mutant, _ in mutants(source)}
    assert {"a < 2 → a <= 2", "2 → 3", "2 → 1", "max → min", "3 → 4", "3 → 2"} < found
    assert not any(code for _, code in mutants(source) if "a = 1" not in code or "c = 4" not in code)
