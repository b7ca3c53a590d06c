"""Everything that can be wrong with a call, found before anything is computed or written.

The `shapes_*` checks look at what the host knows (ranks, dtypes, devices, strides) and touch no element: they run on
every call. The `values_*` checks look at lengths, table entries and slots, and wait for the device where those lie on a
GPU.
"""

import torch

from pagedkv.arguments import finite_number, whole_number
from pagedkv.tensors import CACHE_DTYPES, FLOATS, FP8, is_fp8

BLOCK_SIZES = frozenset(2**i for i in range(9))
HEAD_DIMS = range(16, 257, 8)


def shapes_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, out):
    """Check the tensors of paged_attention."""
    if not isinstance(q, torch.Tensor):
        raise TypeError(f"q must be a tensor [num_tokens, num_q_heads, head_dim], not {type(q).__name__}")
    device, dtype = q.device, q.dtype
    _tensor("q", q, 3, "[num_tokens, num_q_heads, head_dim]", FLOATS, device)
    num_kv_heads, head_dim = _caches(k_cache, v_cache, (dtype, FP8), device)
    num_tokens, num_q_heads, q_head_dim = q.shape
    if q_head_dim != head_dim:
        raise ValueError(f"q must have the caches' head_dim of {head_dim}, not {q_head_dim}")
    if num_q_heads % num_kv_heads or num_q_heads == 0:
        raise ValueError(f"q must have a multiple of the {num_kv_heads} KV heads as num_q_heads, not {num_q_heads}")
    _tensor("block_tables", block_tables, 2, "[num_seqs, max_blocks]", (torch.int32,), device)
    _tensor("seq_lens", seq_lens, 1, "[num_seqs]", (torch.int32,), device)
    num_seqs = seq_lens.shape[0]
    if block_tables.shape[0] != num_seqs:
        raise ValueError(
            f"block_tables must have a row for each of the {num_seqs} sequences of seq_lens, not "
            f"{block_tables.shape[0]}"
        )
    if block_tables.stride(1) != 1 and block_tables.shape[1] > 1:
        raise ValueError(f"block_tables must have stride 1 along a row, not {block_tables.stride(1)}")
    if query_start_loc is None:
        if num_tokens != num_seqs:
            raise ValueError(
                f"q must have one token for each of the {num_seqs} sequences, not {num_tokens}; give query_start_loc "
                "where it has more"
            )
    else:
        _tensor("query_start_loc", query_start_loc, 1, "[num_seqs + 1]", (torch.int32,), device)
        if query_start_loc.shape[0] != num_seqs + 1:
            raise ValueError(
                f"query_start_loc must have num_seqs + 1 = {num_seqs + 1} entries, not {query_start_loc.shape[0]}"
            )
        _contiguous("query_start_loc", query_start_loc)
    _contiguous("seq_lens", seq_lens)
    if out is not None:
        _tensor("out", out, 3, "[num_tokens, num_q_heads, head_dim]", (dtype,), device)
        if out.shape != q.shape:
            raise ValueError(f"out must have q's shape {list(q.shape)}, not {list(out.shape)}")
        if any(size > 1 and stride == 0 for size, stride in zip(out.shape, out.stride(), strict=True)):
            raise ValueError(f"out must have a place for each number, not strides {list(out.stride())}")


def options_attention(options, q, k_cache):
    """Check the options that were given."""
    if options.max_seq_len is not None:
        whole_number("max_seq_len", options.max_seq_len)
    if options.scale is not None:
        finite_number("scale", options.scale)
    try:
        if options.window is not None:
            whole_number("window", options.window, minimum=1)
        if options.softcap is not None:
            finite_number("softcap", options.softcap, minimum=0, above=True)
    except (TypeError, ValueError) as error:  # other libraries write 0 or -1 for that
        raise type(error)(f"{error}; None turns it off") from None
    scales(k_cache, options.k_scale, options.v_scale)
    if options.sinks is not None:
        _tensor("sinks", options.sinks, 1, "[num_q_heads]", (torch.float32,), q.device)
        if len(options.sinks) != q.shape[1]:
            raise ValueError(f"sinks must have one number for each of q's {q.shape[1]} heads, not {len(options.sinks)}")
        _contiguous("sinks", options.sinks)


def shapes_plan(seq_lens, k_cache, num_q_heads, max_seq_len, window):
    """Check the arguments of plan_attention; returns those that are numbers as Python's own."""
    if not isinstance(seq_lens, torch.Tensor):
        raise TypeError(f"seq_lens must be a tensor [num_seqs], not {type(seq_lens).__name__}")
    _tensor("seq_lens", seq_lens, 1, "[num_seqs]", (torch.int32,), seq_lens.device)
    _contiguous("seq_lens", seq_lens)
    num_kv_heads, _ = _caches(k_cache, k_cache, CACHE_DTYPES, seq_lens.device)
    num_q_heads = whole_number("num_q_heads", num_q_heads, 1)
    if num_q_heads % num_kv_heads:
        raise ValueError(f"num_q_heads must be a multiple of the {num_kv_heads} KV heads, not {num_q_heads}")
    max_seq_len = None if max_seq_len is None else whole_number("max_seq_len", max_seq_len)
    return num_q_heads, max_seq_len, None if window is None else whole_number("window", window, minimum=1)


def values_attention(q, k_cache, block_tables, seq_lens, query_start_loc, options):
    """Check lengths, query ranges, the table entries that will be used, and sinks. Takes resolved options."""
    max_seq_len, window = options.max_seq_len, options.window
    num_blocks, block_size = k_cache.shape[:2]
    lengths = seq_lens.long()
    num_queries = 1
    if query_start_loc is not None:
        first, num_queries = query_start_loc.long(), query_start_loc.long().diff()
        if first[0] != 0 or first[-1] != len(q) or (num_queries < 0).any():
            raise ValueError(f"query_start_loc must rise from 0 to q's {len(q)} tokens, not be {_few(first)}")
    capacity = block_tables.shape[1] * block_size
    shortest, longest = map(int, lengths.aminmax()) if len(lengths) else (0, 0)
    if shortest < 0:
        raise ValueError(f"seq_lens must be at least 0, not {shortest}")
    if longest > capacity:
        raise ValueError(
            f"block_tables has room for {capacity} tokens ({block_tables.shape[1]} blocks of {block_size}), not for "
            f"{longest}"
        )
    if longest > max_seq_len:
        raise ValueError(f"max_seq_len must be at least the longest of seq_lens, {longest}, not {max_seq_len}")
    oldest = (
        lengths * 0 if window is None else (lengths - num_queries - window + 1).clamp(min=0)
    )  # position of the first key used
    block = torch.arange(block_tables.shape[1], device=q.device)
    needed = lengths * (num_queries > 0)  # nothing is read for a sequence without a query
    used = (block >= oldest[:, None] // block_size) & (block * block_size < needed[:, None])
    wrong = (used & ((block_tables < 0) | (block_tables >= num_blocks))).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"block_tables[{row}, {column}] must be a block from 0 to {num_blocks - 1}, not "
            f"{int(block_tables[row, column])}"
        )
    if options.sinks is not None and not (options.sinks < float("inf")).all():
        head = int((~(options.sinks < float("inf"))).nonzero()[0])
        raise ValueError(
            f"sinks[{head}] must be finite, or -inf for a head without a sink, not {float(options.sinks[head])}"
        )


def shapes_write(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale):
    """Check the arguments of write_kv."""
    layout = "[num_tokens, num_kv_heads, head_dim]"
    if not isinstance(k, torch.Tensor):
        raise TypeError(f"k must be a tensor {layout}, not {type(k).__name__}")
    device = k.device
    _tensor("k", k, 3, layout, FLOATS, device)
    _tensor("v", v, 3, layout, (k.dtype,), device)
    heads = _caches(k_cache, v_cache, (k.dtype, FP8), device)
    for name, new in (("k", k), ("v", v)):
        if new.shape[1:] != heads:
            raise ValueError(
                f"{name} must be {layout} with the caches' heads and head_dim {list(heads)}, not {list(new.shape[1:])}"
            )
    if v.shape[0] != k.shape[0]:
        raise ValueError(f"v must have k's {k.shape[0]} tokens, not {v.shape[0]}")
    _tensor("slot_mapping", slot_mapping, 1, "[num_tokens]", (torch.int64,), device)
    if slot_mapping.shape[0] != k.shape[0]:
        raise ValueError(
            f"slot_mapping must have one slot for each of the {k.shape[0]} tokens, not {slot_mapping.shape[0]}"
        )
    _contiguous("slot_mapping", slot_mapping)
    scales(k_cache, k_scale, v_scale)


def values_write(k_cache, slot_mapping):
    """Check the slots."""
    num_slots = k_cache.shape[0] * k_cache.shape[1]
    wrong = ((slot_mapping < -1) | (slot_mapping >= num_slots)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(
            f"slot_mapping[{at}] must be a slot from 0 to {num_slots - 1}, or -1 for padding, not "
            f"{int(slot_mapping[at])}"
        )


def scales(cache, k_scale, v_scale):
    """Check the scales of an FP8 cache: a stored number times the scale is the number that is meant."""
    for name, value in (("k_scale", k_scale), ("v_scale", v_scale)):
        if value is not None:
            if not is_fp8(cache):
                raise ValueError(f"{name} is for caches of {_name(FP8)}, not of {_name(cache.dtype)}; leave it out")
            finite_number(name, value, minimum=0, above=True)


def _caches(k_cache, v_cache, dtypes, device):
    """Check both halves of a paged cache and return (num_kv_heads, head_dim)."""
    _tensor("k_cache", k_cache, 4, "[num_blocks, block_size, num_kv_heads, head_dim]", dtypes, device)
    _tensor("v_cache", v_cache, 4, "[num_blocks, block_size, num_kv_heads, head_dim]", (k_cache.dtype,), device)
    shape = k_cache.shape
    if v_cache.shape != shape:
        raise ValueError(f"v_cache must have k_cache's shape {list(shape)}, not {list(v_cache.shape)}")
    if shape[1] not in BLOCK_SIZES:
        raise ValueError(
            f"k_cache must have a block size (dimension 1) that is a power of two from 1 to 256, not {shape[1]}"
        )
    if shape[2] == 0:
        raise ValueError("k_cache must have at least one KV head (dimension 2), not 0")
    if shape[3] not in HEAD_DIMS:
        raise ValueError(
            f"k_cache must have a head_dim (dimension 3) that is a multiple of 8 from 16 to 256, not {shape[3]}"
        )
    return shape[2:]


def _tensor(name, value, rank, layout, dtypes, device):
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a tensor {layout}, not {type(value).__name__}")
    if value.dim() != rank:
        raise ValueError(f"{name} must be {layout}, not of shape {list(value.shape)}")
    if value.dtype not in dtypes:
        raise TypeError(f"{name} must be of {' or '.join(map(_name, dtypes))}, not {_name(value.dtype)}")
    if value.device != device:
        raise ValueError(f"{name} must be on the same device as the other tensors, {device}, not on {value.device}")


def _contiguous(name, value):
    if not value.is_contiguous():
        raise ValueError(f"{name} must be contiguous, not have stride {value.stride(0)}")


def _name(dtype):
    return str(dtype).removeprefix("torch.")


def _few(numbers):
    text = ", ".join(map(str, numbers[:8].tolist()))
    return f"[{text}{', …' if len(numbers) > 8 else ''}]"
