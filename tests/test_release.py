"""A release is one version of what is committed: the number that the first notebook shows, in the name and the tag."""

import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest

from pagedkv import __version__
from pagedkv.course import release

ROOT = Path(__file__).parents[1]


def test_the_first_notebook_shows_the_version_of_the_package():
    shown = [
        output.text
        for cell in nbformat.read(ROOT / "notebooks/1_start_here.ipynb", as_version=4).cells
        if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", ())
        for output in cell.outputs
        if output.get("text", "").startswith("pagedkv ")
    ]
    assert shown == [f"pagedkv {__version__}\n"]


def in_repository(folder, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A small course that is committed, whose handout and book are made at once."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    (tmp_path / "lesson.txt").write_text("a lesson")
    (tmp_path / "run").write_text("#!/bin/sh")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / ".gitignore").write_text("*.zip\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        in_repository(tmp_path, *command)
    in_repository(tmp_path, "archive", "--format=zip", "-o", "handout.zip", "HEAD", "lesson.txt")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "book", lambda content, seconds: {"index.html": b"<h1>a lesson</h1>"})
    return tmp_path


def test_the_zip_has_course_handout_and_book_and_the_same_bytes_again(repository, capsys):
    assert release.main() == 0
    path = repository / f"pagedkv-{__version__}.zip"
    first, names = path.read_bytes(), ZipFile(path).namelist()
    files = (".gitignore", "lesson.txt", "run")
    inside = ["book/index.html", *(f"course/{name}" for name in files), "handout.zip"]
    assert names == [f"pagedkv-{__version__}/{name}" for name in inside]
    program = ZipFile(path).getinfo(f"pagedkv-{__version__}/course/run")
    assert program.external_attr >> 16 & 0o111 and program.date_time[0] > 2000
    assert f"no tag v{__version__} yet; to set it: git tag v{__version__}" in capsys.readouterr().out
    path.unlink()
    in_repository(repository, "tag", f"v{__version__}")
    assert release.main() == 0 and path.read_bytes() == first
    assert "tag" not in capsys.readouterr().out


def test_what_is_not_committed_is_not_released(repository, capsys):
    (repository / "lesson.txt").write_text("changed")
    assert release.main() == 1
    assert capsys.readouterr().out == "no release: a release is made of what is committed: commit your changes first\n"


def test_a_version_that_is_another_commit_is_refused(repository, capsys):
    in_repository(repository, "tag", f"v{__version__}")
    in_repository(repository, "commit", "--allow-empty", "-qm", "second")
    assert release.main() == 1 and "raise __version__" in capsys.readouterr().out
    in_repository(repository, "tag", "-d", f"v{__version__}")
    assert release.main() == 1 and "handout.zip is not of this commit" in capsys.readouterr().out
    (repository / "handout.zip").unlink()
    assert release.main() == 1 and "handout.zip is not of this commit" in capsys.readouterr().out
    assert not list(repository.glob("pagedkv-*"))


def test_an_interrupt_leaves_no_half_a_zip(repository, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ZipFile, "writestr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release.main()
    assert {path.name for path in repository.iterdir()} == {".git", ".gitignore", "lesson.txt", "run", "handout.zip"}
