"""What becomes of a kernel whose offset does not fit 32 bits: `read_far` tries it in a process of its own, where there
is memory.

Run as a command, with 32 or 64 for the bits of the offset, this file is that process: it prints what the kernel reads
where block 2 of the pool starts, 3.0 if it gets there. The narrow one may crash.
"""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec

NEEDED = 6 * 2**30  # bytes free before it is tried: the pool has 4 GiB


def read_far(bits: int) -> str:
    """Run `far_kernel` with offsets of `bits` bits in a child process; a sentence that says what came out, or why it
    was not tried.
    """
    if find_spec("triton") is None or find_spec("torch") is None:
        return "skipped: Triton is not installed"
    if _free_bytes() < NEEDED:
        return f"skipped: it needs {NEEDED // 2**30} GiB of free memory"
    command = [sys.executable, "-m", "pagedkv.course.lesson_4_5.far_kernel", str(bits)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if child.returncode == -signal.SIGSEGV or "illegal memory access" in child.stderr:
        return "the process dies: the address is not its own"
    if child.returncode:
        last_line = (child.stderr.strip() or "no message").split("\n")[-1]
        return f"the process ends with {child.returncode}, but not for its address: {last_line}"
    return f"it reads {child.stdout.strip()}, which is {'right' if float(child.stdout) == 3.0 else 'wrong'}"


def _free_bytes() -> int:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    import pagedkv.attention.triton  # noqa: F401  # isort: skip: it chooses the interpreter, before Triton is imported
    import torch
    import triton
    import triton.language as tl

    STRIDE = 2**30  # elements between two blocks: block 2 starts at element 2³¹

    @triton.jit
    def read(pool, table, out, stride, WIDE: tl.constexpr):
        block = tl.load(table)  # an int32, as every block table holds
        if WIDE:
            block = block.to(tl.int64)
        tl.store(out, tl.load(pool + block * stride).to(tl.float32))

    device = "cuda" if torch.cuda.is_available() else "cpu"
    pool = torch.empty(
        2 * STRIDE + 64, dtype=torch.float16, device=device
    )  # on a CPU only the pages that are touched become real
    pool[2 * STRIDE] = 3.0
    out = torch.zeros(1, device=device)
    read[(1,)](pool, torch.tensor([2], dtype=torch.int32, device=device), out, STRIDE, WIDE=sys.argv[1] == "64")
    print(out.item())
