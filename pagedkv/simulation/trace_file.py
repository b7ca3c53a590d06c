"""The lines of a file, whatever wraps them: gzip or zstd, UTF-8, UTF-16 or UTF-32, any line ends. A file that cannot be
a table of lines is refused by what it is. Nothing here knows what the lines say.
"""

import codecs
import io
from contextlib import contextmanager
from pathlib import Path

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
MARKS = {  # UTF-32 before UTF-16, whose mark its own begins with
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
BINARY = {
    b"PK\x03\x04": "a zip archive (a spreadsheet is one, too)",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"%PDF": "a PDF",
}
TEXT = {
    b"version https://git-lfs": "a Git LFS pointer, not the file that it stands for",
    b"<!doctype html": "an HTML page",
    b"<html": "an HTML page",
    b"<": "XML or HTML",
    b"[": "a JSON array, where one object a line is expected",
}


def arrow():
    """pyarrow, imported when a trace is read and not before: the simulation does without."""
    try:
        import pyarrow.csv
        import pyarrow.json
    except ImportError:
        raise ImportError("load_trace reads with pyarrow, which is not installed here (pip install pyarrow)") from None
    return pyarrow


def refusal(path: Path, found: str) -> ValueError:
    return ValueError(f"path must name a trace, CSV or one JSON object a line; {path} is {found}")


@contextmanager
def open_lines(path: Path):
    """A binary file of UTF-8 lines that ends where `path` ends. Reads no more than a buffer ahead of what is asked
    for.
    """
    if path.is_dir():
        raise refusal(path, "a folder")
    with path.open("rb") as file:
        compression = _begins(file, COMPRESSED)
        try:
            lines = io.BufferedReader(arrow().CompressedInputStream(file, compression)) if compression else file
            yield _as_utf8(path, lines)
        except OSError as error:
            if not compression:
                raise
            raise ValueError(f"{path} is a damaged or shortened {compression} file: {error}") from None


def _begins(file: io.BufferedReader, starts: dict[bytes, str]) -> str | None:
    head = file.peek()
    return next((name for start, name in starts.items() if head.startswith(start)), None)


def _as_utf8(path: Path, file: io.BufferedReader) -> io.BufferedReader:
    if found := _begins(file, BINARY):
        raise refusal(path, found)
    head = file.peek()
    encoding = _begins(file, MARKS) or _unmarked_utf16(head)
    if encoding or (b"\r" in head and b"\n" not in head):
        file = io.BufferedReader(_Recoded(io.TextIOWrapper(file, encoding or "utf-8", errors="replace")))
        head = file.peek()
    if b"\0" in head:
        raise refusal(path, "binary data")
    head = head.lstrip().lower()
    if found := next((name for start, name in TEXT.items() if head.startswith(start)), None):
        raise refusal(path, found)
    return file


def _unmarked_utf16(head: bytes) -> str | None:
    even, odd = head[:16:2], head[1:16:2]  # one of the two is zero in each character of a header
    if not odd:
        return None
    return "utf-16-le" if all(even) and not any(odd) else "utf-16-be" if all(odd) and not any(even) else None


class _Recoded(io.RawIOBase):
    """Text as UTF-8 bytes with "\\n" line ends."""

    def __init__(self, text: io.TextIOWrapper):
        self._text = text

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._text.read(len(buffer) // 4).encode()  # a character takes four bytes at most
        buffer[: len(data)] = data
        return len(data)
