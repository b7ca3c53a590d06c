"""Files that are whole at every moment: an interrupt, a full disk or another process leaves what was there before, or
all of what comes after it.
"""

import argparse
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex


def replace(path: str | os.PathLike, content: str | bytes) -> None:
    """Write a file in one step, text as UTF-8. What is no regular file, such as /dev/null, is written to as it is."""
    path = Path(os.path.realpath(path))  # a link stays one
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    part = path.with_name(f".{path.name}.{token_hex(4)}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def alone(folder: str | os.PathLike):
    """One process at a time in here, for one folder: who reads a file and writes it again loses nothing of another's.

    Where the system has no such locks (Windows, some networks) all are let in.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def writable(text: str) -> Path:
    """A command's option for the file of its results: that it cannot be written is said before any work is done."""
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError("it is a folder")
        if path.exists() or path.is_symlink():
            path.open("ab").close()
        else:
            replace(path, "")
            path.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {reason}") from None
    return path
