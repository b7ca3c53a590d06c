"""`predict("4.2-rescale")` asks for a prediction, and shows the answer beside it once it is committed.

The question stands in the Markdown above. What is committed is remembered in `mine/predictions.json`, so that the cell
shows it when it runs again; without that file a restarted kernel has forgotten all. The progress page counts it,
nothing grades it. Standard controls only, which the keyboard works: Tab to an option, Enter, Tab to Commit, Enter.
"""

from html import escape

from pagedkv.course.judge import beside
from pagedkv.course.judge.prediction import Prediction
from pagedkv.course.lessons import find_prediction

VIEW = "application/vnd.jupyter.widget-view+json"
_since_start: dict[str, str | float] = {}  # committed in this kernel, where there is no file too


def predict(name: str) -> None:
    """Ask for the prediction called `name`. Raises ValueError where there is none."""
    from IPython.display import display

    prediction = find_prediction(name)
    asked = " · ".join(prediction.options) or "a number"
    data = {"text/html": prediction.html(), "text/plain": f"Prediction {name}: {asked}"}
    try:
        view = {"version_major": 2, "version_minor": 0, "model_id": controls(prediction).model_id}
        display({VIEW: view} | data, raw=True)
    except ModuleNotFoundError:  # no ipywidgets: the answer is folded
        display(data, raw=True)


def controls(prediction: Prediction):
    """The options or a field for a number, Commit, and a line for what comes of it."""
    import ipywidgets

    if prediction.options:
        look = {"style": {"button_width": "auto"}, "layout": {"width": "auto"}}
        field = ipywidgets.ToggleButtons(options=prediction.options, value=None, **look)
    else:
        field = ipywidgets.Text(placeholder=f"a number {prediction.unit}".strip(), layout={"width": "220px"})
    commit = ipywidgets.Button(description="Commit", disabled=True, layout={"width": "110px"})
    line = ipywidgets.HTML()

    def look_at(_=None):
        try:
            prediction.read(field.value)
            commit.disabled, line.value = False, ""
        except ValueError as error:
            commit.disabled, line.value = True, _line(str(error)) if field.value else ""

    def reveal(guess):
        field.disabled, commit.disabled = True, False
        commit.description = "Committed"  # neither disabled nor hidden: the keyboard's focus would be lost
        line.value = _line(prediction.compare(guess), prediction.reason)

    def committed(_):
        if field.disabled:
            return
        guess = prediction.read(field.value)
        remember(prediction, guess)
        reveal(guess)

    field.observe(look_at, "value")
    commit.on_click(committed)
    if (guess := guesses().get(prediction.name)) is not None:
        field.value = guess if prediction.options else prediction.words(guess)
        reveal(guess)
    return ipywidgets.VBox([field, commit, line])


def _line(verdict: str, reason: str = "") -> str:
    return f'<p role="status" style="line-height:1.4"><b>{escape(verdict)}</b> {escape(reason)}</p>'


def remember(prediction: Prediction, guess) -> None:
    _since_start[prediction.name] = guess
    beside.change(_path(), _fitting)


def guesses() -> dict[str, str | float]:
    """What is committed so far: name -> guess, those that still fit their question."""
    return _fitting(beside.load(_path()))


def _fitting(stored: dict) -> dict[str, str | float]:
    found = {}
    for name, guess in (stored | _since_start).items():
        try:
            found[name] = find_prediction(name).read(str(guess))
        except ValueError:  # a question that has changed since
            continue
    return found


def outcome(predictions) -> tuple[int, int]:
    """How many of these are committed, and how many of them came out as the learner said."""
    said = guesses()
    committed = [prediction for prediction in predictions if prediction.name in said]
    return len(committed), sum(prediction.agrees(said[prediction.name]) for prediction in committed)


def _path():
    return (folder := beside.mine()) and folder / "predictions.json"
