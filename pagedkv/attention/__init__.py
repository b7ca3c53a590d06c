"""Attention over a paged KV cache: the standard form, block by block, and one front door, `pagedkv.attention.paged`."""
