"""Triton kernels for a paged cache. Without a CUDA device they run in Triton's interpreter, chosen here, before any kernel is decorated."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
