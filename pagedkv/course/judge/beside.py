"""What a learner leaves beside the notebooks, none of it in git: `.progress.json`, and the folder `mine/`.

Both are looked for from the notebooks' folder and from the one above; the solutions' folder is neither. PAGEDKV_MINE
names another folder than `notebooks/mine`. In CI there is no place for either unless that variable gives one. A broken
file counts as empty, and where nothing can be written nothing is remembered.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

from pagedkv.files import alone, replace

FIRST_LESSON = "1_start_here.ipynb"
VARIABLE = "PAGEDKV_MINE"


def notebooks() -> Path | None:
    """The folder of the learner's notebooks, None in CI or where it is not found."""
    if os.environ.get("CI"):
        return None
    try:
        here = Path.cwd()
        return next((folder for folder in (here, here / "notebooks") if (folder / FIRST_LESSON).is_file()), None)
    except OSError:  # a folder that was deleted, or is closed to us
        return None


def mine() -> Path | None:
    """The folder for what the learner keeps; it need not be there yet."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return (folder := notebooks()) and folder / "mine"


def load(path: Path | None) -> dict:
    """The dictionary in a JSON file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def change(path: Path | None, change_of: Callable[[dict], dict]) -> None:
    """Make the dictionary in a JSON file `change_of` it, in one step; two kernels at once lose nothing."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.parent):
            before = load(path)
            after = change_of(before)
            if after != before:
                replace(path, json.dumps(after, indent=1))
    except OSError:
        return
