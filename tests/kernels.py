"""Kernels of tests, from text: as cells of a notebook, since Triton reads a kernel's source."""

import pytest
from cells import run_cell


def kernel(source: str, **names):
    """The last kernel that a cell with this source defines; @triton.jit stands above the first by itself."""
    pytest.importorskip("triton")
    import torch

    import pagedkv.attention.triton  # noqa: F401  # isort: skip: it chooses the interpreter, before Triton is imported
    import triton
    from triton import language as tl

    from pagedkv.course.judge.guarded import is_kernel

    namespace = {"torch": torch, "triton": triton, "tl": tl, **names}
    run_cell("@triton.jit\n" + source.strip("\n"), namespace)
    return [of for of in namespace.values() if is_kernel(of)][-1]


def changed(source: str, *changes: tuple[str, str]) -> str:
    """The source with some of its pieces replaced; each must be there."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source
