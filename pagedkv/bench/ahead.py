"""What a kernel becomes on a GPU that is not here: registers, spills and shared memory, from the compiler.

Triton's compiler needs no GPU, but where there is none the course runs Triton's interpreter, and both do not fit into
one process. So `compile_ahead` starts a child without the interpreter, in which a stand-in for the driver names the
target and every launch stops once its kernel is compiled. Tensors there have shapes and no memory. Nothing runs: no
time comes out of this.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

SECONDS = 300  # at most, for all launches of a call


class Compiled(NamedTuple):
    """One kernel, compiled. Registers and bytes on the stack (numbers that found no register) are those of a thread."""

    kernel: str
    registers: int
    stack: int  # bytes
    shared: int  # bytes of shared memory, of a program
    warps: int
    products: int  # matrix instructions in the code
    copies: int  # instructions that load into shared memory in the background


def compile_ahead(case: str, launches: Sequence[Mapping], capability: int = 90) -> list[Compiled]:
    """Compile what the package launches for a decode case of `cases`, once for each of `launches`, in order.

    A launch is {"rung": 0, 1 or 2}, or settings that replace the production kernel's own: "tile", "num_stages",
    "num_warps", "split_tokens"; {} leaves them. `capability` 90 is Hopper.
    Raises RuntimeError with a sentence where Triton is missing or the compiler refuses.
    """
    if find_spec("triton") is None or find_spec("torch") is None:
        raise RuntimeError("compiling ahead needs Triton, which exists for Linux only")
    found = in_child(["pagedkv.bench.ahead_child", case, str(capability), json.dumps([*map(dict, launches)])])
    return [Compiled(*kernel) for kernel in json.loads(found)]


def in_child(arguments: list[str], seconds: float = SECONDS) -> str:
    """What `python -m ARGUMENTS` prints, run with Triton's compiler in place of its interpreter. Raises RuntimeError
    with the last line that it leaves, where it fails.
    """
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1", "OMP_NUM_THREADS": "1"}
    try:
        child = subprocess.run(
            [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"compiling ahead took more than {seconds:.0f} s") from None
    if child.returncode:
        last = (child.stderr.strip() or "no message").split("\n")[-1]
        raise RuntimeError(f"compiling ahead ended with {child.returncode}: {last}")
    return child.stdout
