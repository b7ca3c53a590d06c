"""A kernel run in Triton's interpreter, in a child process, on a memory that judges addresses before it follows them.

Nothing that a kernel does gets out: a bad address is a `Fault`, an endless loop a `TooLong`, a crash a sentence, and
the caller's tensors stay as they are. What the interpreter forgives and a compiler or a GPU does not is a fault too,
where it can be seen here: a block asked for its truth, programs that read or overwrite one another's results. Lanes
that a load hides and no `other` fills hold NaN, a whole number FAR.

All that rests on names of the interpreter that no documentation promises stands in `_interpreted`;
tests/private_names.py says if one is gone.
"""

import contextlib
import inspect
import io
import itertools
import os
import sys
import traceback
import warnings
from typing import NamedTuple

import numpy as np

from pagedkv.course.judge.child import in_child
from pagedkv.course.judge.compare import Wrong, is_tensor, kind
from pagedkv.course.judge.memory import FAR, Fault, Memory, Room
from pagedkv.course.judge.messages import MANY_ANSWERS, raised


class Ran(NamedTuple):
    """What a launch left: by name, each tensor that it may write, and which of its elements it has written."""

    outputs: dict
    written: dict
    printed: str


def is_kernel(answer) -> bool:
    """Whether this is a function under @triton.jit, interpreted or compiled."""
    return inspect.isfunction(getattr(answer, "fn", None)) and hasattr(answer, "run")


def run(kernel, grid: tuple[int, ...], arguments: dict, outputs=None, far=None) -> Ran:
    """Launch `kernel[grid](**arguments)` under guard; `outputs` names the tensors that it may write, None: all.

    far: {name: elements} for tensors that are the end of larger ones, with so many elements in front of them.

    Raises Fault, with one sentence, for what the kernel does and must not; Wrong where it cannot be launched like this.
    """
    _require(kernel, grid, arguments)
    tensors = {name: moved(value, "cpu") for name, value in arguments.items() if is_tensor(value)}
    rooms = [Room.of(name, tensor, (far or {}).get(name, 0)) for name, tensor in tensors.items()]
    outputs = tuple(tensors) if outputs is None else tuple(outputs)
    numbers = {name: value for name, value in arguments.items() if name not in tensors}
    contents, written, printed = in_child(lambda: _launch(kernel, grid, tensors, numbers, rooms, outputs))
    return Ran(
        {name: _with_content(tensors[name], contents[name]) for name in contents},
        {room.name: room.view(written[room.name]) for room in rooms if room.name in contents},
        printed,
    )


def _require(kernel, grid, arguments: dict) -> None:
    """Raise Wrong where the launch cannot even begin."""
    if not is_kernel(kernel):
        raise Wrong(f"a kernel is expected, a function under @triton.jit, not {kind(kernel)}")
    if not hasattr(os, "fork"):
        raise Wrong("kernels are judged on Linux only")
    names = list(inspect.signature(kernel.fn).parameters)
    if set(names) != set(arguments):
        raise Wrong(f"the kernel's arguments are {', '.join(names)}, and it is given {', '.join(arguments)}")
    sizes = grid if isinstance(grid, tuple) else (grid,)
    if not (isinstance(grid, tuple) and 1 <= len(sizes) <= 3 and all(type(n) is int and n >= 0 for n in sizes)):
        raise Wrong("a grid is a tuple of one to three whole numbers, such as (8,)")
    for name, value in arguments.items():
        if not is_tensor(value) and not isinstance(value, (bool, int, float)):
            raise Wrong(f"`{name}` is {kind(value)}; a kernel takes tensors and Python's own numbers")


def _launch(kernel, grid, tensors, numbers, rooms, outputs) -> tuple[dict, dict, str]:
    """In the child: the whole launch."""
    file = kernel.fn.__code__.co_filename
    memory = Memory(rooms, outputs, file)
    function, handed, builder = _interpreted(kernel, tensors, numbers, memory)
    printed, rest = io.StringIO(), (1,) * (3 - len(grid))
    builder.set_grid_dim(*grid, *rest)
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for memory.serial, memory.program in enumerate(itertools.product(*map(range, grid))):
            builder.set_grid_idx(*memory.program, *(0 for _ in rest))
            try:
                function(**handed)
            except Exception as error:
                raise _fault(error, file) from None
    rooms = [room for room in rooms if room.name in outputs]
    return (
        {room.name: room.content().tobytes() for room in rooms},
        {room.name: room.writer >= 0 for room in rooms},
        printed.getvalue(),
    )


def _interpreted(kernel, tensors: dict, numbers: dict, memory: Memory):
    """The kernel as a Python function, its arguments, and what is told the grid. Triton's modules are changed for
    `memory`; that is gone with the child.
    """
    from triton.runtime import interpreter

    from pagedkv.attention import triton as backend

    if not backend.INTERPRETED:
        os.environ["TRITON_INTERPRET"] = "1"
        backend.interpret_the_library()
        helpers = {name: of for name, of in kernel.fn.__globals__.items() if is_kernel(of)}
        kernel.fn.__globals__.update({name: interpreter.InterpretedFunction(of.fn) for name, of in helpers.items()})
    memory.rest, interpreter._interpreter = interpreter._interpreter, memory
    builder, patch = interpreter.interpreter_builder, interpreter._patch_lang_tensor
    masked_load = builder.create_masked_load

    def load(pointers, mask, other, *options):
        if other is None:
            element = pointers.get_element_ty()
            hidden = np.full(pointers.data.shape, np.nan if element.is_floating() else FAR)
            other = interpreter.TensorHandle(hidden.astype(interpreter._get_np_dtype(element)), element)
        return masked_load(pointers, mask, other, *options)

    def truth(block) -> bool:
        asking = sys._getframe(1).f_code.co_filename
        if asking.endswith("semantic.py"):  # of Triton: whether there is one
            return True
        if block.handle.data.size > 1 and asking == kernel.fn.__code__.co_filename:
            raise Wrong(MANY_ANSWERS)
        return block.handle.data.size > 1 or bool(block.handle.data.item())

    def patch_tensor(tensor, *scope):
        patch(tensor, *scope)
        tensor.__bool__ = truth

    builder.create_masked_load, interpreter._patch_lang_tensor = load, patch_tensor
    function = interpreter.InterpretedFunction(kernel.fn).rewrite()
    interpreter._patch_lang(function)
    constants = {name for name, of in kernel.fn.__annotations__.items() if "constexpr" in str(of)}
    handed = {name: x if name in constants else interpreter._implicit_cvt(x) for name, x in (tensors | numbers).items()}
    for number, room in enumerate(memory.rooms):
        handed[room.name].handle.data = np.array([memory.address(number)], np.uint64)
    return function, handed, builder


def _fault(error: BaseException, file: str) -> Fault:
    """What a kernel raised, as a sentence with its line."""
    line, causes = None, [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    for cause in causes:
        lines = [number for frame, number in traceback.walk_tb(cause.__traceback__) if frame.f_code.co_filename == file]
        line = lines[-1] if lines else line
    error = causes[-1]
    if isinstance(error, Fault):
        return error
    if isinstance(error, Wrong):
        said = f"in line {line} of its cell: {error}"
        return Fault(said, said, ("raises",))
    return Fault(raised(error, line, quote=True), raised(error, line, quote=False), ("raises",))


def moved(tensor, device: str):
    """The tensor on a device, with the same strides; itself where it is there."""
    import torch

    if tensor.device.type == device:
        return tensor
    empty, storage = torch.empty(0, dtype=tensor.dtype, device=device), tensor.untyped_storage()
    storage = storage.cpu() if device == "cpu" else storage.cuda()
    return empty.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _with_content(tensor, content: bytes):
    """A tensor like this one, dense, that holds these bytes from its first element to its last."""
    import torch

    if not content:
        return tensor.clone()
    flat = torch.frombuffer(bytearray(content), dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride()).clone()
