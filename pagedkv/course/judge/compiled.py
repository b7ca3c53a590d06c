"""A kernel compiled ahead for a GPU that need not be there: what the interpreter forgives and a compiler refuses.

Triton has all the tools in its wheel, but they want it imported for compiling, and without a driver: so each
compilation is a process of its own. `python -m pagedkv.course.judge.compiled` is that process: it reads a kernel as
text and the kinds of its arguments from its standard input, as JSON, and prints what became of it.
"""

import inspect
import json
import linecache
import os
import subprocess
import sys
import textwrap
from functools import lru_cache
from typing import NamedTuple

from pagedkv.course.judge.compare import is_tensor
from pagedkv.course.judge.memory import Fault
from pagedkv.course.judge.messages import in_words, refused

HOPPER = 90  # compute capability 9.0: H100, H200
PATIENCE = 60  # seconds; a check's own limit is for what the learner's code does, and a compiler does not run it


class Compiled(NamedTuple):
    """What a compilation gave: bytes of shared memory for each program, and the code as PTX."""

    shared: int
    ptx: str


def compile_ahead(kernel, arguments: dict, capability: int = HOPPER, **options) -> Compiled | None:
    """Compile `kernel` for a launch with `arguments`; options are those of a launch, such as num_warps.

    Raises Fault, with one sentence, where the compiler refuses the kernel; None where it could not be asked.
    """
    try:
        request = json.dumps(_request(kernel, arguments, capability, options))
    except OSError:
        raise Fault(*["its source cannot be read: write the kernel in a cell of its own"] * 2, ("source",)) from None
    answer = _asked(request)
    if answer is None:
        return None
    if "error" not in answer:
        return Compiled(**answer)
    if not answer["in_kernel"] and not in_words(answer["error"]):
        return None  # a tool that is missing, a folder that cannot be written: nothing about the kernel
    fn = _functions(kernel).get(answer["function"], kernel.fn)
    said = refused(answer["error"], answer["line"] and answer["line"] + _line_of_def(fn) - 1)
    raise Fault(said, said, ("compiles",))


@lru_cache(16)
def _asked(request: str) -> dict | None:
    """What the process of its own answers, None where it does not."""
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, "-m", "pagedkv.course.judge.compiled"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as child:
        try:
            said, _ = child.communicate(request, PATIENCE)
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()
    try:
        return json.loads(said)
    except ValueError:
        return None


def _request(kernel, arguments: dict, capability: int, options: dict) -> dict:
    constants = {name for name, of in kernel.fn.__annotations__.items() if "constexpr" in str(of)}
    kinds = {
        name: ["tensor", str(value.dtype).removeprefix("torch.")]
        if is_tensor(value)
        else ["constant" if name in constants else "number", value]
        for name, value in arguments.items()
    }
    functions = {name: textwrap.dedent(inspect.getsource(fn)) for name, fn in _functions(kernel).items()}
    return {
        "functions": functions,
        "globals": _plain_globals(kernel),
        "modules": _modules(kernel),
        "arguments": kinds,
        "capability": capability,
        "options": options,
    }


def _functions(kernel) -> dict:
    """The kernel's function and those of the @triton.jit functions that it calls, by name; itself last."""
    found, waiting = {}, [kernel.fn]
    while waiting:
        fn = waiting.pop()
        if fn.__name__ not in found:
            found[fn.__name__] = fn
            named = [fn.__globals__.get(name) for name in fn.__code__.co_names]
            waiting += [of.fn for of in named if inspect.isfunction(getattr(of, "fn", None)) and _is_learners(of.fn)]
    return dict(reversed(found.items()))


def _is_learners(fn) -> bool:
    return not str(fn.__module__).startswith("triton")


def _plain_globals(kernel) -> dict:
    """Numbers and strings that the functions name: (whether it is a tl.constexpr, the value). Others are refused."""
    found = {}
    for fn in _functions(kernel).values():
        for name in fn.__code__.co_names:
            value = fn.__globals__.get(name)
            constant = type(value).__name__ == "constexpr"
            value = value.value if constant else value
            if isinstance(value, (bool, int, float, str)):
                found[name] = [constant, value]
    return found


def _modules(kernel) -> dict:
    """The names under which the functions know Triton's modules."""
    known = {name: of for fn in _functions(kernel).values() for name, of in fn.__globals__.items()}
    return {name: of.__name__ for name, of in known.items() if inspect.ismodule(of) and "triton" in of.__name__}


def _line_of_def(fn) -> int:
    """Where in its file `def` stands, below the decorators."""
    lines, first = inspect.getsourcelines(fn)
    return first + next(i for i, line in enumerate(lines) if line.lstrip().startswith("def "))


# In the process of its own


class _NoDevice:
    """Knows what to compile for, and can launch nothing."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


class _Pointer:
    """Stands for a tensor, aligned as a tensor is."""

    def __init__(self, dtype: str):
        self.dtype = dtype

    def data_ptr(self):
        return 0

    def ptr_range(self):
        return 0


def _compile(functions, globals, modules, arguments, capability, options) -> dict:
    import importlib

    from triton import language as tl
    from triton.runtime import driver

    driver.set_active(_NoDevice(capability))
    names = {"__name__": "kernels"} | {name: importlib.import_module(module) for name, module in modules.items()}
    names |= {name: tl.constexpr(value) if constant else value for name, (constant, value) in globals.items()}
    for name, source in functions.items():
        file = f"<{name}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), names)
        kernel = names[name]
    handed = {name: _Pointer(value) if of == "tensor" else value for name, (of, value) in arguments.items()}
    compiled = kernel.warmup(**handed, grid=(1,), **options)
    return {"shared": compiled.metadata.shared, "ptx": compiled.asm["ptx"]}


def _error(error: Exception) -> dict:
    """What the innermost error says, the innermost known line, counted from `def`, of which function, and whether it is
    about the kernel at all.
    """
    line, function, in_kernel = None, "", False
    while True:
        in_kernel |= type(error).__name__ in ("CompilationError", "UnsupportedLanguageConstruct")
        if getattr(error, "node", None) is not None:
            line, function = error.node.lineno, (error.src or "").partition("def ")[2].partition("(")[0].strip()
        if error.__cause__ is None:
            message = getattr(error, "error_message", None) or str(error)
            return {"error": message, "line": line, "function": function, "in_kernel": in_kernel}
        error = error.__cause__


def main() -> None:
    try:
        answer = _compile(**json.load(sys.stdin))
    except Exception as error:
        answer = _error(error)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
