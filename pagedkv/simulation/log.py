"""The log of a simulated run: which request held memory from which point to which, and what else happened when.

A point is one step, or a whole idle gap.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from pagedkv.simulation.arena import Extent
from pagedkv.simulation.workload import Request


@dataclass(slots=True)
class Stay:
    """A request that holds memory from point `start` to before `stop`, in contiguous memory one extent all that time.
    It stores `tokens` tokens at `start` and one more at each following point."""

    request: Request
    start: int
    stop: int
    tokens: int
    extent: Extent | None


class Layout(NamedTuple):
    """The holes of contiguous memory from an event on, and the request at the head of the queue, if one waits."""

    point: int
    holes: list[Extent]
    head: Request | None


@dataclass
class Log:
    """The events of a run, each with its point."""

    stays: list[Stay] = field(default_factory=list)  # in the order of admission
    gaps: list[tuple[int, int]] = field(default_factory=list)  # (point, steps that it lasts)
    arrival_steps: list[int] = field(default_factory=list)
    left_queue: list[int] = field(default_factory=list)  # one for each admission, and for each refusal after waiting
    preempted: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)  # (point, tokens)
    usable: int = 0  # slots that are free before the first request comes
    layouts: list[Layout] = field(default_factory=list)  # in contiguous memory
    wanted: dict[Request, int] = field(default_factory=dict)  # slots that each asks for in contiguous memory
    refused: dict[int, str] = field(default_factory=dict)
    finished: dict[int, int] = field(default_factory=dict)
