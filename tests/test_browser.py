"""Every notebook in a real JupyterLab: all cells run, no error, every control moves its picture, and quickly.

Copies without outputs are opened: what is seen is live, and JupyterLab saves what it runs. The times from key to
picture are printed and kept in a file.
"""

import statistics
from pathlib import Path

import nbformat
import pytest
from lab import jupyter_lab, notebook_page, run_all_cells

pytestmark = pytest.mark.browser
TimeoutError = pytest.importorskip("playwright.sync_api").TimeoutError
NOTEBOOKS = [
    path for path in sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb")) if path.stem != "glossary"
]  # no code
BROKEN = ("model not found", "Error displaying widget", "Javascript Error", "Traceback (most recent call last)")

# Milliseconds from the next key press, anywhere on the page, to another picture in the element; null until then.
WATCH = """(box) => {
  const picture = () => [...box.querySelectorAll('svg[role=img]')].map(svg => svg.outerHTML).join();
  const before = picture();
  window.took = null;
  document.addEventListener('keydown', () => {
    const start = performance.now();
    const look = () => {
      if (picture() !== before) window.took = performance.now() - start; else requestAnimationFrame(look);
    };
    look();
  }, {once: true, capture: true});
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    home = tmp_path_factory.mktemp("browser")
    (home / "notebooks").mkdir()
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, home / "notebooks" / path.name)
    with jupyter_lab(home / "notebooks", home) as address:
        yield address


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    """Milliseconds by widget, written to a file when all notebooks are done."""
    times: dict[str, list[float]] = {}
    yield times
    lines = [f"{statistics.median(took):6.0f} ms  {max(took):6.0f} ms  {name}" for name, took in sorted(times.items())]
    path = tmp_path_factory.getbasetemp() / "slider_to_picture.txt"
    path.write_text("median     slowest    widget\n" + "\n".join(lines) + "\n")
    print(f"\n{path}\n{path.read_text()}")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebook_runs_and_its_widgets_answer(lab, path, times):
    with notebook_page(lab, path.name) as page:
        run_all_cells(page)
        text = page.locator(".jp-Notebook").text_content()
        assert [words for words in BROKEN if words in text] == []
        assert page.locator("[data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error']").count() == 0
        for number, widget in enumerate(
            page.locator(".jp-OutputArea-output:has(svg[role=img]):has(.widget-box)").all()
        ):
            took = work(page, widget)
            if took:
                times[f"{path.stem}, widget {number + 1}"] = took


def work(page, widget) -> list[float]:
    """Move every slider to both ends and the middle, change every list, click every button; the milliseconds of each
    move that shows.

    Every control must change the picture. Where there are buttons, a slider may only say what a button will do.
    """
    took, buttons = [], widget.locator("button").all()
    for slider in widget.locator(".noUi-target").all():
        handle = slider.locator(".noUi-handle")
        pictures = set()
        for key in ("Home", "End", "ArrowLeft", "Home", "ArrowRight"):
            took += press(page, widget, handle, key)
            pictures.add(picture(widget))
        box = slider.bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(300)
        pictures.add(picture(widget))
        assert buttons or len(pictures) > 1, (
            f"no move of {handle.get_attribute('aria-label') or 'a slider'} changes the picture"
        )
    for choice in widget.locator("select").all():
        before = picture(widget)
        first, last = choice.evaluate("list => [list.selectedIndex === 0, list.length - 1]")
        choice.select_option(index=last if first else 0)
        for _ in range(20):  # another workload is simulated first: on a busy machine that takes a while
            page.wait_for_timeout(250)
            if buttons or picture(widget) != before:
                break
        assert buttons or picture(widget) != before
    pictures = {picture(widget)}
    for button in buttons:
        button.click()
        page.wait_for_timeout(500)
        pictures.add(picture(widget))
    assert not buttons or len(pictures) > 1, "no button changes the picture"
    return took


def picture(widget) -> str:
    return widget.evaluate("box => [...box.querySelectorAll('svg[role=img]')].map(svg => svg.outerHTML).join()")


def press(page, widget, handle, key: str) -> list[float]:
    """Press a key on a slider's handle; the time until another picture is there, or nothing where the move does not
    show.
    """
    handle.focus()
    widget.evaluate(WATCH)
    page.keyboard.press(key)
    try:
        page.wait_for_function("() => window.took !== null", timeout=1000)
    except TimeoutError:
        return []
    return [page.evaluate("() => window.took")]
