"""Triton kernels for a paged cache.

Without a CUDA device they run in Triton's interpreter, chosen here, before any kernel is decorated.
"""

import os
import sys

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
_library = getattr(
    sys.modules.get("triton.language"), "zeros", None
)  # where it was imported before: how are its own functions decorated?
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1" and type(_library).__name__ != "JITFunction"
