"""Rows of a trace as three columns: time in microseconds, prompt tokens, output tokens.

pyarrow reads a block of lines at once. Where it or a check finds anything odd, the same lines are read one by one in
plain Python, which decides, and can name the line.
"""

import csv
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from pagedkv.arguments import finite_number, whole_number
from pagedkv.simulation.trace_file import arrow

MAX_TOKENS = 2**31 - 1
MAX_S = 10**9
PER_UNIT = {"s": 10**6, "ms": 10**3}  # microseconds
FAR = 2**53  # microseconds, beyond which floats skip some
ZONE = re.compile(rb"\d:\d\d[\d.]*(Z|[+-]\d\d)")
COUNT = re.compile(r"\d+|-0+", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Form(NamedTuple):
    """The names of the columns that matter, and how the first tells the time: "date", "s" or "ms"."""

    time: str
    prompt: str
    output: str
    unit: str

    def __str__(self) -> str:
        return f"{self.time}, {self.prompt} and {self.output}"


def split(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


def is_count(cell: str) -> bool:
    return COUNT.fullmatch(cell) is not None


class RowReader:
    """Blocks of lines as columns. It keeps the number of the next line, and the first and the last time."""

    def __init__(self, path, number: int, form: Form, unit: str | None, separator: str = "", names: Sequence[str] = ()):
        self.path, self.number, self.form, self.separator, self.names = path, number, form, separator, names
        self.unit = form.unit if unit is None else unit
        self.first = self.last = None

    def read(self, block: bytes, skip_empty: bool) -> np.ndarray:
        lines = np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        columns = self._at_once(block, lines)
        if columns is None or not self._sound(*columns, 0 if skip_empty else 1):
            columns = self._line_by_line(block, skip_empty)
        self.number += lines
        if columns.size:
            self.first = columns[0, 0] if self.first is None else self.first
            self.last = columns[0, -1]
        return columns

    def _at_once(self, block: bytes, lines: int) -> np.ndarray | None:
        """The columns as pyarrow reads them, None where it cannot or where it reads more than plain Python would."""
        if self.separator and any(x in block and b"0" + x in block for x in (b"x", b"X")):
            return None  # pyarrow takes 0x10 for 16
        pa = arrow()
        zone = "UTC" if ZONE.search(block[: block.find(b"\n")]) else None
        time = pa.timestamp("ns", zone) if self.unit == "date" else pa.float64()
        types = dict(zip(self.form[:3], (time, pa.int64(), pa.int64()), strict=True))
        try:
            if self.separator:
                table = pa.csv.read_csv(
                    pa.BufferReader(block),
                    pa.csv.ReadOptions(column_names=self.names, use_threads=False),
                    pa.csv.ParseOptions(delimiter=self.separator),
                    pa.csv.ConvertOptions(column_types=types, include_columns=types),
                )
            else:
                parse = pa.json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore")
                table = pa.json.read_json(pa.BufferReader(block), pa.json.ReadOptions(use_threads=False), parse)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != lines and table.num_rows != sum(map(bool, map(bytes.strip, block.split(b"\n")))):
            return None
        if any(column.null_count for column in table.columns):
            return None
        times, prompts, outputs = (column.to_numpy() for column in table.columns)
        if self.unit == "date":
            times = times.astype("datetime64[ns]").astype(np.int64) // 1000
        else:
            if not (np.abs(times) < FAR / PER_UNIT[self.unit]).all():
                return None
            times = np.rint(times * PER_UNIT[self.unit])
        return np.array([times, prompts, outputs], dtype=np.int64)

    def _sound(self, times: np.ndarray, prompts: np.ndarray, outputs: np.ndarray, least: int) -> bool:
        first, last = (times[0], times[0]) if self.first is None else (self.first, self.last)
        return (
            last <= times[0]
            and (times[:-1] <= times[1:]).all()
            and times[-1] - first <= MAX_S * 10**6
            and least <= prompts.min()
            and 0 <= outputs.min()
            and max(prompts.max(), outputs.max()) <= MAX_TOKENS
        )

    def _line_by_line(self, block: bytes, skip_empty: bool) -> np.ndarray:
        """The same columns, slowly. Raises ValueError that names the line."""
        rows, first, last = [], self.first, self.last
        for number, line in enumerate(block.decode(errors="replace").split("\n"), self.number):
            if not line.strip():
                continue
            try:
                time, prompt, output = self._row(line.strip())
                if prompt == 0 and not skip_empty:
                    name = self.form.prompt
                    raise ValueError(f"prompt_tokens must be at least 1, not 0 ({name}); skip_empty=True skips the row")
                first, last = (time, time) if first is None else (first, last)
                if time < last:
                    raise ValueError(f"the time goes back by {(last - time) / 1e6:g} s; lines must be in time order")
                finite_number("arrival_s", (time - first) / 1e6, 0, MAX_S)
            except (TypeError, ValueError, csv.Error) as error:
                raise ValueError(f"{self.path}, line {number}: {error}") from None
            rows.append((time, prompt, output))
            last = time
        return np.array(rows, dtype=np.int64).reshape(-1, 3).T

    def _row(self, line: str) -> tuple[int, int, int]:
        form = self.form
        row = self._csv_row(line) if self.separator else _json_row(line)
        try:
            time, prompt, output = (row[name] for name in form[:3])
        except KeyError as error:
            raise ValueError(f"{error} is missing; a line must have {form}") from None
        return (
            self._microseconds(time),
            whole_number(form.prompt, prompt, 0, MAX_TOKENS),
            whole_number(form.output, output, 0, MAX_TOKENS),
        )

    def _csv_row(self, line: str) -> dict:
        cells = split(line, self.separator)
        if len(cells) != len(self.names):
            raise ValueError(f"{len(cells)} columns, the header has {len(self.names)}")
        row = dict(zip(self.names, cells, strict=True))
        for name in (self.form.prompt, self.form.output):
            if not is_count(row[name]):
                raise ValueError(f"{name} must be a whole number, not {row[name]!r}")
            row[name] = int(row[name])
        return row

    def _microseconds(self, time) -> int:
        name, unit = self.form.time, self.unit
        if unit == "date":
            try:
                date = datetime.fromisoformat(time)
            except (TypeError, ValueError):
                hint = "; a column of numbers needs unit='s' or 'ms'" if _is_number(time) else ""
                raise ValueError(f"{name} must be a date such as 2023-11-16 18:15:46, not {time!r}{hint}") from None
            date = date if date.tzinfo else date.replace(tzinfo=UTC)  # the local clock's summer time would count
            return (date - EPOCH) // timedelta(microseconds=1)
        if self.separator:
            if not _is_number(time):
                raise ValueError(f"{name} must be a number ({unit}), not {time!r}")
            time = float(time)
        microseconds = finite_number(name, time) * PER_UNIT[unit]
        if not abs(microseconds) < FAR:
            raise ValueError(f"{name} must be within 285 years of 0, not {time:g} {unit}")
        return round(microseconds)


def _is_number(cell) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return "_" not in str(cell)  # Python's own digit separator


def _json_row(line: str) -> dict:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ValueError(f"must be a JSON object on one line, not {line[:60]!r}")
    return row
