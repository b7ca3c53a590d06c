"""Kernels that a learner writes: `kernel_parts` judges one, `try_kernel` lets it run in a notebook.

Both run it under guard (`guarded`), so that a forgotten mask is a sentence and never a dead notebook. A check goes on
where that ends: the numbers, on cases whose unused memory is poisoned; then the compiler for a Hopper GPU, which
refuses what the interpreter forgives; and the GPU itself, where there is one.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import SimpleNamespace
from typing import NamedTuple

from pagedkv.course.judge import guarded, limit
from pagedkv.course.judge.calling import NotAttempted
from pagedkv.course.judge.compare import Wrong, alike, is_tensor
from pagedkv.course.judge.compiled import compile_ahead
from pagedkv.course.judge.exercise import Part, hidden
from pagedkv.course.judge.memory import Fault
from pagedkv.course.judge.messages import unparenthesised
from pagedkv.course.judge.stub import has_gap

WRAPPED = "a number of 32 bits has wrapped beyond 2³¹; make the block id int64, `.to(tl.int64)`, before it multiplies"


class Case(NamedTuple):
    """Arguments of one launch, and in words what is special about it and about each row of its outputs.

    far: {cache: elements in front of it}, where a cache is the far end of a larger one; `ids` are then the arguments
    that name its blocks as that one counts them.
    """

    arguments: dict
    words: str = ""
    rows: tuple[str, ...] = ()
    far: dict = {}
    ids: dict = {}


@dataclass(frozen=True)
class Task:
    """What a kernel has to do.

    grid: arguments -> the grid of the launch. right: arguments -> {name: tensor} of all that it may write, afterwards.
    mistakes: (wrong, sentence), the sentence said when in every case the kernel leaves what `wrong` would. hints: what
    to add to a fault, by its key, such as ("writes", "cache", "before"); ("nan", name) for NaN in an output.
    """

    grid: Callable[[dict], tuple[int, ...]]
    right: Callable[[dict], dict]
    mistakes: tuple[tuple[Callable[[dict], dict], str], ...] = ()
    hints: dict[tuple[str, ...], str] = field(default_factory=dict)
    rtol: float = 1e-4


def try_kernel(kernel, grid: tuple[int, ...], **arguments) -> bool:
    """Launch `kernel[grid](**arguments)` under guard, in Triton's interpreter; its tensors then hold what it wrote.

    Where it does something wrong that is printed in one sentence, the tensors stay as they are, and False is returned.
    """
    if find_spec("triton") is None:
        print("not run: Triton (Linux) is not installed here")
        return False
    try:
        ran = guarded.run(kernel, grid, arguments)
    except Wrong as wrong:
        wrong = guarded.is_kernel(kernel) and unparenthesised(kernel) or wrong
        print(f"{wrong}{'' if str(wrong).endswith('?') else '.'}")
        return False
    except limit.TooLong:
        print(
            f"your kernel has not returned after {limit.SECONDS} seconds; is there an endless loop? Or the machine is "
            "busy: run the cell again."
        )
        return False
    print(ran.printed, end="")
    for name, tensor in ran.outputs.items():
        if ran.written[name].any():
            arguments[name].copy_(tensor)
    return True


def at_the_far_end(arguments: dict, caches: tuple[str, ...], ids: str, per_block: int, words: str) -> Case:
    """The case of these arguments with their caches at the far end of larger ones, and so with block ids in the tensor
    `ids` whose offsets, of `per_block` elements a block, need 64 bits.
    """
    import torch

    front = 3 * 2**31 // per_block  # blocks: what wraps and what does not come out far from one another
    table = arguments[ids]
    far = torch.where(table < 0, table, table + front)
    return Case(arguments, words, far=dict.fromkeys(caches, front * per_block), ids={ids: far})


def stand_in() -> tuple[SimpleNamespace, SimpleNamespace]:
    """What stands for `triton` and `tl` where Triton is not installed: kernels can be written, none can be run."""
    return SimpleNamespace(jit=lambda function: function), SimpleNamespace(constexpr=int)


def kernel_parts(title: str, task: Task, shown: Callable[[], Case], drawn: Callable[[random.Random], list[Case]]):
    """The three parts of an exercise whose answer is a kernel; the exercise is to be `in_order`.

    shown: makes the case of the text, of which numbers are quoted. drawn: makes hidden cases from a seed.
    """

    def on_shown(kernel):
        _judge(task, kernel, [shown()], quote=True)

    def on_drawn(kernel):
        _judge(task, kernel, drawn(hidden(title)), quote=False)

    def on_gpu(kernel):
        cases = [shown(), *drawn(hidden(title))]
        compile_ahead(kernel, cases[0].arguments)
        _launch_on_gpu(task, kernel, cases)

    return (
        Part("the case of the text", on_shown),
        Part(f"{title}: drawn sizes, unused memory poisoned", on_drawn),
        Part("compiled for a Hopper GPU", on_gpu),
    )


def _judge(task: Task, kernel, cases: list[Case], quote: bool) -> None:
    """Raise Wrong unless the kernel does what it has to in all cases, NotAttempted where a line `...` is left in it."""
    if has_gap(kernel):
        raise NotAttempted
    try:
        _judge_cases(task, kernel, cases, quote)
    except Wrong as wrong:
        if not guarded.is_kernel(kernel) or not (said := unparenthesised(kernel)):
            raise
        raise Wrong(said) from wrong


def _judge_cases(task: Task, kernel, cases: list[Case], quote: bool) -> None:
    results = [(case, _guarded(task, kernel, case, quote)) for case in cases]
    problems = [_difference(task, case, ran, quote) for case, ran in results]
    if not any(problems):
        return
    for wrong, sentence in task.mistakes:
        if all(_leaves(wrong, case, ran, task.rtol) for case, ran in results):
            raise Wrong(sentence)
    raise Wrong(next(filter(None, problems)))


def _guarded(task: Task, kernel, case: Case, quote: bool):
    try:
        given = case.arguments | case.ids
        return guarded.run(kernel, task.grid(given), given, task.right(case.arguments), case.far)
    except Fault as fault:
        said = str(fault) if quote else fault.plain + (case.words and f", with {case.words}")
        hint = WRAPPED if fault.key[-1] == "wrapped" else task.hints.get(fault.key)
        raise Wrong(f"{said}: {hint}" if hint else said) from None


def _leaves(wrong: Callable[[dict], dict], case: Case, ran, rtol: float) -> bool:
    """Whether what the kernel left is what `wrong` leaves, NaN in the same places."""
    expected = wrong(case.arguments)
    return all(alike(_nan_as_inf(tensor), _nan_as_inf(ran.outputs[name]), rtol) for name, tensor in expected.items())


def _nan_as_inf(tensor):
    return tensor.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)


def _difference(task: Task, case: Case, ran, quote: bool) -> str | None:
    """What is wrong with what a kernel left, or None."""
    for name, right in task.right(case.arguments).items():
        got, before, written = ran.outputs[name], case.arguments[name], _tensor(ran.written[name])
        room = task.rtol * right.abs().max().item() if right.numel() else 0.0
        wrong = ~((got - right).abs() <= room)
        if not wrong.any():
            continue
        missing, spoilt = wrong & ~written, wrong & written & (right == before)
        where = next(kind for kind in (missing, spoilt, wrong & ~got.isfinite(), wrong) if kind.any())
        row = _row(name, where, case, quote)
        if where is missing:
            return f"{row} is not written" + _hint(task, "missing", name)
        if where is spoilt:
            return f"{row} is overwritten, and it was to stay as it was" + _hint(task, "spoilt", name)
        if not got[where].isfinite().any():
            return f"{row} has NaN or infinity" + _hint(task, "nan", name)
        return f"{row} is not right" + _hint(task, "wrong", name)
    return None


def _hint(task: Task, *key: str) -> str:
    return f": {task.hints[key]}" if key in task.hints else ""


def _row(name: str, where, case: Case, quote: bool) -> str:
    """Where the first of these elements is, in words."""
    index = where.nonzero()[0].tolist()
    if case.rows:
        return f"`{name}` for {case.rows[index[0]]}"
    if quote:
        kept = index[:-1] or index
        what = "element" if len(index) == 1 else "row"
        return f"{what} {kept[0] if len(kept) == 1 else tuple(kept)} of `{name}`"
    return f"with {case.words}, part of `{name}`" if case.words else f"part of `{name}`"


def _tensor(array):
    import torch

    return torch.from_numpy(array.copy())


def _launch_on_gpu(task: Task, kernel, cases: list[Case]) -> None:
    """Where there is a GPU and the kernel is compiled for it: the same cases there."""
    import torch

    if not torch.cuda.is_available() or type(kernel).__name__ != "JITFunction":
        return
    for case in cases:
        if case.far:
            continue
        arguments = {name: guarded.moved(x, "cuda") if is_tensor(x) else x for name, x in case.arguments.items()}
        grid = task.grid(case.arguments)
        if all(grid):
            kernel[grid](**arguments)
        for name, right in task.right(case.arguments).items():
            if not alike(right, arguments[name].cpu(), task.rtol):
                raise Wrong(f"it is right in the interpreter, and on this GPU `{name}` comes out wrong")
