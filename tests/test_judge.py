"""The machinery of the exercises: what is right, what is wrong and how that is said, and what is remembered."""

import json
import math
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from pagedkv.course.judge import check as check_module
from pagedkv.course.judge import progress as progress_module
from pagedkv.course.judge.calling import NotAttempted, call, freeze
from pagedkv.course.judge.check import check
from pagedkv.course.judge.compare import Wrong, same
from pagedkv.course.judge.exercise import Exercise, Part, calls, equals
from pagedkv.course.judge.keep import mine
from pagedkv.course.judge.predict import predict
from pagedkv.course.lessons import find

torch = pytest.importorskip("torch")


def accepts(part: Part, answer) -> bool:
    try:
        part.run(answer)
    except (Wrong, NotAttempted):
        return False
    return True


def sentence(part: Part, answer) -> str:
    with pytest.raises((Wrong, NotAttempted)) as caught:
        part.run(answer)
    return str(caught.value)


# numbers

THIRDS = 5 / 3


@pytest.mark.parametrize(
    "answer",
    [
        1.666667,
        THIRDS,
        np.float32(THIRDS),
        torch.tensor(THIRDS),
        torch.tensor([1.66667]),
        np.array([[THIRDS]]),
        1.67,
        Fraction(5, 3),
    ],
)
def test_a_number_is_accepted_in_any_guise_and_to_three_digits(answer):
    assert accepts(equals("t", THIRDS), answer)


@pytest.mark.parametrize(
    "answer",
    [
        1.6,
        0.0,
        0,
        1.7,
        -THIRDS,
        math.nan,
        math.inf,
        np.nan,
        torch.tensor(math.nan),
        "1.666667",
        True,
        [THIRDS],
        None,
        1.67j,
    ],
)
def test_another_number_or_another_kind_is_not(answer):
    assert not accepts(equals("t", THIRDS), answer)


def test_a_number_that_calls_itself_equal_to_all_is_not():
    class Friendly(float):
        __hash__ = float.__hash__

        def __eq__(self, other):
            return True

        def __ne__(self, other):
            return False

    assert not accepts(equals("t", THIRDS), Friendly(3))
    assert not accepts(calls("t", lambda x: x / 3, [(5,)]), lambda x: Friendly(3))


@pytest.mark.parametrize("answer", [2e-10, 0, 0.0, -1e-10])
def test_the_tolerance_is_relative(answer):
    assert accepts(equals("t", 1e-10), 1e-10)
    assert not accepts(equals("t", 1e-10), answer)


@pytest.mark.parametrize("answer", [3, np.int64(3), torch.tensor(3), np.array([3])])
def test_whole_numbers_are_exact(answer):
    same(3, answer)
    with pytest.raises(Wrong, match="too small"):
        same(4, answer)


@pytest.mark.parametrize(
    "answer", [True, np.True_, "3", 3.0, np.float64(3), [3], (3,), {3}, iter([3]), math.nan, None, print]
)
def test_a_function_that_should_return_a_whole_number_must_do_so(answer):
    with pytest.raises(Wrong, match="a whole number is expected"):
        same(3, answer)


def test_a_typed_whole_number_may_have_a_decimal_point():
    assert accepts(equals("t", 1848), 1848.0)
    assert not accepts(equals("t", 1848), 1848.5)


@pytest.mark.parametrize("answer", [1, 0, "True", None, torch.tensor(1)])
def test_true_is_no_number(answer):
    with pytest.raises(Wrong):
        same(True, answer)


def test_an_infinity_is_right_only_where_it_is_expected():
    same(-math.inf, -math.inf)
    for wrong in (math.inf, math.nan, -1e300):
        with pytest.raises(Wrong):
            same(-math.inf, wrong)
    same(np.array([1.0, -math.inf]), np.array([1.0, -math.inf]))
    with pytest.raises(Wrong, match="not finite"):
        same(np.array([1.0, -math.inf]), np.array([-math.inf, -math.inf]))


# containers, arrays and tensors


@pytest.mark.parametrize("answer", [[12, 7], (12, 7), np.array([12, 7]), torch.tensor([12, 7])])
def test_a_list_may_come_as_a_tuple_or_array(answer):
    same([12, 7], answer)


@pytest.mark.parametrize(
    "answer",
    [
        [7, 12],
        [12],
        [12, 7, 3],
        [12.0, 7.0],
        [True, 7],
        {12, 7},
        {12: 7},
        "12, 7",
        (i for i in (12, 7)),
        torch.tensor([[12, 7]]),
    ],
)
def test_another_list_is_wrong(answer):
    with pytest.raises(Wrong):
        same([12, 7], answer)


@pytest.mark.parametrize("library", [list, tuple, np.array, torch.tensor])
def test_pairs_may_come_as_rows(library):
    same([(0, 5), (7, 3)], library([[0, 5], [7, 3]]))
    for wrong in ([[0, 5], [7, 4]], [[0, 5]], [0, 5], [[[0, 5]], [[7, 3]]]):
        with pytest.raises(Wrong):
            same([(0, 5), (7, 3)], library(wrong))
    same([], np.zeros((0, 2), int))


def test_fractions_in_a_list_share_one_scale():
    same([1.0, 0.0], [1, 1e-12])
    for wrong in ([1.0, 1e-3], [math.nan, 0.0], ["1", 0.0], [True, 0.0]):
        with pytest.raises(Wrong):
            same([1.0, 0.0], wrong)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
def test_arrays_are_compared_by_shape_kind_and_value(library):
    right = library(np.arange(6.0).reshape(2, 3))
    same(right, library(np.arange(6.0).reshape(2, 3)))
    same(right, library(np.arange(6, dtype=np.float32).reshape(2, 3)))
    wrongs = [
        np.arange(6.0),
        np.arange(6.0).reshape(3, 2),
        np.arange(6).reshape(2, 3),
        np.full((2, 3), np.nan),
        np.arange(6.0).reshape(2, 3) + 1e-3,
    ]
    for wrong in map(library, wrongs):
        with pytest.raises(Wrong):
            same(right, wrong)
    for wrong in ([[0.0, 1, 2], [3, 4, 5]], 1.0, None, "x"):
        with pytest.raises(Wrong):
            same(right, wrong)


def test_an_integer_tensor_must_have_the_dtype_that_kernels_read():
    same(torch.tensor([1], dtype=torch.int32), torch.tensor([1], dtype=torch.int32))
    with pytest.raises(Wrong, match="int32 is expected, not a tensor of int64"):
        same(torch.tensor([1], dtype=torch.int32), torch.tensor([1]))


def test_an_entry_is_named():
    for wrong, said in (
        ([1, 3], "entry 1 is not the right one"),
        ([1, 2.0], "entry 1: a whole number is expected, not a float.*"),
    ):
        with pytest.raises(Wrong, match=f"^{said}$"):
            same([1, 2], wrong)


def test_bfloat16_tensors_can_be_compared_and_watched():
    same(torch.ones(2, dtype=torch.bfloat16), torch.ones(2, requires_grad=True))
    assert freeze(torch.ones(2, dtype=torch.bfloat16)) != freeze(torch.ones(2, dtype=torch.bfloat16) * 2)


# functions


def scaled_sum(xs, n):
    return sum(xs) * n


def hidden(rng: random.Random):
    return [([rng.randrange(1, 9) for _ in range(5)], rng.randrange(2, 9)) for _ in range(3)]


SUM = calls("the sum, n times", scaled_sum, hidden, mistakes=[(lambda xs, n: sum(xs), "Each sum counts n times")])


def test_right_functions_are_accepted_however_they_are_written():
    assert accepts(SUM, scaled_sum)
    assert accepts(SUM, lambda xs, n: sum(x * n for x in xs))
    assert accepts(SUM, lambda xs, n: np.sum(xs) * n)


def changes_input(xs, n):
    xs.append(0)
    return scaled_sum(xs, n)


def ends_generators(xs, n):
    raise GeneratorExit


WRONG_FUNCTIONS = {
    "not the right value": (lambda xs, n: 9, "too small"),
    "the commonest mistake": (lambda xs, n: sum(xs), "Each sum counts n times"),
    "NaN": (lambda xs, n: math.nan, "whole number is expected"),
    "a string": (lambda xs, n: str(scaled_sum(xs, n)), "whole number is expected, not a string"),
    "a generator": (lambda xs, n: (x for x in xs), "not a generator"),
    "nothing": (lambda xs, n: print(end=""), "is the return missing"),
    "an exception": (lambda xs, n: xs[99], "raises IndexError in line"),
    "a changed input": (changes_input, "changes its input `xs`"),
    "too few parameters": (lambda xs: 1, "raises TypeError"),
    "the interpreter's end": (lambda xs, n: sys.exit(), "raises SystemExit"),
    "no Exception": (ends_generators, "raises GeneratorExit"),
    "the value instead of the function": (45, "without calling it"),
}


@pytest.mark.parametrize("name", WRONG_FUNCTIONS)
def test_a_wrong_function_gets_one_sentence(name):
    answer, said = WRONG_FUNCTIONS[name]
    assert said in sentence(SUM, answer)
    assert sentence(SUM, answer) == sentence(SUM, answer)


def test_none_is_no_forgotten_return_where_it_is_right_in_some_cases():
    part = calls("t", lambda n: n if n % 2 else None, [(1,), (2,)])
    assert sentence(part, lambda n: print(end="")).startswith("it returns None in every call, which is right in some")


def test_a_message_with_a_number_of_a_hidden_case_is_not_quoted():
    assert sentence(SUM, lambda xs, n: {}[xs[0]]).endswith("of its cell")
    assert sentence(SUM, lambda xs, n: missing).endswith("(name 'missing' is not defined)")  # noqa: F821


class StubInit:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks


def raises(blocks, *_):
    return blocks["a"]


class Raises:
    def __init__(self, num_blocks):
        self.room = [0] * num_blocks

    def allocate(self, n):
        return self.room["a"]


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("3.2-append", {}, "a function is expected, not a dict; hand over the function itself"),
        ("3.2-append", raises, f"raises TypeError in line {raises.__code__.co_firstlineno + 1} of its cell"),
        ("3.2-append", lambda blocks: 1, "your function raises TypeError."),
        ("3.3-leak", (3, Raises), f"TypeError in line {Raises.allocate.__code__.co_firstlineno + 1} of its cell"),
        ("3.3-leak", (3, StubInit), "your class raises AttributeError ('StubInit' object has no attribute 'allocate')"),
        ("3.3-leak", (3, {}), "the class is expected, not a dict"),
    ],
)
def test_no_verdict_names_a_line_of_the_package(name, answer, said, capsys):
    check(name, answer)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("product", [
    lambda xs, n: torch.ones(3) + torch.ones(4), lambda xs, n: torch.ones(2, 3) @ torch.ones(2, 3),
    lambda xs, n: np.ones(3) * np.ones(4), lambda xs, n: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]),
    lambda xs, n: np.ones((2, 3)).dot(np.ones(2)), lambda xs, n: torch.ones(3) @ torch.ones(4),
    lambda xs, n: np.ones(3) @ np.ones(4), lambda xs, n: torch.ones(3).copy_(torch.ones(4)),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_said_without_their_numbers(product):
    assert sentence(SUM, product).endswith("of its cell (shapes do not fit together)")


def test_the_shortest_call_that_fails_is_quoted_unless_it_is_a_hidden_case():
    shown = [([1, 2], 3), ([1, 2, 3], 10), ([0], 5)]
    part = calls("shown", scaled_sum, lambda rng: [*shown, *hidden(rng)])

    def off_by_one(xs, n):
        return sum(xs) * n + (len(xs) > 1)

    assert sentence(part, off_by_one) == "the number is too large: off_by_one([1, 2], 3) should return 9"
    assert sentence(SUM, off_by_one) == "the number is too large"

    def below(xs, n):
        return sum(xs) * n + (1 if len(xs) == 2 else -1)

    other = calls("shown", scaled_sum, [([1, 2], 3), ([1, 2, 3], 10), ([0], 5)])
    assert sentence(other, below) == "the number is too small: below([0], 5) should return 0"  # its own slip
    arrays = calls("shown", lambda x: 2 * x, [(np.arange(3),)])
    assert sentence(arrays, lambda x: x) == "some elements are wrong"


def test_a_function_that_is_right_for_the_shown_case_only_is_rejected():
    shown = calls("shown", scaled_sum, [([1, 2], 3)])
    assert accepts(shown, lambda xs, n: 9) and not accepts(SUM, lambda xs, n: 9)


def test_hidden_cases_are_the_same_each_time_and_cannot_be_spoilt():
    seen = []

    def spy(xs, n):
        seen.append((tuple(xs), n))
        return scaled_sum(xs, n)

    assert accepts(SUM, spy) and accepts(SUM, spy)
    assert len(seen) == 6 and seen[:3] == seen[3:] and len(set(seen)) == 3
    assert not accepts(SUM, changes_input) and accepts(SUM, scaled_sum)


@pytest.mark.parametrize("given", [[1, [2]], {"a": [1]}, np.zeros(3), torch.zeros(3)])
def test_every_kind_of_changed_input_is_seen(given):
    def spoil(x):
        if isinstance(x, dict):
            x["a"].append(2)
        elif isinstance(x, list):
            x[1].append(3)
        else:
            x[1] = 5

    with pytest.raises(Wrong, match="changes its input `x`"):
        call(spoil, given)
    assert call(len, given) == len(given)


def test_an_object_of_the_package_is_watched_too():
    from pagedkv.block_pool import BlockPool

    pool = BlockPool(4)
    assert call(lambda pool: pool.num_free, pool) == 4
    with pytest.raises(Wrong, match="changes its input `pool`"):
        call(lambda pool: pool.allocate(1), pool)
    assert pool.num_free == 4
    assert call(lambda pool: pool.allocate(1), pool, changes=(0,)) and pool.num_free == 3


def test_mistakes_of_values_and_parts_of_answers():
    part = equals("idle", 1848, mistakes=[(200, "That is what is used")], of="idle")
    assert accepts(part, {"idle": 1848, "other": ...})
    assert sentence(part, {"idle": 200}) == "That is what is used"
    for answer in ({}, 5, [1], {"idle": ...}):
        assert not accepts(part, answer)


def test_not_implemented_counts_as_not_attempted():
    def raises(xs, n):
        raise NotImplementedError

    with pytest.raises(NotAttempted):
        SUM.run(raises)


# verdicts


@pytest.fixture
def exercise(monkeypatch):
    made = Exercise(
        "9.9-sum", "A sum", (calls("shown", scaled_sum, [([1, 2], 3)]), calls("hidden", scaled_sum, hidden, points=2))
    )
    monkeypatch.setattr(check_module, "find", lambda name: made)
    return made


def test_a_verdict_names_its_parts(exercise, capsys):
    result = check("9.9-sum", lambda xs, n: 9)
    assert (result.points, result.max_points, repr(result)) == (1, 3, "1 of 3 points")
    assert capsys.readouterr().out == (
        "9.9-sum · A sum\n   ok       shown\n   not yet  hidden: the number is too small.\n   1 of 3 points\n"
    )


@pytest.mark.parametrize("answer", [lambda xs, n: ..., None, ...])
def test_a_stub_gets_no_points_and_is_told_so(exercise, capsys, answer):
    assert check("9.9-sum", answer).points == 0
    assert "not attempted" in capsys.readouterr().out


NASTY = [
    math.nan,
    "",
    b"x",
    object(),
    type,
    Exception("x"),
    {1: 2},
    np.zeros((2, 2)),
    torch.zeros(3, device="meta"),
    (x for x in ()),
    lambda *a, **k: object(),
]


@pytest.mark.parametrize("answer", NASTY)
def test_no_answer_crashes_the_check(exercise, answer):
    assert check("9.9-sum", answer).points == 0


@pytest.mark.parametrize("name", ["2.1-no-such", "7.7-x", "", "x", None, 3, "../x"])
def test_an_unknown_exercise_is_an_error_that_says_what_there_is(name):
    with pytest.raises(ValueError, match="name must be"):
        find(name)


# what is remembered


@pytest.fixture
def beside_notebooks(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "notebooks" / "solutions").mkdir(parents=True)
    (tmp_path / "notebooks" / "1_start_here.ipynb").touch()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path / "notebooks" / ".progress.json"


def test_the_best_result_is_remembered_beside_the_notebooks(exercise, beside_notebooks, monkeypatch):
    check("9.9-sum", scaled_sum)
    check("9.9-sum", lambda xs, n: 9)
    check("9.9-sum", scaled_sum)
    assert json.loads(beside_notebooks.read_text()) == {"9.9-sum": 3}
    monkeypatch.chdir(beside_notebooks.parents[1])
    assert progress_module._path() == beside_notebooks
    assert [p.name for p in beside_notebooks.parent.glob("*.json")] + [
        p.name for p in beside_notebooks.parent.glob("tmp*")
    ] == [".progress.json"]


def test_nothing_is_remembered_in_ci_in_the_solutions_or_where_it_cannot_be(exercise, beside_notebooks, monkeypatch):
    monkeypatch.chdir(beside_notebooks.parent / "solutions")
    check("9.9-sum", scaled_sum)
    monkeypatch.chdir(beside_notebooks.parent)
    monkeypatch.setenv("CI", "1")
    check("9.9-sum", scaled_sum)
    assert not list(beside_notebooks.parents[1].rglob("*.json"))


@pytest.mark.parametrize("content", ["", "{", "[1]", '"x"', '{"9.9-sum": "a"}', '{"9.9-sum": NaN}', "\x00\xff"])
def test_a_broken_file_counts_as_empty(exercise, beside_notebooks, content, capsys):
    beside_notebooks.write_text(content)
    progress_module.progress()
    check("9.9-sum", scaled_sum)
    assert json.loads(beside_notebooks.read_text()) == {"9.9-sum": 3}


def test_progress_shows_solved_begun_and_open(beside_notebooks, monkeypatch, capsys):
    parts = (equals("a", 1), equals("b", 2))
    lessons = {"9.9": tuple(Exercise(name, name, parts) for name in ("x", "y", "z"))}
    monkeypatch.setattr(progress_module, "all_exercises", lambda: lessons)
    beside_notebooks.write_text('{"x": 2, "y": 1}')
    progress_module.progress()
    assert capsys.readouterr().out.split() == ["9.9", "■◧□", "3", "of", "6", "points"]


def test_exercises_load_without_torch():
    code = "import sys; sys.modules['torch'] = None; from pagedkv.course.lessons import all_exercises; all_exercises()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: check(["2.1-config"], None),
        lambda: predict({}),
        lambda: mine(),
        lambda: mine([]),
        lambda: progress_module.score("9.9"),
        lambda: progress_module.score([]),
    ],
)
def test_a_name_that_is_none_is_refused_in_a_sentence(call):
    with pytest.raises((TypeError, ValueError), match="^(name|lesson) must be "):
        call()
