import pytest


def pytest_collection_modifyitems(items):
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_tests:
        return
    try:
        from torch.cuda import is_available
    except ImportError:
        is_available = bool
    if not is_available():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
