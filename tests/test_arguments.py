"""Argument checks: what counts as a whole number, and what the error says."""

import re

import numpy as np
import pytest

from pagedkv.arguments import one_of, whole_number


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_any_kind_come_back_as_python_ints(value):
    number = whole_number("n", value)
    assert number == 3 and type(number) is int


@pytest.mark.parametrize("value", [True, np.True_, np.array(True), 3.0, np.float32(3), "3", None, [3], np.array([1, 2]), int])
def test_everything_else_is_a_type_error_that_names_the_argument(value):
    with pytest.raises(TypeError, match=re.escape(f"block_size must be a whole number of at least 1, not {value!r}")):
        whole_number("block_size", value, 1)


def test_the_range_includes_both_ends():
    assert [whole_number("n", n, 1, 3) for n in (1, 3)] == [1, 3]
    for outside in (0, 4):
        with pytest.raises(ValueError, match=f"n must be a whole number of at least 1 and at most 3, not {outside}"):
            whole_number("n", outside, 1, 3)


@pytest.mark.parametrize("value", ["best", None, 1, ["first"]])
def test_one_of_lists_what_is_allowed(value):
    assert one_of("fit", "first", ("first", "next")) == "first"
    with pytest.raises(ValueError, match=re.escape(f"fit must be one of 'first', 'next', not {value!r}")):
        one_of("fit", value, ("first", "next"))
