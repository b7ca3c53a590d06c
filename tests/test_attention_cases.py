"""The torch backend on the cases that every backend must get right."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from attention_cases import CASES  # noqa: E402

from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_torch_backend(case, device):
    case(partial(paged_attention, backend="torch"), partial(write_kv, backend="torch"), device)
