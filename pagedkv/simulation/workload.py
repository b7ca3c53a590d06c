"""Requests: when they arrive, how long their prompt is, how long their answer gets.

Lengths come from tables of real traffic (lengths.json, with sources), drawn by inverse CDF: a uniform number picks a
cumulative share, and the table says which length stands there. Or they come from a trace file that the learner has.
"""

import csv
import json
import math
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from pagedkv.arguments import finite_number, one_of, whole_number

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
MAX_TOKENS = 2**31 - 1


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
        keep("arrival_s", finite_number("arrival_s", self.arrival_s, 0, 1e9))
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
    return [
        Request(i, *row)
        for i, row in enumerate(zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    ]


def length_table(name: str) -> dict:
    """The shipped table of one workload: its source, and the prompts' and the outputs' mean and quantiles or gamma
    shape.
    """
    return _tables()[one_of("name", name, WORKLOADS)]


def load_trace(path) -> list[Request]:
    """Read an Azure LLM inference CSV (TIMESTAMP, ContextTokens, GeneratedTokens) or a Mooncake JSONL (timestamp in ms,
    input_length, output_length). Arrivals count from the first request. Raises ValueError with the line number for
    anything that is not a request, and for lines out of time order.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must name a file, not be {path!r}")
    path = Path(path)
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        lines = [(number, line.strip()) for number, line in enumerate(file, 1) if line.strip()]
    if not lines:
        raise ValueError(f"path names {path}, which is empty; it must be an Azure CSV or a Mooncake JSONL trace")
    requests, read, first_s, last_s = [], _mooncake, None, -math.inf
    for number, line in lines:
        try:
            if number == lines[0][0] and not line.startswith("{"):
                read = partial(_azure, _azure_columns(line))
                continue
            now_s, prompt_tokens, output_tokens = read(line)
            if now_s < last_s:
                raise ValueError(f"the time goes back by {last_s - now_s:g} s; lines must be in time order")
            first_s = now_s if first_s is None else first_s
            requests.append(Request(len(requests), round(now_s - first_s, 6), prompt_tokens, output_tokens))
        except (TypeError, ValueError, csv.Error) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        last_s = now_s
    if not requests:
        raise ValueError(f"path names {path}, which has a header but no request")
    return requests


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


def _azure_columns(header: str) -> list[str]:
    columns = _cells(header)
    for name in ("TIMESTAMP", "ContextTokens", "GeneratedTokens"):
        if columns.count(name) != 1:
            problem = f"stands there {columns.count(name)} times" if name in columns else "is missing"
            raise ValueError(f"the header must name TIMESTAMP, ContextTokens and GeneratedTokens; {name} {problem}")
    return columns


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]))]


def _azure(columns: list[str], line: str) -> tuple[float, int, int]:
    cells = _cells(line)
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} columns, the header has {len(columns)}")
    row = dict(zip(columns, cells, strict=True))
    for name in ("ContextTokens", "GeneratedTokens"):
        if not (row[name].isascii() and row[name].isdigit()):
            raise ValueError(f"{name} must be a whole number, not {row[name]!r}")
    time = datetime.fromisoformat(row["TIMESTAMP"])
    time = time if time.tzinfo else time.replace(tzinfo=UTC)  # without a zone the local clock's summer time would count
    return time.timestamp(), int(row["ContextTokens"]), int(row["GeneratedTokens"])


def _mooncake(line: str) -> tuple[float, int, int]:
    try:
        row = json.loads(line)
        time, prompt, output = row["timestamp"], row["input_length"], row["output_length"]
    except (json.JSONDecodeError, RecursionError, TypeError):
        raise ValueError(f"must be a JSON object, not {line[:60]!r}") from None
    except KeyError as error:
        raise ValueError(f"{error} is missing; a line must have timestamp, input_length and output_length") from None
    return (
        finite_number("timestamp", time) / 1000,
        whole_number("input_length", prompt, 1),
        whole_number("output_length", output),
    )
