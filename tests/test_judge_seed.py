"""A class with a seed of its own has other hidden cases and the same right answers; without a seed all is as it was."""

import random
import re
from importlib import import_module
from pathlib import Path

import pytest

from pagedkv.course.judge import limit
from pagedkv.course.judge.check import check
from pagedkv.course.judge.exercise import hidden, hidden_number
from pagedkv.course.lessons import all_exercises

COURSE = Path(__file__).parents[1] / "pagedkv/course"
SEEDS = "winter", "spring"
KERNELS = "4.3", "4.4"  # their answers take minutes


def test_a_seed_changes_what_is_drawn_and_none_changes_nothing(monkeypatch):
    monkeypatch.delenv("PAGEDKV_SEED", raising=False)
    assert hidden("a part").random() == random.Random("a part").random() and hidden_number(7) == 7
    monkeypatch.setenv("PAGEDKV_SEED", "")
    assert hidden("a part").random() == random.Random("a part").random() and hidden_number(7) == 7
    drawn = set()
    for seed in SEEDS:
        monkeypatch.setenv("PAGEDKV_SEED", seed)
        assert hidden("a part").random() == hidden("a part").random() and hidden_number(7) == hidden_number(7)
        drawn |= {hidden("a part").random(), hidden("another").random(), hidden_number(7), hidden_number(8)}
    assert len(drawn) == 8 and 7 not in drawn


def test_every_hidden_case_is_drawn_with_it():
    """A generator of another kind would give every class the same cases."""
    own = re.compile(r"\bRandom\(|random_module|\.seed\(|default_rng|manual_seed\(\d")
    fixed = {"lesson_4_1/reading.py": 1}  # the large pool, in which a copy is seen by its time
    found = {}
    for path in [*COURSE.glob("lesson_*/*.py"), *COURSE.glob("judge/*.py")]:
        if path.name not in ("widgets.py", "pictures.py", "predictions.py"):
            if count := len(own.findall(path.read_text(encoding="utf-8"))):
                found[path.relative_to(COURSE).as_posix()] = count
    assert found == fixed | {"judge/exercise.py": 1}


@pytest.mark.parametrize("name", ["2.3-admit", "3.1-translate", "5.2-suspects"])
def test_the_calls_that_an_answer_sees_are_others(name, monkeypatch, capsys):
    def seen() -> set[str]:
        calls = set()
        check(name, lambda *inputs: calls.add(repr(inputs)))
        return calls

    monkeypatch.delenv("PAGEDKV_SEED", raising=False)
    public = seen()
    assert public == seen()
    for seed in SEEDS:
        monkeypatch.setenv("PAGEDKV_SEED", seed)
        assert public & seen() != public and seen() - public


@pytest.mark.thorough
@pytest.mark.usefixtures("references_are_answers")
@pytest.mark.parametrize(
    ("lesson", "seed"),
    [(lesson, seed) for lesson in all_exercises() for seed in SEEDS[: 1 if lesson in KERNELS else None]],
)
def test_answers_are_as_right_and_as_wrong_with_the_seed_of_a_class(lesson, seed, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setenv("PAGEDKV_SEED", seed)
    monkeypatch.setattr(limit, "SECONDS", 60)
    module = import_module(f"test_lesson_{lesson.replace('.', '_')}")
    for name, answers in module.RIGHT.items():
        for answer in answers:
            result = check(name, answer)
            assert result.points == result.max_points, capsys.readouterr().out
    for name, pairs in getattr(module, "ANY_WORDS", module.WRONG).items():
        for answer, words in pairs:
            capsys.readouterr()
            result = check(name, answer)
            said = capsys.readouterr().out
            said += said.replace("B.", "A.")  # of two tables, which the walk happens to try
            assert result.points < result.max_points and any(one in said for one in words.split("|")), said
