import os

import pytest


def pytest_collection_modifyitems(items):
    try:
        from torch.cuda import is_available
    except ImportError:
        is_available = bool
    if is_available():
        return
    # torch.compile imports Triton: if it did so first, kernels could not be interpreted in the same process any more.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
