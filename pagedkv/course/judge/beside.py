"""What a learner leaves beside the notebooks, none of it in git: `.progress.json`, and the folder `mine/`.

Both are looked for from the notebooks' folder and from the one above; the solutions' folder is neither. PAGEDKV_MINE
names another folder than `notebooks/mine`. In CI there is no place for either unless that variable gives one. A broken
file counts as empty, and where nothing can be written nothing is remembered.
"""

import json
import os
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
        replace(path, json.dumps(content, indent=1))
    except OSError:
        return


def replace(path: Path, text: str) -> None:
    """Write a file in one step: whoever interrupts that, or fills the disk, leaves the old one as it was."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
