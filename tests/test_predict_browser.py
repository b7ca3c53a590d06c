"""A prediction in a real JupyterLab, by keyboard alone: nothing of the answer shows before the commit, and an output
that is folded below it unfolds when its cell runs.
"""

import nbformat
import pytest
from lab import jupyter_lab, notebook_page, wait_for_kernel

from pagedkv.course.editions import execute
from pagedkv.course.lessons import find_prediction

pytestmark = pytest.mark.browser
pytest.importorskip("playwright")

from playwright.sync_api import expect  # noqa: E402

NAMES = "4.2-bits", "4.2-counting"  # one of options, and a number


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    home = tmp_path_factory.mktemp("lab")
    (home / "work").mkdir()
    sources = ["from pagedkv.course.judge.predict import predict"]
    for name in NAMES:
        sources += [f'predict("{name}")', 'print("folded", 6 * 7)']
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbformat.write(execute(notebook, home / "work"), home / "work" / "lesson.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGEDKV_MINE", str(home / "mine"))
        with jupyter_lab(home / "work", home) as address, notebook_page(address, "lesson.ipynb") as page:
            wait_for_kernel(page)
            yield page


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def tab_to(page, name: str):
    """Tab until the button called `name` has the focus."""
    for _ in range(6):
        press(page, "Tab")
        if page.evaluate("document.activeElement.innerText").strip() == name:
            return
    raise AssertionError(f"six Tabs do not lead to {name}")


def run_cell(page, number: int):
    """Run the cell by Ctrl+Enter, and leave its editor."""
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(number)
    cell.locator(".cm-content").click()
    press(page, "Control+Enter", "Escape")
    return cell


def wait_for_commit(cell, ready: bool):
    button = cell.get_by_role("button", name="Commit")
    (expect(button).to_be_enabled if ready else expect(button).to_be_disabled)(timeout=30_000)


def test_an_option_is_picked_and_committed_by_keyboard_and_then_the_answer_shows(page):
    prediction = find_prediction(NAMES[0])
    run_cell(page, 0)
    cell = run_cell(page, 1)
    wait_for_commit(cell, ready=False)
    assert prediction.reason[:30] not in page.inner_text(".jp-Notebook")
    tab_to(page, prediction.options[0])
    press(page, "Enter")
    wait_for_commit(cell, ready=True)
    tab_to(page, "Commit")
    press(page, "Enter")
    line = cell.get_by_role("status")
    expect(line).to_contain_text(prediction.compare(prediction.options[0]))
    expect(line).to_contain_text(prediction.reason)


def test_a_number_is_typed_and_committed_and_the_cell_remembers_it(page):
    prediction = find_prediction(NAMES[1])
    cell = run_cell(page, 3)
    wait_for_commit(cell, ready=False)
    press(page, "Tab", "Tab")  # over the cell's toolbar
    page.keyboard.type("many")
    expect(cell.get_by_role("status")).to_contain_text("Write a number")
    wait_for_commit(cell, ready=False)
    press(page, *["Backspace"] * 4)
    page.keyboard.type("1,000")
    wait_for_commit(cell, ready=True)
    tab_to(page, "Commit")
    press(page, "Space")
    expect(cell.get_by_role("status")).to_contain_text(prediction.compare(1000.0))
    cell = run_cell(page, 3)
    expect(cell.get_by_role("status")).to_contain_text(prediction.compare(1000.0))


def test_after_a_commit_the_keyboard_still_moves_on_and_a_folded_output_unfolds(page):
    folded = page.locator(".jp-Notebook .jp-CodeCell").nth(4)
    assert "42" not in folded.inner_text()
    page.get_by_role("button", name="Committed").last.focus()
    press(page, "Escape", "ArrowDown", "Control+Enter")
    expect(folded).to_contain_text("folded 42")
