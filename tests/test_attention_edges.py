"""Calls in which there is little or nothing to attend to."""

import math

import pytest
import torch

from pagedkv.attention.paged import paged_attention


@pytest.mark.parametrize("query_start_loc", [None, [0, 1, 2], [0, 0, 3]], ids=["decode", "one query each", "three queries"])
def test_a_batch_in_which_every_sequence_is_empty_gives_zeros(query_start_loc):
    num_tokens = 2 if query_start_loc is None else query_start_loc[-1]
    cache = torch.full((1, 4, 1, 16), math.nan)
    out, lse = paged_attention(
        torch.ones(num_tokens, 2, 16),
        cache,
        cache,
        torch.full((2, 1), -1, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int32),
        query_start_loc=None if query_start_loc is None else torch.tensor(query_start_loc, dtype=torch.int32),
        return_lse=True,
        backend="torch",
    )
    assert out.shape == (num_tokens, 2, 16) and (out == 0).all()
    assert (lse == -math.inf).all()
