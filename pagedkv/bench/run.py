"""Measure one case: draw its tensors, hold every implementation's output against float64, then time those that are
right. And the numerical errors by dtype, of the paged kernel and of contiguous attention, each against float64 on the
values that the cache really holds.
"""

import time
from collections.abc import Callable

import torch

from pagedkv.bench.cases import Case, even
from pagedkv.bench.data import WRONG, Data, checked, contiguous, error, make, reference
from pagedkv.bench.flashinfer_peers import ROUNDED
from pagedkv.bench.peers import Unsupported, ours
from pagedkv.bench.timing import Timing, measure_in_turns

HOST_TIMED = ("pagedkv", "FlashInfer")  # by the start of the name: the rest run under wrappers that would be counted


def measure_case(
    case: Case, implementations: dict[str, Callable], device: torch.device, runs: int, ceilings=None, host=HOST_TIMED
) -> dict:
    """Time each of `implementations` (name -> prepare(data)) on one set of tensors. The result is ready for JSON.

    `results` holds what was timed, `left_out` why an implementation does not serve the case, `failed` what broke or was
    more than `WRONG` away from float64, or `ROUNDED` for a peer that multiplies in FP8. With `ceilings`, shares of the
    read ceiling (for writes: of the copy ceiling) are added. `host`: beginnings of the names whose host time is taken
    as well.
    """
    started = time.perf_counter()
    data = make(case, device)
    expected = _written(data) if case.kind == "write" else reference(data, 0)
    record = {"case": case.name, "shape": case.shape, "kind": _kind(case), "bytes": case.bytes, "copies": data.copies}
    if case.kind != "write":
        record |= {
            "flops": case.flops,
            "batch": len(case.lengths),
            "tokens": sum(case.lengths),
            "longest": max(case.lengths),
        }
        record |= {
            "q_heads": case.q_heads,
            "kv_heads": case.kv_heads,
            "head_dim": case.head_dim,
            "block_size": case.block_size,
        }
    if ceilings:
        kind = "copy" if case.kind == "write" else "read"
        record["ceiling_us"] = getattr(ceilings, f"{kind}_us")(case.bytes)
    calls, distances, left_out, failed = {}, {}, {}, {}
    for name, prepare in implementations.items():
        try:
            call = prepare(data)
            distance = _distance(call, data, expected)
        except Unsupported as reason:
            left_out[name] = str(reason)
            continue
        except Exception as reason:  # a peer that breaks on a shape is reported; it does not end the run
            words = [
                word for word in str(reason).split() if "/" not in word
            ]  # a path says more about a machine than about a fault
            failed[name] = f"{type(reason).__name__}: {' '.join(words)[:120]}"
            continue
        if distance > (ROUNDED.get(name, WRONG) if case.cache == "fp8" else WRONG):
            failed[name] = f"wrong: {distance:.1e} from float64"
            continue
        calls[name], distances[name] = call, distance
    timings = measure_in_turns(calls, data.copies, device, runs, host)
    results = {
        name: timing.asdict() | {"error": distances[name]} | _rates(case, timing, record.get("ceiling_us"))
        for name, timing in timings.items()
    }
    return record | {
        "results": results,
        "left_out": left_out,
        "failed": failed,
        "seconds": time.perf_counter() - started,
    }


def _kind(case: Case) -> str:
    return "write" if case.kind == "write" else "decode" if case.is_decode else "prefill"


def _rates(case: Case, timing: Timing, ceiling_us: float | None) -> dict:
    rates = {"gb_s": case.bytes / timing.us / 1e3}
    if ceiling_us:
        rates["share"] = ceiling_us / timing.us
    if _kind(case) == "prefill":
        rates["tflop_s"] = case.flops / timing.us / 1e6
    return rates


def _written(data: Data) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The first copy's two pools before the write and as they must be after it."""
    pools = []
    for pool, new in zip((data.k_cache[0], data.v_cache[0]), (data.k[0], data.v[0]), strict=True):
        after = pool.clone()
        after.flatten(0, 1)[data.slots] = new.to(pool.dtype)
        pools.append((pool.clone(), after))
    return pools


def _distance(call: Callable, data: Data, expected) -> float:
    """How far the first copy's output is from `expected`; a write is right when the pools are equal bit for bit."""
    if data.case.kind != "write":
        return error(checked(call(0), data.case), expected)
    pools = (data.k_cache[0], data.v_cache[0])
    for pool, (before, _) in zip(pools, expected, strict=True):
        pool.copy_(before)  # another implementation may have written already
    call(0)
    return (
        0.0 if all(torch.equal(pool, after) for pool, (_, after) in zip(pools, expected, strict=True)) else float("inf")
    )


DTYPES = ("fp32", "fp16", "bf16", "fp8")


def accuracy(device: torch.device, batch: int = 4, length: int = 4096) -> list[dict]:
    """‖out - float64‖ / ‖float64‖ for a decode of `batch` × `length` tokens, 32/8 heads of 128; an FP8 cache is read
    with bf16 queries.
    """
    backend = "triton" if device.type == "cuda" else "torch"
    rows = []
    for dtype in DTYPES:
        data = make(even(dtype, batch, length, cache=dtype), device, copies=1)
        expected = reference(data, 0)
        rows.append(
            {
                "dtype": dtype,
                "pagedkv": error(ours(backend)(data)(0), expected),
                "contiguous": error(_in_order(data), expected),
            }
        )
    return rows


def _in_order(data) -> torch.Tensor:
    """The same attention with K and V in order and in the query's dtype."""
    dtype = data.q[0].dtype
    case = data.case
    outputs = []
    for row in range(len(case.lengths)):
        k, v = (x.transpose(0, 1)[None] for x in contiguous(data, 0, row, dtype))  # [1, H, L, D]
        q = data.q[0][row].unflatten(0, (case.kv_heads, -1))[None]  # [1, H, G, D]
        outputs.append(torch.nn.functional.scaled_dot_product_attention(q, k, v).flatten(1, 2))
    return torch.cat(outputs)
