"""`python -m pagedkv.bench.tuning --out FILE`: the decode kernel under every setting of a small grid, with what its
binary asks for; and one call timed in several ways, the wrong ones among them. Needs a GPU.

`--once CASE` makes three calls and no more, for a profiler to look at: `ncu --csv --page raw --set full ... python -m
pagedkv.bench.tuning --once d > d.csv`; `--out FILE --profile d.csv` adds what ncu counted to a record.
"""

import argparse
import csv
import json
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from statistics import median

from pagedkv.arguments import command, installed

if __name__ == "__main__":
    installed("torch")

import torch
from tqdm import tqdm

from pagedkv.bench.cases import GRID, Case
from pagedkv.bench.data import Data, error, make, reference
from pagedkv.bench.ladder import launching
from pagedkv.bench.peers import ours
from pagedkv.bench.report import provenance, write
from pagedkv.bench.timing import measure
from pagedkv.files import writable
from pagedkv.sizing import ceil_div

CASES = ("a", "d", "f")
TILES, WARPS, STAGES = (32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4)
CALLS = 50  # of each way of timing
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTERS = (  # what the lesson reads in a profile
    "gpu__time_duration.sum",
    "dram__bytes.sum.per_second",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "launch__registers_per_thread",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__waves_per_multiprocessor",
    "sm__warps_active.avg.per_cycle_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warp_latency_per_inst_issued.ratio",
    *map(STALLED.format, ("long_scoreboard", "short_scoreboard", "wait", "barrier", "selected")),
)


def with_settings(settings: dict):
    """While it is open, decode launches with these `tile`, `num_stages`, `split_tokens`, `num_warps`."""

    def chosen(launch, longest):
        launch = launch._replace(**{name: value for name, value in settings.items() if name in launch._fields})
        return launch._replace(num_splits=ceil_div(longest, launch.split_tokens))

    return launching(chosen)


def measure_settings(case: Case, device: torch.device) -> list[dict]:
    """Each setting of the grid: µs, the error, and what the binary asks for."""
    from pagedkv.attention.triton import decode

    data, rows = make(case, device), []
    expected = reference(data, 0)
    call = ours("triton")(data)
    for tile, warps, stages in product(TILES, WARPS, STAGES):
        settings = {"tile": tile, "num_warps": warps, "num_stages": stages}
        with with_settings(settings):
            decode.launch_decode.compiled.clear()  # so that the last variant in it is this one
            distance = error(call(0), expected)
            kernel = list(decode.launch_decode.compiled.values())[-1]
            timing = measure(call, data.copies, device, host=False)
        rows.append(
            settings
            | {"us": timing.us, "spread": timing.spread, "error": distance, "registers": kernel.n_regs}
            | {"spilled": kernel.n_spills, "shared": kernel.metadata.shared}
        )
    return rows


def measure_ways(case: Case, device: torch.device) -> dict[str, float]:
    """µs a call of the production kernel, by the way in which it was timed."""
    from triton.testing import do_bench

    from pagedkv.attention.triton import decode

    data = make(case, device)
    call = ours("triton")(data)
    decode.launch_decode.compiled.clear()
    decode.ready.cache_clear()
    decode.decode_kernel.device_caches.clear()

    def clock(calls: int, wait: bool) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(calls):
            call(i % data.copies)
        if wait:
            torch.cuda.synchronize()
        taken = (time.perf_counter() - start) * 1e6 / calls
        torch.cuda.synchronize()
        return taken

    def events() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call(0)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3

    return {
        "first call": clock(1, wait=True),
        "host clock, no waiting": median(clock(CALLS, wait=False) for _ in range(5)),
        "host clock, one call": median(clock(1, wait=True) for _ in range(CALLS)),
        "host clock, many calls": median(clock(CALLS, wait=True) for _ in range(5)),
        "events, one call": median(events() for _ in range(CALLS)),
        "do_bench": do_bench(lambda: call(0), return_mode="median") * 1e3,
        "graph, the same tensors": measure(call, 1, device, host=False).us,
        "graph, rotated tensors": measure(call, data.copies, device, host=False).us,
    }


def counters(text: str) -> dict[str, dict[str, float]]:
    """COUNTERS in ncu's raw CSV, of the last launch of each kernel: its name -> counter -> value, in ncu's units."""
    if '"ID"' not in text:
        raise ValueError("a profile must be what ncu --csv --page raw writes, with a column ID")
    names, _, *rows = csv.reader(text[text.index('"ID"') :].splitlines())
    launches = [dict(zip(names, row, strict=True)) for row in rows]
    return {
        launch["Kernel Name"]: {name: float(launch[name].replace(",", "")) for name in COUNTERS if name in launch}
        for launch in launches
    }


def once(case: Case, device: torch.device) -> None:
    data: Data = make(case, device)
    call = ours("triton")(data)
    for i in range(3):
        call(i % data.copies)
    torch.cuda.synchronize()


def _shown(cases: tuple[str, ...], what: str) -> Iterable[str]:
    return tqdm(cases, desc=what, unit="case", disable=None)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.bench.tuning", description=__doc__)
    parser.add_argument("--out", type=writable, metavar="FILE", default="tuning.json", help="the record, as JSON")
    parser.add_argument("--once", choices=GRID, metavar="CASE", help="three calls of that case, nothing measured")
    parser.add_argument(
        "--profile", type=Path, action="append", default=[], metavar="CASE.csv", help="ncu's, to add to FILE"
    )
    chosen = parser.parse_args(arguments)
    if not (torch.cuda.is_available() or chosen.profile):
        parser.error("it measures a GPU, and there is no CUDA device here")
    device = torch.device("cuda")
    if chosen.once:
        return once(GRID[chosen.once], device)
    if chosen.profile:
        try:
            record = json.loads(chosen.out.read_text(encoding="utf-8"))
            record["profiles"] = {path.stem: counters(path.read_text(encoding="utf-8")) for path in chosen.profile}
        except (OSError, ValueError) as error:  # no file, or neither a record nor what ncu writes
            parser.error(str(error))
    else:
        record = {
            "provenance": provenance(device, "python -m pagedkv.bench.tuning --out tuning_h200.json"),
            "ways": {name: measure_ways(GRID[name], device) for name in _shown(CASES, "Ways")},
            "settings": {name: measure_settings(GRID[name], device) for name in _shown(CASES, "Settings")},
        }
    write(chosen.out, record)


if __name__ == "__main__":
    command(main)
