"""Predictions: a guess is committed before the answer is seen, compared with it, and remembered; nothing grades it."""

import json
from pathlib import Path

import nbformat
import pytest
from notebook_rules import predictions_of, problems
from test_notebooks import nbval

from pagedkv.course import editions
from pagedkv.course.judge import predict as predict_module
from pagedkv.course.judge import progress as progress_module
from pagedkv.course.judge.predict import VIEW, controls, outcome, predict, remember
from pagedkv.course.judge.prediction import Prediction
from pagedkv.course.lessons import all_exercises, all_predictions, find_prediction

pytest.importorskip("ipywidgets")
ROOT = Path(__file__).parents[1]
CHOICE = Prediction("9.9-pick", "few", "Most are <empty>.", options=("none", "few", "many"))
NUMBER = Prediction("9.9-count", 4096, "Two to the twelfth.", unit="tokens", near=0.01)


@pytest.fixture(autouse=True)
def asked(monkeypatch, tmp_path):
    """The two predictions, found by name, and a folder of the learner's own."""
    known = {prediction.name: prediction for prediction in (CHOICE, NUMBER)}

    def find(name):
        return known[name] if name in known else find_prediction(name)

    monkeypatch.setattr(predict_module, "find_prediction", find)
    monkeypatch.setattr(predict_module, "_since_start", {})
    monkeypatch.setenv("PAGEDKV_MINE", str(tmp_path / "mine"))
    return tmp_path / "mine" / "predictions.json"


# what is asked


def test_every_prediction_stands_in_its_lesson_and_has_a_name_of_its_own():
    exercises = [exercise.name for several in all_exercises().values() for exercise in several]
    predictions = [(lesson, p.name) for lesson, several in all_predictions().items() for p in several]
    names = [name for _, name in predictions]
    assert all(name.startswith(f"{lesson}-") for lesson, name in predictions)
    assert len(set(names + exercises)) == len(names + exercises)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("[2-9]_[0-9]_*.ipynb")), ids=lambda path: path.stem)
def test_a_lesson_asks_each_of_its_predictions_once_two_to_five_in_all(path):
    lesson = path.stem[:3].replace("_", ".")
    asked = predictions_of(nbformat.read(path, as_version=4))
    assert sorted(asked) == sorted(prediction.name for prediction in all_predictions().get(lesson, ()))
    assert 2 <= len(asked) <= 5


def test_one_of_a_unit_is_no_plural():
    rows = Prediction("9.9-one", 1, "It is one.", unit="rows")
    assert rows.words(1) == "1 row" and rows.words(2) == "2 rows" and "1 row." in rows.html()


@pytest.mark.parametrize(
    "wrong",
    [{"answer": "some", "options": ("none", "few")}, {"answer": "4"}, {"answer": float("nan")}, {"answer": True}],
)
def test_an_answer_that_cannot_be_given_is_refused(wrong):
    with pytest.raises(ValueError, match="^answer of 9.9-x must be"):
        Prediction("9.9-x", reason="", **wrong)


def test_an_unknown_prediction_is_an_error_that_says_what_there_is():
    with pytest.raises(ValueError, match="that of a prediction, not '4.2-x'; lesson 4.2 has 4.2-added, "):
        predict("4.2-x")
    with pytest.raises(ValueError, match="there is no lesson '7'"):
        predict("7")


# what is read and compared


@pytest.mark.parametrize(
    ("text", "guess"),
    [("4096", 4096), (" 4,096 tokens ", 4096), ("4.1e3", 4100), ("-3", -3), ("4 096", 4096), ("5 %", 5), (".5", 0.5)],
)
def test_numbers_are_read_as_people_write_them(text, guess):
    assert NUMBER.read(text) == guess


@pytest.mark.parametrize(
    "text", ["", " ", "many", "4,09", "1,2,3", "nan", "inf", "4096 bytes", "1e999", ".", "e3", None]
)
def test_what_is_no_number_is_told(text):
    with pytest.raises(ValueError, match="^Write a "):
        NUMBER.read(text)


@pytest.mark.parametrize(
    ("prediction", "guess", "sentence"),
    [
        (CHOICE, "few", "You said few, and so it is."),
        (CHOICE, "many", "You said many. It is few."),
        (NUMBER, 4096.0, "You said 4,096 tokens, and so it is."),
        (NUMBER, 4100.0, "You said 4,100 tokens. It is 4,096 tokens: close."),
        (NUMBER, 1024.0, "You said 1,024 tokens. It is 4,096 tokens; that is 4 times as much."),
        (NUMBER, 8192.0, "You said 8,192 tokens. It is 4,096 tokens; your guess is 2 times as much."),
        (NUMBER, -1.0, "You said -1 tokens. It is 4,096 tokens."),
    ],
)
def test_a_guess_is_compared_in_a_sentence(prediction, guess, sentence):
    assert prediction.compare(guess) == sentence
    assert prediction.agrees(guess) == (guess in ("few", 4096, 4100))


# what is shown


@pytest.mark.parametrize("prediction", [CHOICE, NUMBER], ids=["choice", "number"])
def test_commit_waits_for_a_valid_guess_and_only_then_the_answer_shows(prediction):
    box = controls(prediction)
    field, commit, line = box.children
    guess = "many" if prediction is CHOICE else "1,024"
    assert commit.disabled and line.value == ""
    if prediction is NUMBER:
        field.value = "many"
        assert commit.disabled and "Write a number" in line.value
    field.value = guess
    assert not commit.disabled and line.value == ""
    shown = "".join(str(widget.get_state()) for widget in (box, *box.children))
    assert "Two to" not in shown and "Most are" not in shown and "4,096" not in shown
    commit.click()
    assert field.disabled and commit.description == "Committed"
    assert 'role="status"' in line.value and "You said" in line.value
    assert ("Most are &lt;empty&gt;." if prediction is CHOICE else "Two to the twelfth.") in line.value


def test_a_committed_guess_is_shown_when_the_cell_runs_again_and_after_a_restart(asked, monkeypatch):
    remember(NUMBER, 1024.0)
    remember(CHOICE, "many")
    monkeypatch.setattr(predict_module, "_since_start", {})
    assert json.loads(asked.read_text()) == {"9.9-count": 1024.0, "9.9-pick": "many"}
    for prediction, guess in ((NUMBER, "1,024 tokens"), (CHOICE, "many")):
        field, _, line = controls(prediction).children
        assert field.value == guess and field.disabled and prediction.reason[:7] in line.value


def test_without_a_place_for_files_the_kernel_remembers(monkeypatch):
    monkeypatch.delenv("PAGEDKV_MINE")
    monkeypatch.setenv("CI", "1")
    remember(CHOICE, "few")
    assert controls(CHOICE).children[0].disabled


@pytest.mark.parametrize("content", ["", "[1]", '{"9.9-pick": "some"}', '{"9.9-pick": {}}', '{"9.8-x": "few"}'])
def test_a_broken_file_or_a_changed_question_counts_as_open(asked, content):
    asked.parent.mkdir()
    asked.write_text(content)
    assert not controls(CHOICE).children[0].disabled
    remember(CHOICE, "few")
    assert json.loads(asked.read_text()) == {"9.9-pick": "few"}


def test_progress_says_how_predictions_went_where_any_was_committed(monkeypatch, capsys):
    monkeypatch.setattr(progress_module, "all_exercises", lambda: {})
    monkeypatch.setattr(progress_module, "all_predictions", lambda: {"9.9": (CHOICE, NUMBER)})
    progress_module.progress()
    remember(CHOICE, "few")
    remember(NUMBER, 1.0)
    progress_module.progress()
    assert outcome((CHOICE, NUMBER)) == (2, 1)
    assert capsys.readouterr().out == "9.9  predicted 2 of 2, 1 as it came out\n"


def test_a_page_shows_the_options_and_folds_the_answer():
    for prediction in (CHOICE, NUMBER):
        before, folded = prediction.html().split("<details>")
        assert prediction.reason.split(" <")[0] in folded and prediction.words(prediction.answer) in folded
        assert "Two to" not in before and "Most are" not in before
    assert CHOICE.html().startswith("<ul><li>none</li><li>few</li><li>many</li></ul>")
    assert "<p>A number of tokens.</p>" in NUMBER.html() and "&lt;empty&gt;" in CHOICE.html()
    for unit, asked in (("of the four", "A number of the four."), ("%", "A share in %."), ("", "A number.")):
        assert f"<p>{asked}</p>" in Prediction("9.9-of", 1, "One does.", unit=unit).html()


def test_what_is_displayed_is_a_widget_and_its_page_in_one(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    predict("9.9-pick")
    remember(CHOICE, "many")
    predict("9.9-pick")
    for data in shown:
        assert set(data.pop(VIEW)) == {"version_major", "version_minor", "model_id"}
    assert shown[0] == shown[1] == {"text/html": CHOICE.html(), "text/plain": "Prediction 9.9-pick: none · few · many"}


# what is stored


def lesson(name: str):
    v4 = nbformat.v4
    text = [v4.new_markdown_cell(words) for words in ("# Title\n5 minutes, CPU", "**Predict:** how many?")]
    sources = ("from pagedkv.course.judge.predict import predict", f'predict("{name}")', "1 + 1", "2 + 2")
    set_up, *code = [v4.new_code_cell(source) for source in sources]
    return v4.new_notebook(cells=[text[0], set_up, text[1], *code])


@pytest.mark.thorough
def test_a_stored_lesson_keeps_the_page_of_a_prediction_and_folds_the_output_below(tmp_path):
    nbformat.write(lesson("4.2-base"), tmp_path / "lesson.ipynb")
    editions.build("lesson", tmp_path)
    stored = (tmp_path / "lesson.ipynb").read_bytes()
    editions.build("lesson", tmp_path)
    assert (tmp_path / "lesson.ipynb").read_bytes() == stored
    built = nbformat.read(tmp_path / "lesson.ipynb", as_version=4)
    asked, folded, open_ = built.cells[3:]
    assert set(asked.outputs[0].data) == {"text/html", "text/plain"} and not asked.metadata.get("tags")
    assert folded.metadata == {"jupyter": {"outputs_hidden": True}, "tags": ["hide-output"]} and not open_.metadata
    assert folded.outputs[0].data == editions.NOTHING and len(folded.outputs) == 2
    assert nbval(tmp_path).returncode == 0
    assert problems(built) == []


WRONG = {
    "no question above": lambda nb: nb.cells.pop(2),
    "more than a predict": lambda nb: nb.cells[3].update(source='x = 1\npredict("4.2-bits")'),
    "whose first line shows": lambda nb: nb.cells[4].outputs.pop(0),
    "not folded": lambda nb: nb.cells[4].update(metadata={}),
    "folded without need": lambda nb: nb.cells[5].update(metadata=nb.cells[4].metadata),
    "the answer stands": lambda nb: nb.cells[4].update(source="assert l == 256"),
    "a question of the old kind": lambda nb: nb.cells[0].update(source=nb.cells[0].source + "\n**Predict first:** x?"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_lesson_that_breaks_a_rule_of_predictions_is_found(tmp_path, what):
    built = editions.execute(lesson("4.2-counting"), tmp_path)
    assert problems(built) == []
    WRONG[what](built)
    assert [what in problem for problem in problems(built)] == [True]
