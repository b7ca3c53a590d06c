"""A notebook opened alone: in Colab its set-up cell installs the package, elsewhere it says what to do."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from pagedkv import __version__
from pagedkv.course.colab import SET_UP, guarded, repository

ROOT = Path(__file__).parents[1]
NOTEBOOKS = [*sorted(ROOT.glob("notebooks/*.ipynb")), *sorted(ROOT.glob("notebooks/solutions/*.ipynb"))]
ADDRESS = "https://example.org/someone/pagedkv"
# A Python that lacks the package, as a fresh Colab does; its pip makes the project importable.
BARE = """
import subprocess, sys, types
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
sys.path = [place for place in sys.path if place and place != {root!r}]
COLAB = {colab}
if COLAB:
    sys.modules["google.colab"] = types.ModuleType("google.colab")

def pip(command):
    print(*command[1:])
    sys.path.insert(0, {root!r})

subprocess.check_call = pip
"""


def set_ups(path: Path) -> list[str]:
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code" and SET_UP.match(cell.source)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_set_up_cell_is_as_the_setting_asks_and_goes_there_and_back(path):
    found = set_ups(path)
    assert len(found) == (path.stem != "glossary")
    for source in found:
        assert guarded(source, repository()) == source
        there = guarded(source, ADDRESS)
        assert f'"git+{ADDRESS}@v{__version__}"' in there and len(there.split("\n")) <= 40
        assert guarded(there, ADDRESS) == there and guarded(there, None) == guarded(source, None)
        compile(there, "set-up", "exec")


def test_other_cells_stay():
    assert guarded("x = 1\n", ADDRESS) == "x = 1\n"


def run(colab: bool, address: str | None) -> subprocess.CompletedProcess:
    source = guarded(set_ups(ROOT / "notebooks/2_1_contiguous_allocation.ipynb")[0], address).split("\n\n")[0]
    code = BARE.format(root=str(ROOT), colab=colab) + source + "\nprint(KVShape(1, 1, 1).bytes_per_token)\n"
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=ROOT.parent)


def test_in_colab_the_package_is_installed_from_its_tag_and_imported():
    done = run(colab=True, address=ADDRESS)
    assert done.stdout.split("\n")[:2] == [f"-m pip install --quiet git+{ADDRESS}@v{__version__}", "4"], done.stderr


@pytest.mark.parametrize("colab, address", [(False, ADDRESS), (True, None), (False, None)])
def test_elsewhere_or_without_an_address_the_cell_says_what_to_do(colab, address):
    done = run(colab, address)
    assert done.returncode and "pip install" not in done.stdout
    assert "run `pip install -r requirements.txt -e .` in the project's folder" in done.stderr


def test_the_address_is_one_setting(tmp_path):
    settings = tmp_path / "pyproject.toml"
    settings.write_text(f'[project]\nname = "x"\n[project.urls]\nRepository = "{ADDRESS}"\n')
    assert repository(settings) == ADDRESS
    assert repository(tmp_path / "none.toml") is None
