"""What earns points: never a constant, doing nothing, a list of quoted answers, or the package's own reference."""

import ast
import re

import pytest
from test_lesson_3_3 import LeakyPool

from pagedkv.course.judge.check import check
from pagedkv.course.lesson_2_1 import exercises as lesson_2_1
from pagedkv.course.lesson_5_2 import wrong_entry
from pagedkv.course.lessons import all_exercises

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.thorough

every_exercise = pytest.mark.parametrize(
    "exercise",
    [exercise for exercises in all_exercises().values() for exercise in exercises],
    ids=lambda exercise: exercise.name,
)
CONSTANTS = [0, 1, -1, 819200, True, False, "", "right", "block", [], (), {}, [[0]], (0, 0), torch.zeros(1)]
CONSTANTS += [right for right, _ in wrong_entry.CONSEQUENCES.values()]


def thoughtless(exercise):
    """Constants and functions that do not look at the question, in every form in which an answer is handed over."""
    keys = [part.of for part in exercise.parts]
    for value in CONSTANTS:
        for one in (value, lambda *_, value=value: value):
            yield from (
                one,
                (one,) * 5,
                dict.fromkeys(keys, one),
                dict.fromkeys("abcdef", one),
                dict.fromkeys("ABCD", one),
            )
    for one in (lambda *a: a[0], lambda *a: a[-1], lambda *a: tuple(x[0] for x in a)):
        yield from (one, (one,) * 5)


@every_exercise
def test_a_thoughtless_answer_earns_nothing(exercise):
    assert [answer for answer in thoughtless(exercise) if check(exercise.name, answer).points] == []


@every_exercise
def test_a_part_that_counts_only_with_another_names_one(exercise):
    titles = [part.title for part in exercise.parts]
    assert len(set(titles)) == len(titles)
    assert {*exercise.only_with, *exercise.only_with.values()} <= {*titles}


def test_mending_nothing_earns_nothing(capsys):
    assert check("3.3-leak", (3, LeakyPool)).points == 1
    assert capsys.readouterr().out.count("counts only together with: tables with both") == 2


@every_exercise
def test_quoted_answers_earn_nothing(exercise, capsys):
    """Whatever the verdicts quote, the cases that they do not quote remain."""
    quoted = {}

    def look_up(*inputs):
        return quoted.get(repr(inputs), 10**9)

    answer = (look_up,) * len({part.of for part in exercise.parts})
    for _ in range(30):
        assert check(exercise.name, answer if len(answer) > 1 else look_up).points == 0
        said = re.findall(r"look_up\((.*)\) should return (.*)\.", capsys.readouterr().out)
        quoted |= {repr(ast.literal_eval(f"({inputs},)")): ast.literal_eval(right) for inputs, right in said}


@pytest.mark.parametrize(
    "answer", [lesson_2_1.computed_without_cache, (lambda p, o: 1, lesson_2_1.computed_with_cache)]
)
def test_the_packages_own_reference_earns_nothing(answer, capsys):
    assert check("2.1-computed", answer).points == 0
    assert "own reference" in capsys.readouterr().out
