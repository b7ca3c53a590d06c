"""The source that a lesson shows is found by its markers, and an error where they are gone."""

import pytest
from tqdm import tqdm

from pagedkv.course.draw import show as showing
from pagedkv.course.draw.show import changes, piece, show, show_changes, show_function, show_piece, slow

MODULE = '''
@decorated
def one(x):
    """One."""
    z = 0  # start
    y = x + 1
    return y  # end


def two(x):
    """Two."""
    z = 0  # start
    y = x + 2
    return y  # end


def long(x):
    pass  # first
LINES
    return x
'''.replace("LINES", "    pass\n" * 39)


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "shown.py").write_text(MODULE, encoding="utf-8")  # cannot be imported: `decorated` is nothing
    monkeypatch.syspath_prepend(tmp_path)


def test_a_piece_is_found_by_its_first_and_last_line(module):
    assert piece("shown:one", "# start", "y = x") == ["z = 0  # start", "y = x + 1"]
    assert changes("shown:one", "shown:two") == ["⋮", "- y = x + 1", "+ y = x + 2", "⋮"]


@pytest.mark.parametrize(
    ("first", "last"), [("nowhere", "y"), ("# start", "nowhere"), ("=", "y"), ("return", "# start")]
)
def test_a_marker_that_is_gone_is_an_error(module, first, last):
    with pytest.raises(ValueError, match="must have one line with"):
        piece("shown:one", first, last)


def test_a_function_that_is_gone_and_a_piece_longer_than_a_screen_are_errors(module):
    with pytest.raises(ValueError, match="has no 'three'"):
        piece("shown:three", "a", "b")
    with pytest.raises(ValueError, match="at most 30 lines, not 42"):
        piece("shown:long", "first", "return x")


def whole(case):
    return case


def test_shown_code_has_a_fixed_width_on_a_page_without_styles(module, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    show_piece("shown:one", "# start", "y = x")
    show_changes("shown:one", "shown:two")
    show_function(whole)
    assert all("font-family:monospace" in output.data for output in shown)
    assert "```python\nz = 0  # start\ny = x + 1\n```" in shown[0].data and "```python\ndef whole(case" in shown[2].data


@pytest.mark.parametrize(("delay", "ci", "drawn"), [(0, "", True), (3, "", False), (0, "1", False)])
def test_a_bar_comes_late_goes_at_the_end_and_is_not_stored(monkeypatch, capsys, delay, ci, drawn):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(showing, "tqdm", lambda *given, **options: tqdm(*given, **options | {"delay": delay}))
    assert list(slow((1, 2), "pools")) == [1, 2]
    said = capsys.readouterr().err
    assert ("pools" in said) == drawn and not said.rpartition("\r")[2]


@pytest.mark.parametrize("picture", [3, None, "figure"])
def test_what_is_no_picture_is_refused(picture):
    with pytest.raises(TypeError, match="picture must be a Canvas or a matplotlib Figure, not "):
        show(picture, "words")
