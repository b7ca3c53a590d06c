"""Slips in the worked solutions: the check of an exercise tells each from the solution, or it stands here why it cannot."""

import nbformat
import pytest
from cells import run_cell
from mutation import mutants

from pagedkv.course import editions
from pagedkv.course.judge import calling

pytest.importorskip("torch")
SOURCES = sorted((editions.FOLDER / "solutions").glob("*.ipynb"))

# By exercise: mutants that gain every point, and why they are right answers too. `...` stands for any other number.
EQUIVALENT = {
    "2.2-fill": {"1 → 0": "the step that is left out reserves nothing"},
    "2.3-admit": {"-prompt_tokens // block_size → -prompt_tokens / block_size": "compared with whole numbers, it is as if rounded up"},
    "3.1-predict": {
        "2048 // 16 → 2048 / 16": "128.0 is accepted where 128 is asked for",
        "2048 → 2049": "the quotient is rounded down",
        "983 → 982": "the quotient is rounded down",
    },
    "4.1-decode": {"0 → -1": "the scores have one dimension, the first and the last"},
    "4.2-one-pass": {
        "0.0 → ...": "any start of l and o is multiplied by e^(-inf - m) = 0, and any finite base serves where nothing is visible",
        "0 → 1": "where l is not above 1 it is 1, and o / l is o",
    },
    "4.2-merge": {"0.0 → ...": "any finite base serves where nothing was visible"},
    "4.2-bugs": {"... → ...": "other scores that expose the same slip"},
    "4.3-masking": {
        "0 → ...": "a hidden token's block is not read",
        "0.0 → ...": "a hidden key's score is replaced, and a hidden value has weight 0: any finite number serves",
    },
    "4.3-offsets": {"exact + 2 ** (bits - 1) → exact - 2 ** (bits - 1)": "they differ by 2**bits, which the remainder drops"},
    "4.3-merge": {
        "0.0 → ...": "any finite base serves where nothing was visible",
        "1.0 → ...": "where the total is 0, any divisor gives the output 0",
    },
    "5.2-property": {
        "... → ...": "another seed, more or fewer draws, other shapes and cuts",
        "5 * rng.standard_normal(12) → 5 / rng.standard_normal(12)": "other scores",
    },
    "5.2-break": {"... → ...": "other inputs that break the same version"},
}


def explained(name: str, mutant: str) -> bool:
    before, _, after = mutant.partition(" → ")
    known = EQUIVALENT.get(name, {})
    numbers = all(part.replace(".", "").replace("-", "").isdigit() for part in (before, after))
    return mutant in known or numbers and (f"{before} → ..." in known or "... → ..." in known)


def survivors(path):
    """(exercise, mutant) for each slip in a solution that leaves the check at full marks. The notebook's cells run in this process."""
    namespace, stubs = {}, []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        graded = editions.GRADED.search(cell.source)
        if graded:
            answer = cell.source[: cell.source.rindex(".points")]
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an endless mutant may be stopped inside a destructor
@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_a_slip_in_a_solution_loses_points(path, monkeypatch):
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(calling, "SECONDS", 1)
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    monkeypatch.chdir(path.parent)
    assert [survivor for survivor in survivors(path) if not explained(*survivor)] == []


def test_mutants_reach_the_solution_only():
    source = "a = 1\n### BEGIN SOLUTION\nif a < 2:\n    b = max(a, 3)\n### END SOLUTION\nc = 4"
    found = {mutant for mutant, _ in mutants(source)}
    assert {"a < 2 → a <= 2", "2 → 3", "2 → 1", "max → min", "3 → 4", "3 → 2"} < found
    assert not any(code for _, code in mutants(source) if "a = 1" not in code or "c = 4" not in code)
