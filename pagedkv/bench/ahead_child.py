"""The child process of `ahead`: `python -m pagedkv.bench.ahead_child CASE CAPABILITY LAUNCHES` prints as JSON what the
kernel of each launch became. It needs TRITON_INTERPRET=0, set before Triton is imported.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch
import triton
import triton.backends.nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from pagedkv.attention.options import Options
from pagedkv.attention.triton import decode, ladder
from pagedkv.bench.ahead import Compiled
from pagedkv.bench.cases import Case, named
from pagedkv.bench.data import DTYPES
from pagedkv.bench.tuning import with_settings
from pagedkv.sizing import ceil_div

CUOBJDUMP = Path(triton.backends.nvidia.__file__).parent / "bin" / "cuobjdump"


class StandIn:
    """In the place of Triton's driver: it knows what to compile for, and can launch nothing."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device) -> int:
        return 0


def compiled(case: Case, settings: dict, capability: int) -> Compiled:
    """The first kernel that the launch with these settings would run; tensors are on torch's meta device: no memory."""
    found, run = [], JITFunction.run

    def compile_only(kernel, *arguments, grid, warmup, **options):
        result = run(kernel, *arguments, grid=grid, warmup=True, **options)
        found.append((kernel.__name__, result))
        return result

    for launcher in (decode.launch_decode, decode.launch_merge):
        launcher.compiled.clear()  # what it remembers does not know of these settings
    with (
        mock.patch.object(JITFunction, "run", compile_only),
        mock.patch.object(decode, "dependent_launch", lambda device: capability >= 90),
        with_settings(settings),
    ):
        _launch(case, settings.get("rung"))
    return _read(*found[0])


def _launch(case: Case, rung: int | None) -> None:
    with torch.device("meta"):
        blocks = ceil_div(max(case.lengths), case.block_size)
        dtype = DTYPES[case.cache]
        query = torch.bfloat16 if case.cache == "fp8" else dtype
        q = torch.empty(len(case.lengths), case.q_heads, case.head_dim, dtype=query)
        shape = (len(case.lengths) * blocks, case.block_size, case.kv_heads, case.head_dim)
        k_cache, v_cache = torch.empty(2, *shape, dtype=dtype)
        tables = torch.empty(len(case.lengths), blocks, dtype=torch.int32)
        lengths = torch.empty(len(case.lengths), dtype=torch.int32)
        if rung is not None:
            (ladder.rung0, ladder.rung1, ladder.rung2)[rung](q, k_cache, v_cache, tables, lengths)
        else:
            options = Options().resolved(max(case.lengths), case.head_dim)
            decode.decode(q, k_cache, v_cache, tables, lengths, options, torch.empty_like(q), None)


def _read(name: str, kernel) -> Compiled:
    """Registers and stack stand in the binary; the rest is in the compiler's own notes and its assembly."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        used = subprocess.run(
            [CUOBJDUMP, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    registers, stack = (int(re.search(rf"\b{what}:(\d+)", used)[1]) for what in ("REG", "STACK"))
    ptx = kernel.asm["ptx"]
    products, copies = (len(re.findall(pattern, ptx)) for pattern in (r"\b(?:wg)?mma\w*\.", r"cp\.async\.c[ag]"))
    return Compiled(name, registers, stack, kernel.metadata.shared, kernel.metadata.num_warps, products, copies)


if __name__ == "__main__":
    target = int(sys.argv[2])
    driver.set_active(StandIn(target))
    print(json.dumps([compiled(named(sys.argv[1]), settings, target) for settings in json.loads(sys.argv[3])]))
