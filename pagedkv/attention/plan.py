"""The plan of a decode step: what `paged.plan_attention` found from the lengths, once for all layers.

A call without one knows an upper bound of the lengths only, and cuts all sequences alike. A plan knows each, on the GPU
where they lie: few long sequences among many short ones fill it as evenly as equal ones do.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from pagedkv.attention.options import Options

SHAPE = "num_seqs", "num_q_heads", "num_kv_heads", "head_dim", "dtype", "device"


def shape_of(num_seqs, num_q_heads, cache_shape, dtype, device) -> tuple:
    """What a plan and the calls that use it have in common: a value for each of SHAPE. cache_shape: K's."""
    return num_seqs, num_q_heads, *cache_shape[2:], dtype, device


def about_equal(lengths: Sequence[int]) -> bool:
    """Whether a grid of equal splits does for sequences of these lengths: their mean is 0.9 of the longest, or more."""
    return 9 * max(lengths) * len(lengths) <= 10 * sum(lengths)


class AttentionPlan(NamedTuple):
    """Made by `paged.plan_attention`, handed to `paged.paged_attention`."""

    shape: tuple
    """As `shape_of` has it."""
    max_seq_len: int | None
    """Tokens: the bound of the lengths, None where there is none."""
    window: int | None
    """Tokens that a query sees, None for all."""
    launch: tuple | None = None
    """Settings of the Triton kernel; None for the torch backend, which has no use for a plan."""
    items: torch.Tensor | None = None
    """int32 [num_items, 4], a program's work in a row: the sequence; which of its parts, -1 where it is the only one;
    the first token; the one after the last. None where equal splits of all sequences do.
    """
    first_items: torch.Tensor | None = None
    """int32 [num_seqs + 1]: where each sequence's rows begin."""

    def bound(self, form, options):
        """The options of a call of that form, with the plan's bound where it gives none.

        Raises ValueError that names what the plan was not made for.
        """
        shape = shape_of(form.lens_shape[0], form.q_shape[1], form.cache_shape, form.cache_dtype, form.device)
        if shape != self.shape:
            other = zip(SHAPE, self.shape, shape, strict=True)
            what, made, given = next((what, made, given) for what, made, given in other if made != given)
            raise ValueError(f"plan must be for a call with {what} {given}, not {made}")
        if self.window != options.window:
            raise ValueError(f"plan must be for a call with window {options.window}, not {self.window}")
        longest = options.max_seq_len
        if self.max_seq_len is None or (longest is not None and longest <= self.max_seq_len):
            return options
        if longest is not None:
            raise ValueError(f"max_seq_len must be at most the plan's, {self.max_seq_len}, not {longest}")
        return Options(self.max_seq_len, *options[1:])

    def check_lengths(self, seq_lens):
        """Compare with the lengths that the table was made from; waits for the device. Raises ValueError."""
        if self.items is not None and len(seq_lens):
            made = self.items[self.first_items[1:].long() - 1, 3]
            wrong = (made != seq_lens).nonzero()
            if len(wrong):
                row = int(wrong[0])
                raise ValueError(
                    f"plan must be for these seq_lens: it was made for {int(made[row])} tokens of sequence {row}, not "
                    f"for {int(seq_lens[row])}"
                )
