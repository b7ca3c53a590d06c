"""Files that are whole at every moment, whatever happens while they are written."""

import argparse
import os
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest

from pagedkv.course.judge import beside
from pagedkv.files import alone, replace, writable


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_full_disk_and_an_interrupt_leave_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, error):
    def half(self, data):
        with self.open("wb") as file:
            file.write(data[:1])
        raise error

    def fails(*_):
        raise error

    file = tmp_path / "a b ü.json"
    file.write_text("old")
    monkeypatch.setattr(*((Path, step, half) if step == "write_bytes" else (os, step, fails)))
    with pytest.raises(type(error)):
        replace(file, "new")
    assert names(tmp_path) == [file.name] and file.read_text() == "old"


def test_text_is_utf_8_with_its_own_line_ends_and_bytes_are_bytes(tmp_path):
    replace(tmp_path / "text", "ü\n")
    replace(str(tmp_path / "bytes"), b"\0\r\n")
    assert [(tmp_path / name).read_bytes() for name in ("text", "bytes")] == [b"\xc3\xbc\n", b"\0\r\n"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    replace(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "new"


def test_what_is_no_regular_file_is_not_put_in_another_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(OSError):
            replace("socket", "new")
    assert Path("socket").is_socket() and names(tmp_path) == ["socket"]


def test_one_process_at_a_time_is_let_in(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    other = os.open(tmp_path, os.O_RDONLY)
    with alone(tmp_path), pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    with alone(tmp_path / "missing"):
        pass


def test_what_another_kernel_has_stored_meanwhile_stays(tmp_path, monkeypatch):
    file = tmp_path / "mine" / "predictions.json"
    beside.change(file, lambda said: said | {"a": 1})

    @contextmanager
    def after_another(folder):
        replace(file, '{"a": 1, "b": 2}')
        yield

    monkeypatch.setattr(beside, "alone", after_another)
    beside.change(file, lambda said: said | {"c": 3})
    assert beside.load(file) == {"a": 1, "b": 2, "c": 3}


BROKEN = {"deep": "[" * 100_000, "cut": "{", "list": "[1]", "bytes": "\udcff", "folder": None}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_counts_as_empty(tmp_path, content):
    file = tmp_path / "progress.json"
    if content is None:
        file.mkdir()
    else:
        file.write_text(content, encoding="utf-8", errors="surrogateescape")
    assert beside.load(file) == {}


def test_a_folder_that_was_deleted_has_no_notebooks(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert beside.notebooks() is None
    monkeypatch.chdir(tmp_path)


def test_results_that_cannot_be_written_are_told_before_the_work(tmp_path):
    assert writable(str(tmp_path / "new" / "record.json")) == tmp_path / "new" / "record.json"
    (tmp_path / "old.json").write_text("old")
    writable(str(tmp_path / "old.json"))
    assert names(tmp_path) == ["new", "old.json"] and not names(tmp_path / "new")
    assert (tmp_path / "old.json").read_text() == "old"
    for text in (str(tmp_path), str(tmp_path / "old.json" / "record.json"), "a\0b"):
        with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
            writable(text)
