"""The web book (`make site`): every lesson is a page, nothing that was stored is lost, widgets move without a kernel.

The browser visits every page at a telephone's width and records what it asks for and what it shows.
"""

import ast
import inspect
import json
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import nbformat
import pytest

pytest.importorskip("ipywidgets")

from pagedkv.course.book.explorers import FEWER, Explorer  # noqa: E402
from pagedkv.course.book.page import ELSEWHERE, Shared, page, slug  # noqa: E402

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NOTEBOOKS = [*LESSONS, *sorted((ROOT / "notebooks").glob("solutions/*.ipynb"))]
MOVE = ["2_2:reservation", "2_3:watermark", "4_1:reading", "4_2:online", "4_4:split_kv"]  # at least
WIDTH = 390


def words_of(notebook) -> list[str]:
    """The words of its pictures, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.metadata["image/png"]["alt"] for output in outputs if "image/png" in output.get("data", {})]


class Undrawn(Shared):
    """Explorers take seconds to draw; what a page is made of otherwise does not depend on them."""

    def explorer(self, name):
        return None


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_page_has_every_picture_with_its_words_and_every_other_output(path):
    bs4 = pytest.importorskip("bs4")
    stored, shared = nbformat.read(path, as_version=4), Undrawn()
    shown = page(path, shared)
    assert [cell.source for cell in shown.cells] == [cell.source.rstrip("\n") for cell in stored.cells]
    html = "".join(
        output.get("data", {}).get("text/html", "") for cell in shown.cells for output in cell.get("outputs", ())
    )
    pictures = bs4.BeautifulSoup(html, "html.parser").find_all("img")
    assert [picture["alt"] for picture in pictures] == words_of(stored)
    assert {picture["src"].removeprefix("_static/") for picture in pictures} == set(shared.files)
    for before, after in zip(stored.cells, shown.cells, strict=True):
        kept = [output for output in before.get("outputs", ()) if output.get("data") != {}]
        assert len(kept) == len(after.get("outputs", ()))
        for one, other in zip(kept, after.get("outputs", ()), strict=True):
            assert one == other or "image/png" in one.data or other.data["text/html"] == ELSEWHERE


def test_solutions_say_so_and_lose_only_the_marks_of_the_grader():
    path = ROOT / "notebooks/solutions/2_1_contiguous_allocation.ipynb"
    if not path.exists():
        pytest.skip("what is handed out has no solutions")
    cells = page(path, Undrawn()).cells
    assert cells[0].source.startswith("# Solutions: 2.1 · ")
    text = "\n".join(cell.source for cell in cells)
    assert "### BEGIN" not in text and "### END" not in text and "judge.check import check\n" in text


def test_where_no_book_can_be_written_nothing_is_laid_out(tmp_path, monkeypatch):
    book = pytest.importorskip("pagedkv.course.book.__main__", exc_type=ImportError)
    monkeypatch.setattr(book, "lay_out", lambda folder: pytest.fail("laid out"))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        book.main([str(tmp_path / "file" / "html")])


def test_anchors_are_those_of_jupyterlab():
    assert slug("Differences in memory") == "Differences-in-memory"


@pytest.mark.parametrize("name", MOVE)
def test_a_widget_can_be_drawn_beforehand(name):
    explorer = Explorer(f"lesson_{name}")
    assert explorer.movable
    for control in explorer.controls.values():
        assert control.label and control.start in control.values and len(control.values) > 1


def test_a_page_says_which_values_there_are():
    explorer = Explorer("lesson_2_2:reservation")
    said = explorer.html("_static")
    assert set(FEWER["reservation"]) == set(explorer.controls)
    output = explorer.controls["output"]
    assert {512, 513} <= set(output.values), "the lesson asks for the best and for the worst length"
    assert output.sentence() in said and "Output tokens: 1, 128, 129, 162, 256, 512, 513 and 1,024." in said
    assert "Step: every whole number from 0 to 3." in Explorer("lesson_4_2:online").html("_static")


@pytest.mark.parametrize("name", ["2_2:arena_playground", "2_2:fragmentation", "3_1:blocks"])
def test_what_depends_on_a_history_or_has_too_many_values_is_not_drawn(name):
    assert not Explorer(f"lesson_{name}").movable


def test_the_script_holds_the_pictures_that_the_widget_draws():
    explorer = Explorer("lesson_4_2:online")
    data = json.loads(explorer.script().partition(" = ")[2].rstrip(";\n"))
    pictures = ["".join(data["pieces"][piece] for piece in pieces) for pieces in data["pictures"]]
    rows = list(product(*(control.values for control in explorer.controls.values())))
    assert len(pictures) == len(rows) == 80
    for row, picture in list(zip(rows, pictures, strict=True))[::17]:
        assert picture == explorer.box.picture(**dict(zip(explorer.controls, row, strict=True)))


# What a page shows, once its formulas are drawn.
SEEN = """async () => {
  if (window.MathJax) await MathJax.startup.promise;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const content = document.querySelector('.content');
  return {
    links: all('a[href]').map(a => a.href), words: all('article img').map(image => image.alt),
    pictures: all('article img').map(image => image.src),
    formulas: all('.math').length, drawn: all('.math mjx-container').length, errors: all('mjx-merror').length,
    width: document.documentElement.scrollWidth, wider: content ? content.scrollWidth - content.clientWidth : 0,
    explorers: all('.explorer').map(box => box.dataset.name), open: all('article details[open]').length,
    printed: [...new Set(all('.cell_output pre').map(text => getComputedStyle(text).fontSize))],
    signatures: all('.sig').map(signature => signature.textContent),
    pipes: all('article p').map(text => text.textContent.trim()).filter(text => text.startsWith('|')),
    folded: all('details.hide').length, turns: all('.next-page, .prev-page').length,
  };
}"""

# Whether the pictures of an explorer have come, and a frame has passed since the key was pressed.
DRAWN = "name => window.explorers?.[name] && new Promise(done => requestAnimationFrame(() => done(true)))"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The address of the book, built and served, and its folder."""
    pytest.importorskip("sphinx")
    pytest.importorskip("playwright")
    html = tmp_path_factory.mktemp("book") / "html"
    built = subprocess.run(
        [sys.executable, "-m", "pagedkv.course.book", html], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[-4000:]
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=html))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", html
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def visits(book):
    """What each page shows, by its path, and the requests of all visits: (address, status)."""
    from lab import chromium

    address, html = book
    seen, requests, said = {}, [], []
    with chromium(WIDTH, 844) as tab:
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("response", lambda response: said.append((response.url, response.status)))
        tab.on("pageerror", lambda error: said.append((tab.url, str(error))))
        for path in sorted(html.rglob("*.html")):
            name = path.relative_to(html).as_posix()
            tab.goto(address + name)
            seen[name] = tab.evaluate(SEEN)
    yield seen, requests, said


@pytest.mark.browser
def test_every_notebook_is_a_page_with_its_pictures_and_no_page_asks_another_host(book, visits):
    address, html = book
    seen, requests, said = visits
    for path in NOTEBOOKS:
        name = path.relative_to(ROOT / "notebooks").with_suffix(".html").as_posix()
        assert seen[name]["words"] == words_of(nbformat.read(path, as_version=4)) and all(seen[name]["words"])
        assert seen[name]["turns"] == 2 or path == NOTEBOOKS[-1], name
    assert sum(len(shown["words"]) for shown in seen.values()) > 100
    assert {url for shown in seen.values() for url in shown["pictures"] if not url.startswith(address)} == set()
    assert len(requests) > len(seen) and [url for url in requests if not url.startswith((address, "data:"))] == []
    assert [entry for entry in said if entry[1] not in (200, 304)] == []


@pytest.mark.browser
def test_every_formula_is_drawn_and_no_page_scrolls_sideways(visits):
    seen = visits[0]
    assert {name: shown["errors"] for name, shown in seen.items() if shown["errors"]} == {}
    assert {name for name, shown in seen.items() if shown["drawn"] != shown["formulas"]} == set()
    assert sum(shown["formulas"] for shown in seen.values()) > 100
    assert {name for name, shown in seen.items() if shown["width"] > WIDTH or shown["wider"] > 0} == set()


@pytest.mark.browser
def test_every_table_is_drawn(visits):
    assert {name: shown["pipes"] for name, shown in visits[0].items() if shown["pipes"]} == {}


@pytest.mark.browser
def test_every_link_leads_to_a_page_and_to_an_anchor_on_it(book, visits):
    address, html = book
    anchors = {
        path.relative_to(html).as_posix(): set(re.findall(r'\bid="([^"]*)"', path.read_text(encoding="utf-8")))
        for path in html.rglob("*.html")
    }
    broken, with_anchor = set(), 0
    for name, shown in visits[0].items():
        for link in shown["links"]:
            to, anchor = urldefrag(urljoin(address + name, link))
            if not to.startswith(address):
                continue
            target = unquote(to.removeprefix(address).partition("?")[0])
            with_anchor += bool(anchor) and target != name
            if target not in anchors or (anchor and unquote(anchor) not in anchors[target]):
                broken.add((name, link))
    assert broken == set() and with_anchor > 300
    assert not any(link.partition("#")[0].endswith(".ipynb") for shown in visits[0].values() for link in shown["links"])


@pytest.mark.browser
def test_what_gives_an_answer_away_is_folded(visits):
    seen = visits[0]
    assert [name for name, shown in seen.items() if shown["open"]] == []
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        folded = sum("hide-output" in cell.metadata.get("tags", ()) for cell in cells)
        name = path.relative_to(ROOT / "notebooks").with_suffix(".html").as_posix()
        assert seen[name]["folded"] == folded, name


@pytest.mark.browser
def test_what_is_folded_is_as_large_as_what_is_not_and_no_signature_shows_what_python_makes_of_it(visits):
    seen = visits[0]
    assert {name: shown["printed"] for name, shown in seen.items() if len(shown["printed"]) > 1} == {}
    signatures = [text for shown in seen.values() for text in shown["signatures"]]
    assert sum("allocate(" in text for text in signatures) >= 3  # a pool's, and what two arenas share
    assert len(signatures) > 200 and [text for text in signatures if re.search("~|<(factory|class)", text)] == []


@pytest.mark.browser
def test_on_a_laptop_no_code_and_nothing_printed_is_cut_off(book):
    from lab import chromium

    with chromium(1280, 800) as tab:
        for path in LESSONS:
            tab.goto(f"{book[0]}{path.stem}.html")
            wider = "all => all.filter(code => code.scrollWidth > code.clientWidth).map(code => code.textContent)"
            assert tab.locator(".cell_input pre, .cell_output pre").evaluate_all(wider) == [], path.stem


@pytest.mark.browser
def test_every_slider_moves_its_picture_by_keyboard(book, visits):
    from lab import chromium

    address, _ = book
    pages = {box: name for name, shown in visits[0].items() for box in shown["explorers"] if "/" not in name}
    assert {name.split(":")[1] for name in MOVE} <= set(pages)
    with chromium(WIDTH, 844) as tab:
        for widget, name in pages.items():
            tab.goto(address + name)
            box = tab.locator(f".explorer[data-name={widget}]")
            words = box.locator("svg").get_attribute("aria-label")
            assert box.locator("details p").text_content() == words
            for slider in box.locator("input[type=range]").all():
                slider.focus()
                pictures, texts = set(), set()
                for key in ("Home", "ArrowRight", "End", "ArrowLeft"):
                    tab.keyboard.press(key)
                    tab.wait_for_function(DRAWN, arg=widget)
                    pictures.add(box.locator(".picture").inner_html())
                    texts.add(slider.get_attribute("aria-valuetext"))
                assert len(pictures) > 1 and len(texts) > 1, f"{widget}: {slider.get_attribute('aria-valuetext')}"
                assert texts >= {slider.locator("+ output").text_content()}


@pytest.mark.browser
def test_the_search_finds_a_word_of_a_lesson(book):
    from lab import chromium

    with chromium(WIDTH, 844) as tab:
        tab.goto(f"{book[0]}search.html?q=watermark")
        tab.locator("#search-results ul.search li a", has_text="2.3").first.wait_for(timeout=20_000)


def misread(docstring: str) -> list[str]:
    """Lines that a page of the book would show otherwise than meant: a hanging indent is part of an item of a list
    ("- "), an example stands after a paragraph that ends in "::", and a list after an empty line.
    """
    found, before, empty = [], "", False
    for line in inspect.cleandoc(docstring).split("\n"):
        if not line.strip():
            empty = True
            continue
        further = len(line) - len(line.lstrip()) - (len(before) - len(before.lstrip())) if before else 0
        item = line.lstrip().startswith("- ")
        if further > 0 and not (before.endswith("::") if empty else before.lstrip().startswith("- ")):
            found.append(line)
        elif not empty and (further < 0 and not item or item and before and not further and before[0] not in "- "):
            found.append(line)
        before, empty = line, False
    return found


@pytest.mark.parametrize("folder", ["", "attention", "engine", "simulation"])
def test_docstrings_are_written_as_a_page_shows_them(folder):
    wrong = {}
    for path in sorted((ROOT / "pagedkv" / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
                if lines := misread(ast.get_docstring(node)):
                    wrong[f"{path.name}:{getattr(node, 'name', '')}"] = lines
    assert wrong == {}


def test_a_hanging_indent_without_a_list_is_misread():
    assert misread("Sum.\n\nx: a number that goes\n  on\ny: one more") == ["  on", "y: one more"]
    assert misread("Sum.\n\n- x: a number\n  that goes on\n- y: one more\n\nSo::\n\n    f(x)\n") == []
    assert misread("Sum:\n- x: a number") == ["- x: a number"]
