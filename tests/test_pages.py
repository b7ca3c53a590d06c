"""Notebooks as pages (`make pages`): pictures keep their words, links lead from page to page, and a narrow screen cuts
nothing off.
"""

from pathlib import Path

import nbformat
import pytest

nbconvert = pytest.importorskip("nbconvert")
ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def page(notebook: Path) -> str:
    exporter = nbconvert.HTMLExporter(template_name="pages", extra_template_basedirs=[str(ROOT / "pagedkv/course")])
    return exporter.from_filename(str(notebook))[0]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.thorough
def test_pictures_keep_their_words_and_links_lead_to_pages(notebook):
    from bs4 import BeautifulSoup

    outputs = [output for cell in nbformat.read(notebook, as_version=4).cells for output in cell.get("outputs", ())]
    words = [output.metadata["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]
    soup = BeautifulSoup(page(notebook), "html.parser")
    assert [picture["alt"] for picture in soup.find_all("img")] == words
    links = [link["href"] for link in soup.find_all("a", href=True) if not link["href"].startswith(("#", "https://"))]
    assert links and {link.split("#")[0] for link in links} <= {path.with_suffix(".html").name for path in NOTEBOOKS}


@pytest.mark.browser
def test_a_narrow_screen_scrolls_code_and_outputs_and_not_the_page(tmp_path):
    from lab import chromium

    (tmp_path / "page.html").write_text(page(ROOT / "notebooks/5_1_summary.ipynb"), encoding="utf-8")
    with chromium(width=390, height=844) as tab:
        tab.route("https://**", lambda request: request.abort())
        tab.goto((tmp_path / "page.html").as_uri())
        wide = tab.evaluate("""() => [...document.querySelectorAll('.jp-InputArea-editor, .jp-OutputArea-output pre')]
            .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => getComputedStyle(box).overflowX)""")
        assert len(wide) > 20 and set(wide) == {"auto"}
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
