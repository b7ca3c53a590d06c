"""The set-up cell of a notebook that is opened alone, in Colab: there it installs the package by itself.

Everywhere else a set-up cell that misses the package says what to run. The address is one setting, `Repository` under
[project.urls] in pyproject.toml; `make notebooks` then writes it into every lesson, and without it takes it out again.
What is installed is the tag of this version and what it needs, NumPy and tqdm: nothing that Colab has loaded is
replaced. The recorded runs in figures/data do not come along.
"""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import nbformat

SETTINGS = Path(__file__).parents[2] / "pyproject.toml"
SET_UP = re.compile(
    r"\Atry:\n(?P<imports>(?:    from pagedkv.*\n)+)except ModuleNotFoundError as error:\n(?P<body>(?:    .*\n)+)"
)
HINT = re.compile(r'hint = (".*")')
PLAIN = """    hint = {hint}
    raise ModuleNotFoundError(hint) from error
"""
GUARDED = """    import subprocess, sys
    if "google.colab" not in sys.modules:
        hint = {hint}
        raise ModuleNotFoundError(hint) from error
    package = "git+{address}@v{version}"
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", package])
{imports}"""


def repository(settings: Path = SETTINGS) -> str | None:
    """The repository's address, None where it has none yet, or where there is no pyproject.toml."""
    if not settings.exists():
        return None
    return tomllib.loads(settings.read_text(encoding="utf-8"))["project"].get("urls", {}).get("Repository")


def guarded(source: str, address: str | None) -> str:
    """A set-up cell that installs from `address` in Colab, or only says what to do; any other cell as it is."""
    found = SET_UP.match(source)
    if not found:
        return source
    hint = HINT.search(found["body"])[1]
    body = (GUARDED if address else PLAIN).format(
        hint=hint, address=address, version=import_module("pagedkv").__version__, imports=found["imports"]
    )
    return source[: found.start("body")] + body + source[found.end() :]


def guard(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with its set-up cell as the setting asks."""
    address = repository()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = guarded(cell.source, address)
    return notebook
