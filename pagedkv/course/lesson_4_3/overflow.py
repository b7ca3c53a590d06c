"""What becomes of a real kernel whose offset does not fit: tried in a process of its own, where there is memory for it."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec

NEEDED = 6 * 2**30  # bytes free before it is tried: the pool has 4 GiB


def read_far(bits: int) -> str:
    """Run `far_kernel` with offsets of `bits` bits in a child process; a sentence that says what came out, or why it was not tried."""
    if find_spec("triton") is None or find_spec("torch") is None:
        return "skipped: Triton is not installed"
    if _free_bytes() < NEEDED:
        return f"skipped: it needs {NEEDED // 2**30} GiB of free memory"
    command = [sys.executable, "-m", "pagedkv.course.lesson_4_3.far_kernel", str(bits)]
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
