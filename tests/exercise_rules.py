"""The rules of every exercise: right answers pass twice, stubs are not attempted, nonsense earns nothing, each wrong
answer gets its sentence. A lesson's test makes its tests from here:

    test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(EXERCISES, RIGHT, WRONG)

RIGHT maps the name of an exercise to answers, WRONG to (answer, words of the verdict), where "a|b" is either.
"""

import inspect
import re

import numpy as np
import pytest

from pagedkv.course.judge.check import check


def stub(*inputs): ...


RESULTS = (None, float("nan"), float("inf"), "seven", [[]], True, np.zeros((2, 2)))
NONSENSE = (*(lambda *inputs, result=result: result for result in RESULTS), lambda *inputs: 1 / 0, 7, "f", [1, 2])
FORMS = (7, "f", [1, 2], {}, {1: 2}, [], (1, 2), [[1, 2], [3]], {1}, b"x", 1.5, True, object(), np, np.zeros(2))


def parts_of(exercise) -> list:
    """The places of an answer that is handed over in several parts, [] where it is one."""
    return list(dict.fromkeys(part.of for part in exercise.parts if part.of is not None))


def everywhere(exercise, one):
    """`one` in every place of an answer."""
    places = parts_of(exercise)
    return one if not places else dict.fromkeys(places, one) if isinstance(places[0], str) else (one,) * len(places)


def exercise_tests(exercises, right: dict, wrong: dict, stubs: dict | None = None):
    """Four tests over `exercises`; `stubs` are those of answers that are no functions.

    Also holds that each exercise has at least two right and four wrong answers.
    """
    by_name = {exercise.name: exercise for exercise in exercises}
    assert set(right) == set(wrong) == set(by_name), set(right) ^ set(by_name) | set(wrong) ^ set(by_name)
    assert all(len(answers) >= 2 for answers in right.values()) and all(len(answers) >= 4 for answers in wrong.values())
    stubs = {name: everywhere(exercise, stub) for name, exercise in by_name.items()} | (stubs or {})
    fixture = pytest.mark.usefixtures("references_are_answers")

    @fixture
    @pytest.mark.parametrize(
        ("name", "answer"), [(name, answer) for name, answers in right.items() for answer in answers]
    )
    def passes(name, answer, capsys):
        verdicts = []
        for _ in range(2):
            result = check(name, answer)
            verdicts.append(capsys.readouterr().out)
            assert result.points == result.max_points == by_name[name].max_points, verdicts[-1]
        assert verdicts[0] == verdicts[1]

    @fixture
    @pytest.mark.parametrize("name", by_name)
    def is_not_attempted(name, capsys):
        for answer in (stubs[name], everywhere(by_name[name], ...), ..., None):
            assert check(name, answer).points == 0
            verdict = capsys.readouterr().out
            assert "not attempted" in verdict and "not yet" not in verdict

    @fixture
    @pytest.mark.parametrize("name", by_name)
    def earns_nothing(name, capsys):
        for nonsense in NONSENSE:
            assert check(name, everywhere(by_name[name], nonsense)).points == 0
            assert check(name, nonsense).points == 0
        assert "Traceback" not in capsys.readouterr().out
        for form in FORMS:
            check(name, everywhere(by_name[name], form))
            check(name, form)
        said = capsys.readouterr().out
        assert "cannot be checked" not in said and "in line" not in said, said

    @fixture
    @pytest.mark.parametrize(
        ("name", "answer", "words"), [(name, *pair) for name, pairs in wrong.items() for pair in pairs]
    )
    def is_told_why(name, answer, words, capsys):
        assert check(name, answer).points < by_name[name].max_points
        said = [line for line in capsys.readouterr().out.splitlines() if "not yet" in line]
        assert any(one in line for line in said for one in words.split("|")), said
        assert all(line.endswith((".", "?")) for line in said)

    return passes, is_not_attempted, earns_nothing, is_told_why


def unheard(module, wrong: dict) -> list[str]:
    """The sentences for usual mistakes in a file of exercises that no wrong answer is told: a new one needs one."""
    sentences = re.findall(r'\),\s*"([^"]{15,})",?\s*\)', inspect.getsource(module))
    heard = [words for pairs in wrong.values() for _, words in pairs]
    return [sentence for sentence in sentences if not any(words in sentence for words in heard)]
