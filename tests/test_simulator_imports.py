"""What the lower floors and the lessons 2.x import: no torch, and no matplotlib below the pictures.

Each in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

FLOORS = "arguments sizing block_pool block_table prefix_cache simulation.experiment simulation.sharing".split()
NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LESSONS = ("2_1_contiguous_allocation", "2_2_fragmentation", "2_3_the_core_tension")


def loaded_by(code: str, *, blocked: tuple[str, ...] = ()) -> set[str]:
    """The top-level modules that are loaded after `code` has run with `blocked` ones absent."""
    absent = "".join(f"sys.modules[{name!r}] = None\n" for name in blocked)
    report = "print(*{name.split('.')[0] for name, module in sys.modules.items() if module})"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\n{absent}{code}\n{report}"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split("\n")[-2].split())


def test_the_lower_floors_need_numpy_only():
    loaded = loaded_by("\n".join(f"import pagedkv.{name}" for name in FLOORS))
    assert not loaded & {"torch", "triton", "matplotlib", "ipywidgets", "IPython", "pyarrow"}


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_sets_up_where_torch_is_not_installed(lesson):
    cells = nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4).cells
    set_up = next(cell.source for cell in cells if cell.cell_type == "code")
    assert "pagedkv" in loaded_by(set_up, blocked=("torch", "triton"))
    assert not loaded_by(set_up) & {"torch", "triton"}
