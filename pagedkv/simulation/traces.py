"""A trace file as columns. It knows the public forms and tells them by their names, and knows nothing of the requests
that are made of the rows.
"""

import csv
import json
import warnings
from itertools import islice
from pathlib import Path

import numpy as np

from pagedkv.simulation.trace_file import open_lines, refusal
from pagedkv.simulation.trace_rows import Form, RowReader, is_count, split

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
BLOCK, LINES = 2**22, 2**16  # bytes that are read at once, or lines where they are counted
FORMS = (
    Form("TIMESTAMP", "ContextTokens", "GeneratedTokens", "date"),  # Azure LLM inference
    Form("timestamp", "input_length", "output_length", "ms"),  # Mooncake
    Form("Timestamp", "Request tokens", "Response tokens", "s"),  # BurstGPT
    Form("arrived_at", "num_prefill_tokens", "num_decode_tokens", "s"),  # Vidur
)


def read_columns(path: Path, limit: int | None, unit: str | None, skip_empty: bool) -> tuple[np.ndarray, int]:
    """The rows of a trace as an array [3, rows], and how many rows without prompt tokens were left out. With a limit,
    lines behind the last row that it takes stay unread.
    """
    blocks, kept, skipped = [], 0, 0
    with open_lines(path) as file:
        reader, rest = _reader(path, file, unit)
        while limit is None or kept < limit:
            if limit is None:
                block = rest + file.read(BLOCK) + file.readline()
            else:
                block = rest + b"".join(islice(file, min(limit - kept, LINES) - bool(rest)))
            if not block:
                break
            rest = b""
            columns = reader.read(block, skip_empty)
            full = columns[:, columns[1] > 0] if skip_empty else columns
            skipped += columns.shape[1] - full.shape[1]
            kept += full.shape[1]
            blocks.append(full)
    if not kept:
        without = " with prompt tokens" if skipped else ""
        raise ValueError(f"path names {path}, which has a header but no request{without}")
    columns = np.concatenate(blocks, axis=1)
    if unit is None and reader.form.unit == "ms" and (sign := _sign_of_seconds(columns[0])):
        warnings.warn(
            f"{path}: {reader.form.time} is read as milliseconds, but it {sign}; state unit='s' or unit='ms'",
            stacklevel=3,
        )
    return columns, skipped


def _sign_of_seconds(times: np.ndarray) -> str | None:
    if (times % 1000).any():
        return "has fractions, as seconds have"
    if 10**12 <= times[0] < 10**14:
        return "counts like the seconds since 1970"
    if len(times) >= 100 and 0 < np.ptp(times) < 2000 * len(times):
        return "would mean more than 500 requests a second"
    return None


def _reader(path: Path, file, unit: str | None) -> tuple[RowReader, bytes]:
    """What reads the lines behind the header, and the line that was taken from the file and is no header."""
    number, first = next(((number, line) for number, line in enumerate(file, 1) if line.strip()), (0, b""))
    if not first:
        raise refusal(path, "empty")
    text = first.decode(errors="replace").strip()
    try:
        if text.startswith("{"):
            return RowReader(path, number, _form(_keys(text), "a JSON object with"), unit), first
        separator, names = _header(text)
        form = _form(names, f"{SEPARATORS[separator]}-separated columns" if len(names) > 1 else "one column,")
        for name in form[:3]:
            if names.count(name) != 1:
                problem = f"stands there {names.count(name)} times" if name in names else "is missing"
                raise ValueError(f"the header must name {form}; {name} {problem}")
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}, line {number}: {error}") from None
    return RowReader(path, number + 1, form, unit, separator, names), b""


def _header(line: str) -> tuple[str, list[str]]:
    """The separator, and the names that it parts."""
    separator = max(SEPARATORS, key=lambda mark: len(split(line, mark)))
    names = split(line, separator)
    for found, holds in ("a comment", line.startswith("#")), ("a row of values", any(map(is_count, names))):
        if holds:
            raise ValueError(f"found {found}, {line[:60]!r}; the first line must be the header")
    return separator, names


def _keys(line: str) -> list[str]:
    try:
        return list(json.loads(line))
    except (ValueError, RecursionError):
        return list(FORMS[1])  # what is wrong with the line is said when it is read as a row


def _form(names: list[str], found: str) -> Form:
    form = max(FORMS, key=lambda form: (form.prompt in names) + (form.output in names))
    if form.prompt not in names and form.output not in names:
        known = "; ".join(map(str, FORMS))
        raise ValueError(f"found {found} {', '.join(names)[:200]}: none is a token count; known are {known}")
    return form
