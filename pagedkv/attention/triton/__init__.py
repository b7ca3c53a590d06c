"""Triton kernels for a paged cache.

Without a CUDA device they run in Triton's interpreter, chosen here, before any kernel is decorated.
"""

import os
import sys

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton  # noqa: E402
from triton.runtime import JITFunction  # noqa: E402


@triton.jit
def _probe():
    pass


INTERPRETED = not isinstance(_probe, JITFunction)  # Triton's own answer, for all kernels decorated from here on


def interpret_the_library():
    """Decorate Triton's own functions, such as tl.zeros, once more: where it was imported before the interpreter was
    chosen, as PyTorch's compiler does, they are for compiled kernels only.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("triton.language")]
    for owner in (*modules, triton.language.tensor):
        for name, member in list(vars(owner).items()):
            if isinstance(member, JITFunction):
                setattr(owner, name, triton.jit(member.fn))


if INTERPRETED:
    interpret_the_library()
