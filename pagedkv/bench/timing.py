"""Time one call without its launch overhead (replays of a CUDA graph) and with it (eager calls on the host's clock).

A call takes the number of a copy; both ways walk over the copies, so that the data of one call is not in the L2 cache
at the next.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle
from statistics import median

import torch

GRAPH_MS = 2.0  # one replay runs about this long: long against its own launch, short against the card's clock changes
REPLAYS = 20  # per run
SETTLING = 5  # replays that are not counted, before the first run
EAGER_CALLS = 40  # in a row: fewer than the driver queues before a launch waits


@dataclass(frozen=True)
class Timing:
    """µs per call: the median of the runs' medians, each run's median, and the host's time for an eager call and for a
    graph replay.
    """

    us: float
    runs_us: list[float]
    host_us: float | None = None
    replay_us: float | None = None

    @property
    def spread(self) -> float:
        """Half the distance between the slowest and the fastest run, as a share of the time."""
        return (max(self.runs_us) - min(self.runs_us)) / 2 / self.us

    def asdict(self) -> dict:
        return asdict(self) | {"spread": self.spread}


def measure(
    call: Callable[[int], object], copies: int, device: torch.device, runs: int = 3, host: bool = True
) -> Timing:
    """Time `call(copy)`. On a GPU by graph replays, on a CPU by the host's clock."""
    return measure_in_turns({"": call}, copies, device, runs, ("",) if host else ())[""]


def measure_in_turns(
    calls: dict[str, Callable[[int], object]], copies: int, device: torch.device, runs: int = 3, host: tuple = ()
) -> dict[str, Timing]:
    """Time each of `calls`, replay by replay in turns: a card's clocks sink under a heavy load and take tenths of a
    second to rise again, at the cost of whoever is timed then. `host`: beginnings of the names whose host time is taken
    as well.
    """
    on_gpu = device.type == "cuda"
    timed = {name: (_on_gpu if on_gpu else _on_cpu)(call, copies) for name, call in calls.items()}
    medians = {name: [] for name in calls}
    for turns in [SETTLING] * on_gpu + [REPLAYS if on_gpu else 3 * copies] * runs:
        taken = [{name: once() for name, once in timed.items()} for _ in range(turns)]
        if on_gpu:
            torch.cuda.synchronize()
        for name in calls:
            medians[name].append(median(turn[name]() for turn in taken))
    return {
        name: Timing(median(of_runs[-runs:]), of_runs[-runs:], *_host(name, calls[name], copies, device, host))
        for name, of_runs in medians.items()
    }


def _host(name: str, call, copies: int, device: torch.device, host: tuple) -> tuple[float | None, float | None]:
    if device.type != "cuda" or not name.startswith(host):
        return None, None
    single = captured(call, 1, once=True)[0]
    return _host_us(lambda i: call(i % copies)), _host_us(lambda _: single.replay())


def _on_gpu(call, copies: int) -> Callable[[], Callable[[], float]]:
    """A function that replays a graph of calls; what it gives says how many µs a call took, once the device is done."""
    graph, calls = captured(call, copies)

    def once():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        return lambda: start.elapsed_time(end) * 1e3 / calls

    return once


def _on_cpu(call, copies: int) -> Callable[[], Callable[[], float]]:
    """The same, of one call on the next copy."""
    call(0)
    copy = cycle(range(copies))

    def once():
        start = time.perf_counter()
        call(next(copy))
        took = (time.perf_counter() - start) * 1e6
        return lambda: took

    return once


def captured(call, copies: int, once: bool = False) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of whole walks over the copies, and how many calls it holds."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # warm up where capture happens: compilation, handles, workspaces
        for copy in range(copies):
            call(copy)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for copy in range(copies):
            call(copy)
        end.record()
    stream.synchronize()
    walks = 1 if once else max(1, min(int(GRAPH_MS / max(start.elapsed_time(end), 1e-3)), 2000 // copies))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(walks):
            for copy in range(copies):
                call(copy)
    graph.replay()
    torch.cuda.synchronize()
    return graph, walks * copies


def _host_us(call, batches: int = 7) -> float:
    """µs that the host spends in one call: the median over batches of back-to-back calls, each batch started on an idle
    device.
    """
    times = []
    for _ in range(batches + 1):  # the first warms up
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(EAGER_CALLS):
            call(i)
        times.append((time.perf_counter() - start) * 1e6 / EAGER_CALLS)
    torch.cuda.synchronize()
    return median(times[1:])
