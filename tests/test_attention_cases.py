"""The torch backend on the cases that every backend must get right."""

from functools import partial

import pytest
from attention_cases import CASES

from pagedkv.attention.paged import paged_attention, write_kv


@pytest.mark.parametrize("case", CASES)
def test_the_torch_backend(case):
    case(partial(paged_attention, backend="torch"), partial(write_kv, backend="torch"), "cpu")
