"""`python -m pagedkv.bench.notebooks`: does every notebook give on this machine what is stored, how soon, and does it
use the GPU?

The outputs are compared by nbval. Whether a GPU was used is read off PyTorch's allocator in a cell added at the end.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pagedkv.arguments import command, installed

if __name__ == "__main__":
    installed("torch")

import nbformat
import torch
from nbclient import NotebookClient
from pytest import ExitCode
from tqdm import tqdm

from pagedkv.bench.report import provenance, write
from pagedkv.files import writable

PROBE = """
import sys
cuda = sys.modules["torch"].cuda if "torch" in sys.modules else None
print(cuda.max_memory_allocated() if cuda and cuda.is_available() else 0)
"""


def measure_notebook(path: Path, root: Path) -> dict:
    """Validate one notebook, run it once more by itself, and return seconds, verdict, and its peak of GPU memory in
    bytes.
    """
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "filterwarnings=",
    ]  # a warning is no difference
    nbval = [*pytest, "--nbval", "--nbval-current-env", path]
    compared = subprocess.run(nbval, capture_output=True, text=True, cwd=root, env=os.environ | {"CI": "1"})
    cells = re.search(r"(\d+) passed", compared.stdout)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(PROBE))
    start = time.perf_counter()
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    seconds = time.perf_counter() - start
    as_stored = compared.returncode in (ExitCode.OK, ExitCode.NO_TESTS_COLLECTED)  # the glossary has no code
    if not as_stored:
        print(compared.stdout[-4000:])
    return {
        "notebook": path.relative_to(root).as_posix(),
        "seconds": round(seconds, 1),
        "cells_compared": int(cells[1]) if cells else 0,
        "as_stored": as_stored,
        "gpu_bytes": int(notebook.cells[-1].outputs[0].text),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run all notebooks, print a line for each, write the record; returns how many differ from what is stored."""
    parser = argparse.ArgumentParser(prog="python -m pagedkv.bench.notebooks", description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="notebooks at a time; seconds are those of a busy machine where it is above 1",
    )
    parser.add_argument("--out", type=writable, help="JSON file for the record")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    os.environ["CI"] = "1"  # no progress is written
    paths = sorted(root.glob("notebooks/*.ipynb")) + sorted(root.glob("notebooks/solutions/*.ipynb"))
    if not paths or options.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {options.jobs}" if paths else f"there is no notebook in {root}")
    with ThreadPoolExecutor(options.jobs) as pool:
        done = pool.map(partial(measure_notebook, root=root), paths)
        records = list(tqdm(done, total=len(paths), desc="Notebooks", unit="notebook", disable=None))
    for record in records:
        verdict = "as stored" if record["as_stored"] else "DIFFERS"
        print(
            f"{record['notebook']:<50}{record['seconds']:>7.1f} s  {record['gpu_bytes'] / 2**20:>8.0f} MiB of GPU "
            f"memory  {verdict}"
        )
    if options.out:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        command = f"python -m pagedkv.bench.notebooks --jobs {options.jobs}"
        write(options.out, {"provenance": provenance(device, command), "notebooks": records})
    return sum(not record["as_stored"] for record in records)


if __name__ == "__main__":
    command(main)
