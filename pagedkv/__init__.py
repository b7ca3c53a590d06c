"""pagedkv: how an LLM engine manages KV memory, from fragmentation to a Triton PagedAttention kernel."""

__version__ = "0.1.0"
