"""The front door: attention over a paged KV cache, and writing to one, with the same meaning on every backend."""

import torch

from pagedkv.arguments import listed, whole_number
from pagedkv.attention import checks, dispatch, operators
from pagedkv.attention.options import Options
from pagedkv.attention.plan import AttentionPlan, shape_of


def paged_attention(
    q, k_cache, v_cache, block_tables, seq_lens, *, query_start_loc=None, max_seq_len=None, scale=None, window=None,
    softcap=None, sinks=None, k_scale=None, v_scale=None, out=None, return_lse=False, plan=None, backend="auto",
    validate=False,
):  # fmt: skip
    """Causal attention of the last tokens of each sequence over K and V that lie in blocks; shaped like `q`, no
    gradients.

    - `q`: for decode [num_seqs, num_q_heads, head_dim]; for prefill or mixed [num_tokens, num_q_heads, head_dim].
    - `query_start_loc`: int32 [num_seqs + 1], for prefill or mixed: the queries of sequence i are
      q[query_start_loc[i] : query_start_loc[i + 1]].
    - `k_cache`, `v_cache`: [num_blocks, block_size, num_kv_heads, head_dim], of q's dtype or float8_e4m3fn,
      with any strides: a cache with heads before block_size is handed over as .permute(0, 2, 1, 3).
    - `block_tables`: int32 [num_seqs, max_blocks], block ids in logical order. Entries past the last block in use, or
      before the window, are not read.
    - `seq_lens`: int32 [num_seqs], tokens stored, those of q included. Slots past them never matter. NaN or infinity in
      keys and values that a query sees is told by its output. As in every attention, a weight of 0 does not hide it:
      within a sequence, NaN of a later token, or of one before its window, may reach a query as 0 * NaN.
    - `max_seq_len`: an upper bound of seq_lens that the host knows; as many tokens as the tables have room for, if left
      out. A tight one saves work and memory for partial results. A captured graph keeps it: of a longer sequence a
      replay sees the last max_seq_len tokens.
    - `scale`: 1/sqrt(head_dim) if left out. `window`: how many tokens a query sees, itself included; None: all.
    - `softcap`: scores become softcap * tanh(score / softcap), before the mask; None: they stay as they are.
    - `sinks`: float32 [num_q_heads], one more logit a head, neither scaled nor capped, as if each query saw one more
      key whose value is 0 (gpt-oss): the output is multiplied by sigmoid(lse - sink). -inf: a head without one.
    - `k_scale`, `v_scale`: what an FP8 cache is multiplied by. Over one, Triton multiplies a bfloat16 q in float16, so
      its numbers must stay under 65,504.
    - `plan`: made by `plan_attention` for these lengths, or None. It changes no result; torch.compile leaves it out.
    - `out`: of q's shape and dtype, written and returned; a new tensor if left out.
    - `backend`: "torch"; "triton", on a CPU in its interpreter only; "auto", Triton on an NVIDIA GPU, else PyTorch.
    - `return_lse`: return (out, lse), lse float32 [num_tokens, num_q_heads] being the natural log(sum of e^score): it
      makes results over parts of a context mergeable. A sink is in the sum, so that of the parts exactly one is given
      the sinks. Libraries that count in powers of 2 return lse / ln 2.

    q, out and the caches have any strides; a row of block_tables is contiguous, and so are all other tensors.
    A query that sees nothing (a seq_lens of 0) gives zeros and an lse of -inf, or its sink.
    Raises TypeError or ValueError that names the argument. Lengths and table entries are looked at on a CPU always, on
    a GPU only with `validate`, which waits for it.
    After Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).
    """
    options = Options(max_seq_len, scale, window, softcap, k_scale, v_scale, sinks)
    if torch.compiler.is_compiling():
        results = operators.paged_attention(
            q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, *options, return_lse, backend, validate
        )
        result, lse = results if return_lse else (results[0], None)
        out = result if out is None else out.copy_(result)
    else:
        cache = (k_cache, v_cache, block_tables, seq_lens, query_start_loc)
        out, lse = dispatch.attend(q, *cache, options, out, return_lse, plan, backend, validate)
    return (out, lse) if return_lse else out


def plan_attention(seq_lens, k_cache, num_q_heads, *, max_seq_len=None, window=None, lengths=None, backend="auto"):
    """Share out a decode step over the GPU, once for all layers: paged_attention(..., plan=plan).

    - `seq_lens`: int32 [num_seqs], tokens stored, read on the GPU without waiting for it. A captured graph that holds
      this call and those that use its plan is replayed with other lengths; outside of one, new lengths need a new plan.
    - `k_cache`: [num_blocks, block_size, num_kv_heads, head_dim], of any layer. `num_q_heads`: the model's.
    - `max_seq_len`: an upper bound of all lengths, in tokens, that calls may not exceed; None: no bound.
    - `window`: tokens that a query sees, as in the calls. Layers with another window need another plan.
    - `lengths`: the numbers in seq_lens, where the host has them: about equal ones do without a table. The longest
      becomes max_seq_len where that is left out, so leave out both for a graph whose lengths will grow.
    - `backend`: as in the calls. With "torch" a plan changes nothing, and neither does it for a prefill.

    Raises TypeError or ValueError that names the argument.
    Planning apart from running is FlashInfer's (Ye et al., MLSys 2025).
    """
    numbers = checks.shapes_plan(seq_lens, k_cache, num_q_heads, max_seq_len, window)
    num_q_heads, max_seq_len, window = numbers
    if lengths is not None:
        lengths = [whole_number("lengths", length) for length in listed("lengths", lengths, "whole numbers")]
        if len(lengths) != len(seq_lens):
            raise ValueError(f"lengths must be one for each of the {len(seq_lens)} sequences, not {len(lengths)}")
        longest = max(lengths, default=0)
        if max_seq_len is not None and longest > max_seq_len:
            raise ValueError(f"max_seq_len must be at least the longest of lengths, {longest}, not {max_seq_len}")
        max_seq_len = longest if max_seq_len is None else max_seq_len
    shape = shape_of(len(seq_lens), num_q_heads, k_cache.shape, k_cache.dtype, k_cache.device)
    run = dispatch.pick_backend(backend, k_cache, k_cache)
    launch = run.plan(seq_lens, k_cache, num_q_heads, max_seq_len, window, lengths) if len(seq_lens) else ()
    return AttentionPlan(shape, max_seq_len, window, *launch)


def write_kv(k, v, k_cache, v_cache, slot_mapping, *, k_scale=None, v_scale=None, backend="auto"):
    """Write k and v [num_tokens, num_kv_heads, head_dim] into the caches at slot_mapping int64 [num_tokens].

    Slot s is k_cache[s // block_size, s % block_size]; a slot of -1 is padding and is skipped. The caches have k's
    dtype, or float8_e4m3fn: then k / k_scale and v / v_scale are stored, and what is too large becomes its largest
    number. slot_mapping is contiguous, the others have any strides. `backend`: as in paged_attention.
    Raises TypeError or ValueError that names the argument, and then has written nothing. Slots are looked at on a CPU;
    on a GPU they are the caller's promise.
    """
    if torch.compiler.is_compiling():
        operators.write_kv(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale, backend)
    else:
        dispatch.store(k, v, k_cache, v_cache, slot_mapping, k_scale, v_scale, backend)
