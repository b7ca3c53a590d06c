"""The record of a run of the notebooks: what is stored and reproduced passes, what differs is said."""

import json
import subprocess
import sys

import nbformat
import pytest

pytest.importorskip("torch")


def stored(path, code: str, output: str):
    cell = nbformat.v4.new_code_cell(
        code, execution_count=1, outputs=[nbformat.v4.new_output("stream", name="stdout", text=output)]
    )
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=metadata), path)


@pytest.mark.thorough
def test_the_record_tells_a_notebook_that_differs_from_one_that_does_not(tmp_path):
    (tmp_path / "notebooks/solutions").mkdir(parents=True)
    stored(tmp_path / "notebooks/right.ipynb", "print(6 * 7)", "42\n")
    stored(tmp_path / "notebooks/solutions/wrong.ipynb", "print(6 * 7)", "41\n")
    options = ["--root", str(tmp_path), "--jobs", "2", "--out", str(tmp_path / "record.json")]
    differing = subprocess.run(
        [sys.executable, "-m", "pagedkv.bench.notebooks", *options], capture_output=True
    ).returncode
    record = json.loads((tmp_path / "record.json").read_text())
    assert differing == 1
    verdicts = {row["notebook"]: (row["as_stored"], row["gpu_bytes"]) for row in record["notebooks"]}
    assert verdicts == {"notebooks/right.ipynb": (True, 0), "notebooks/solutions/wrong.ipynb": (False, 0)}
    assert record["provenance"]["command"].startswith("python -m pagedkv.bench.notebooks")
