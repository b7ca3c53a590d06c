"""What this machine has, and whether Triton computes what it should: the first thing that the first notebook runs.

Everything works without PyTorch and without Triton, and then says what will be missing.
"""

import os
import platform
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

NO_TRITON = (
    "Triton is not installed (it exists for Linux only): the kernels of lesson 4.3 cannot be run, lesson 4.4 shows "
    "recorded measurements, all else runs on PyTorch."
)
NO_TORCH = (
    "PyTorch is not installed: lessons 1 to 3.1 and 3.3 run, the others need it (pip install -r requirements.txt)."
)


def report() -> None:
    """Print the versions in use, the device, and what `backend="auto"` will choose."""
    torch = _torch()
    cuda = torch is not None and torch.cuda.is_available()
    device = f"GPU: {torch.cuda.get_device_name()}" if cuda else "CPU: everything runs; nothing here needs a GPU"
    backend = "none, without PyTorch" if torch is None else "triton" if cuda and _version("triton") else "torch"
    tested = (3, 11) <= sys.version_info < (3, 15)
    rows = {
        "Python": platform.python_version() + ("" if tested else " (the course is made for 3.11 to 3.14)"),
        "NumPy": _version("numpy"),
        "PyTorch": getattr(torch, "__version__", None) or NO_TORCH,
        "Triton": _version("triton") or NO_TRITON,
        "device": device,
        "backend": backend,
    }
    for name, value in rows.items():
        print(f"{name:<8} {value}")


def self_test() -> bool:
    """Run `tiny_kernel` in Triton's interpreter and, where there is one, on the GPU; print a verdict for each. True if
    none is wrong.

    Each runs in a process of its own, since a kernel is interpreted or compiled for good once it has been imported.
    """
    torch = _torch()
    if torch is None or _version("triton") is None:
        print(NO_TORCH if torch is None else NO_TRITON)
        return True
    verdicts = [_runs("Triton's interpreter", "cpu", {"TRITON_INTERPRET": "1"})]
    if torch.cuda.is_available():
        verdicts.append(_runs("Triton on the GPU", "cuda", {"TRITON_INTERPRET": "0"}))
    return all(verdicts)


def _runs(what: str, device: str, variables: dict[str, str]) -> bool:
    command = [sys.executable, "-m", "pagedkv.course.lesson_1.tiny_kernel", device]
    try:
        right = subprocess.run(command, env=os.environ | variables, capture_output=True, timeout=300).returncode == 0
    except subprocess.TimeoutExpired:
        right = False
    print(f"{what}: {'the tiny kernel gives the right answer, 38/3' if right else _advice(device)}")
    return right


def _advice(device: str) -> str:
    """What to do where the answer is wrong; the one pair of versions that is known not to fit is named."""
    triton, numpy = _version("triton"), _version("numpy")
    if device == "cpu" and triton.startswith("3.6.") and not numpy.startswith(("2.0.", "2.1.", "2.2.", "2.3.")):
        return f"triton {triton} cannot interpret kernels with numpy {numpy}: install triton 3.7, or numpy below 2.4"
    return f"wrong, with triton {triton} and numpy {numpy}; do not trust lesson 4.4 here, use requirements.txt"


def _torch():
    """The module, or None where it is missing or cannot be loaded."""
    try:
        return import_module("torch")
    except (ImportError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
