"""`python -m pagedkv.course.book [FOLDER]` builds the web book in FOLDER (build/html); a warning is an error.

The Sphinx project is laid out in build/book: what site/ holds, a page for each notebook, the table of lessons from
README.md, a page for each room of the engine. A file that has not changed is not touched: Sphinx reads it only once.
"""

import argparse
from importlib import import_module
from pathlib import Path

import nbformat
from sphinx.cmd.build import main as sphinx
from tqdm import tqdm

from pagedkv.arguments import command
from pagedkv.course.book.page import Shared, page, title

ROOT, SITE = Path(__file__).parents[3], Path(__file__).with_name("site")
EXPLAINED = "object, tuple, dict, BaseException, Exception, Module, Policy, Reservation"  # what they hand on is not
ROOMS = {
    "memory": ("The KV memory", "pagedkv"),
    "attention": ("Attention", "pagedkv/attention"),
    "engine": ("The engine", "pagedkv/engine"),
    "simulation": ("The simulation", "pagedkv/simulation"),
}


def lay_out(folder: Path) -> None:
    """Write the Sphinx project into `folder`, and remove what is no longer part of it."""
    files = {path.relative_to(SITE).as_posix(): path.read_bytes() for path in _files(SITE)}
    titles, shared = {}, Shared()
    lessons = ROOT / "notebooks"
    paths = [*sorted(lessons.glob("*.ipynb")), *sorted(lessons.glob("solutions/*.ipynb"))]
    for path in tqdm(paths, desc="Pages", unit="page", disable=None):
        name, notebook = path.relative_to(lessons).with_suffix("").as_posix(), page(path, shared)
        titles[name] = title(notebook)
        files[f"{name}.ipynb"] = nbformat.writes(notebook).encode()
    files |= {f"_static/{name}": content for name, content in shared.files.items()}
    files |= {f"api/{name}.md": _room(*room).encode() for name, room in ROOMS.items()}
    files["index.md"] += f"\n{_table()}\n\n{_contents(titles)}\n".encode()
    for path in _files(folder):
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def _table() -> str:
    """The table of lessons as README.md has it; the side bar has the rest."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("\n## The lessons\n")[1].split("\n## ")[0]
    rows = [line for line in section.split("\n") if line.startswith("|") and "/solutions/" not in line]
    return "\n".join(rows).replace("](notebooks/", "](")


def _contents(titles: dict[str, str]) -> str:
    """The order of all pages, for the side bar and for previous and next."""
    entries = {"Lessons": [], "To look up": [], "Solutions": []}
    for name, words in titles.items():
        caption = "Solutions" if "/" in name else "Lessons" if name[0].isdigit() else "To look up"
        entries[caption].append(f"{words} <{name}>")
    entries["To look up"] += [f"api/{room}" for room in ROOMS]
    return "\n\n".join(
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])
        for caption, pages in entries.items()
        if pages  # what is handed out has no solutions
    )


def _room(name: str, folder: str) -> str:
    """A page with what the modules of a folder say of themselves."""
    modules = [path for path in sorted((ROOT / folder).glob("*.py")) if not path.stem.startswith("__")]
    parts = [f"# {name}"]
    for path in modules:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        options = f"   :members:\n   :member-order: bysource\n   :inherited-members: {EXPLAINED}"
        parts += [f"## {path.stem}", f"`{module}`", f"```{{eval-rst}}\n.. automodule:: {module}\n{options}\n```"]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m pagedkv.course.book", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", metavar="FOLDER", type=Path, default=ROOT / "build" / "html")
    html = parser.parse_args(arguments).folder.resolve()
    html.mkdir(parents=True, exist_ok=True)  # that it cannot be is told before any work is done
    book, read = ROOT / "build" / "book", ROOT / "build" / "doctrees"
    lay_out(book)
    release = f"release={import_module('pagedkv').__version__}"
    options = ["-W", "--keep-going", "-q", "-j", "auto", "-d", str(read), "-D", release]
    status = sphinx([*options, str(book), str(html)])
    if not status:
        print(html / "index.html")
    return status


if __name__ == "__main__":
    command(main)
