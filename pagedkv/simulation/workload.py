"""Requests: when they arrive, how long their prompt is, how long their answer gets.

Lengths come from tables of real traffic (lengths.json, with sources), drawn by inverse CDF: a uniform number picks a
cumulative share, and the table says which length stands there. Or they come from a trace file that the learner has.
"""

import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib.resources import files
from operator import eq
from pathlib import Path

import numpy as np

from pagedkv.arguments import finite_number, flag, one_of, shown, whole_number
from pagedkv.simulation.trace_rows import MAX_S, MAX_TOKENS, PER_UNIT
from pagedkv.simulation.traces import read_columns

WORKLOADS = (
    "paper-sharegpt",
    "paper-alpaca",
    "azure-conv",
    "azure-code",
    "sharegpt",
    "mooncake-conv",
    "mooncake-synthetic",
)
MAX_REQUESTS = 10**7


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    It arrives `arrival_s` seconds after the start; nobody but the oracle knows `output_tokens` before it ends.
    """

    request_id: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self):
        keep = partial(object.__setattr__, self)  # plain numbers: sums of a NumPy int32 would overflow
        keep("request_id", whole_number("request_id", self.request_id, 0, 2**63 - 1))
        keep("arrival_s", finite_number("arrival_s", self.arrival_s, 0, MAX_S))
        keep("prompt_tokens", whole_number("prompt_tokens", self.prompt_tokens, 1, MAX_TOKENS))
        keep("output_tokens", whole_number("output_tokens", self.output_tokens, 0, MAX_TOKENS))

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


def sample_requests(name: str, n: int, rate: float | None = None, seed: int = 0) -> list[Request]:
    """Draw `n` requests from workload `name`: Poisson arrivals at `rate` requests per second, or all waiting at t = 0
    without a rate.

    Prompt and output lengths are drawn independently. Two traces are not so: in "mooncake-synthetic" long prompts get
    short answers (Spearman -0.52); in "azure-conv", among requests of up to 2048 tokens, long prompts get long answers
    (0.45), so that drawn ones fill 40 % of a max-length pool where those of the trace fill 49 %.
    length_table("azure-conv")["independence"] has more.
    """
    one_of("name", name, WORKLOADS)
    n = whole_number("n", n, 1, MAX_REQUESTS)
    if rate is not None:
        finite_number("rate", rate, 0, above=True)
    rng = np.random.default_rng(whole_number("seed", seed))
    table = length_table(name)
    prompts, outputs = (_draw(rng, table[part], n) for part in ("prompt", "output"))
    if longest := table.get("max_total"):
        prompts = np.minimum(prompts, longest - 1)
        outputs = np.minimum(outputs, longest - prompts)
    arrivals = np.zeros(n) if rate is None else np.cumsum(rng.exponential(1 / rate, n))
    if not arrivals[-1] <= MAX_S:
        raise ValueError(f"rate must be so high that {n} requests arrive within {MAX_S:,} seconds, not {rate}")
    return [
        Request(i, *row)
        for i, row in enumerate(zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    ]


def length_table(name: str) -> dict:
    """The shipped table of one workload: its source, and the prompts' and the outputs' mean and quantiles or gamma
    shape.
    """
    return deepcopy(_tables()[one_of("name", name, WORKLOADS)])


class Trace(Sequence):
    """The requests of a trace in order of arrival, kept as columns and made when they are asked for; a slice is a list
    of them. `skipped` counts the rows that were left out because they have no prompt tokens.
    """

    def __init__(self, times: np.ndarray, prompts: np.ndarray, outputs: np.ndarray, skipped: int):
        self._columns = np.arange(len(times)), (times - times[0]) / 1e6, prompts, outputs
        self.skipped = skipped

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, index):
        if not isinstance(index, slice):
            index = range(len(self))[index]
            return self[index : index + 1][0]
        values = [column[index].tolist() for column in self._columns]
        requests = [object.__new__(Request) for _ in values[0]]
        for field, column in zip(fields(Request), values, strict=True):  # checked as columns, so past Request's checks
            deque(map(getattr(Request, field.name).__set__, requests, column), maxlen=0)
        return requests

    def __iter__(self) -> Iterator[Request]:
        for start in range(0, len(self), 4096):
            yield from self[start : start + 4096]

    def __eq__(self, other) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __repr__(self) -> str:
        return f"Trace({len(self):,} requests in {self[-1].arrival_s:,.0f} s, {self.skipped:,} skipped)"


def load_trace(path, *, limit: int | None = None, unit: str | None = None, skip_empty: bool = False) -> Trace:
    """Read the first `limit` requests of a trace file, or all. Arrivals count from the first.

    A trace is a CSV (commas, semicolons, tabs or bars) or has one JSON object a line; it may be gzip or zstd, UTF-8 or
    UTF-16. Its columns are those of Azure's LLM inference traces (TIMESTAMP, ContextTokens, GeneratedTokens), Mooncake
    (timestamp in ms, input_length, output_length), BurstGPT (Timestamp in s, Request tokens, Response tokens) or Vidur
    (arrived_at in s, num_prefill_tokens, num_decode_tokens); others are ignored. `unit`, "s" or "ms", says what the
    times count where it is not what stands here. `skip_empty` leaves out rows without prompt tokens and counts them in
    Trace.skipped; a row without output tokens is a request. Lines behind the limit are not read.

    Raises ValueError that says what was found, with the line number where it is a line: anything that is not a request,
    lines out of time order. Warns where milliseconds look like seconds and no unit was stated. Needs pyarrow.
    """
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise TypeError(f"path must name a file, not be {shown(path)}")
    if limit is not None:
        limit = whole_number("limit", limit, 1)
    if unit is not None:
        one_of("unit", unit, PER_UNIT)
    columns, skipped = read_columns(Path(path), limit, unit, flag("skip_empty", skip_empty))
    return Trace(*columns, skipped)


@cache
def _tables() -> dict:
    return json.loads(files("pagedkv.simulation").joinpath("lengths.json").read_text(encoding="utf-8"))


def _draw(rng: np.random.Generator, part: dict, n: int) -> np.ndarray:
    """`n` lengths of at least one token."""
    if "shape" in part:
        lengths = rng.gamma(part["shape"], part["mean"] / part["shape"], n)
    else:
        lengths = np.interp(rng.random(n), _tables()["p"], part["quantiles"])
    return np.maximum(np.rint(lengths).astype(np.int64), 1)
