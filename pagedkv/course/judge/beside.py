"""What a learner leaves beside the notebooks, none of it in git: `.progress.json`, and the folder `mine/`.

Both are looked for from the notebooks' folder and from the one above; the solutions' folder is neither. PAGEDKV_MINE
names another folder than `notebooks/mine`. In CI there is no place for either unless that variable gives one. A broken
file counts as empty, and where nothing can be written nothing is remembered.
"""

import json
import os
import tempfile
from pathlib import Path

FIRST_LESSON = "1_start_here.ipynb"
VARIABLE = "PAGEDKV_MINE"


def notebooks() -> Path | None:
    """The folder of the learner's notebooks, None in CI or where it is not found."""
    if os.environ.get("CI"):
        return None
    here = Path.cwd()
    return next((folder for folder in (here, here / "notebooks") if (folder / FIRST_LESSON).is_file()), None)


def mine() -> Path | None:
    """The folder for what the learner keeps; it need not be there yet."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return (folder := notebooks()) and folder / "mine"


def load(path: Path | None) -> dict:
    """The dictionary in a JSON file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def store(path: Path | None, content: dict) -> None:
    """Replace the file in one step, making its folder."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        options = {"dir": path.parent, "suffix": ".json", "delete": False, "encoding": "utf-8"}
        with tempfile.NamedTemporaryFile("w", **options) as file:
            json.dump(content, file, indent=1)
        os.replace(file.name, path)
    except OSError:
        return
