"""Every widget in a real JupyterLab: it is drawn, the keyboard moves its slider, and the picture follows."""

from importlib import import_module
from importlib.util import find_spec

import pytest
from lab import jupyter_lab, notebook_page, run_all_cells

from pagedkv.course.lessons import wings

pytestmark = pytest.mark.browser
pytest.importorskip("playwright")

from playwright.sync_api import expect  # noqa: E402


def drawn(wing) -> list[str]:
    """The widgets of a wing: NAME for each NAME_svg."""
    if find_spec(f"{wing.package}.widgets") is None:
        return []
    return [
        name.removesuffix("_svg") for name in vars(import_module(f"{wing.package}.widgets")) if name.endswith("_svg")
    ]


WIDGETS = [f"{wing.package}:{name}" for wing in wings() for name in drawn(wing)]
PLAYGROUND = "pagedkv.course.lesson_2_2:arena_playground"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    import nbformat

    home = tmp_path_factory.mktemp("lab")
    (home / "work").mkdir()
    calls = [widget.split(":") for widget in WIDGETS]
    cells = [nbformat.v4.new_code_cell(f"from {package} import widgets\nwidgets.{name}()") for package, name in calls]
    kernel = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), home / "work" / "widgets.ipynb")
    with (
        jupyter_lab(home / "work", home) as address,
        notebook_page(address, "widgets.ipynb", height=1200 * len(WIDGETS)) as page,
    ):
        run_all_cells(page)
        yield page


@pytest.mark.parametrize("name", WIDGETS)
def test_widget_is_drawn_with_its_controls_and_fits_the_page(page, name):
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(WIDGETS.index(name))
    picture = cell.locator("svg[role=img]")
    picture.wait_for(timeout=30_000)
    assert len(picture.get_attribute("aria-label")) > 40
    box, output = picture.bounding_box(), cell.locator(".jp-OutputArea-output").first.bounding_box()
    assert box["x"] + box["width"] <= output["x"] + output["width"]
    assert all(label.strip() for label in cell.locator(".widget-label:visible").all_inner_texts())


@pytest.mark.parametrize("name", [name for name in WIDGETS if name != PLAYGROUND])  # whose slider only sets a size
def test_arrow_key_moves_the_slider_and_the_picture_follows(page, name):
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(WIDGETS.index(name))
    if not cell.locator(".noUi-handle").count():
        pytest.skip("has no slider")
    handle = cell.locator(".noUi-handle").first
    handle.focus()
    picture = cell.locator("svg[role=img]")
    there, back = "ArrowLeft", "ArrowRight"
    if handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemin"):
        there, back = back, there
    for key in (there, back) * 2:
        before = picture.get_attribute("aria-label")
        page.keyboard.press(key)
        expect(picture).not_to_have_attribute("aria-label", before, timeout=10_000)


def test_playground_buttons_allocate_and_run_out_of_memory(page):
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(WIDGETS.index(PLAYGROUND))
    for _ in range(3):
        cell.get_by_role("button", name="Allocate").click()
    cell.locator("svg[aria-label*='OutOfMemory']").wait_for(timeout=10_000)
    cell.get_by_role("button", name="Clear").click()
    cell.locator("svg[aria-label*='empty arena']").wait_for(timeout=10_000)
