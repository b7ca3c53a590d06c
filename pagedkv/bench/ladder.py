"""The rungs of lesson 4.3's ladder as implementations to time beside the production kernel, which is the last of them."""

from collections.abc import Callable

from pagedkv.bench.data import Data
from pagedkv.bench.peers import Call, Unsupported

LADDER_CASES = ("a", "b", "c", "d", "e", "f", "i")


def ladder() -> dict[str, Callable[[Data], Call]]:
    """Name -> prepare(data), in the order in which the lesson climbs."""
    from pagedkv.attention.triton import ladder as rungs

    return {f"rung {number}": _prepare(rung) for number, rung in enumerate((rungs.rung0, rungs.rung1, rungs.rung2))}


def _prepare(rung: Callable) -> Callable[[Data], Call]:
    def prepare(data: Data) -> Call:
        if not data.case.is_decode:
            raise Unsupported("decode only")
        return lambda i: rung(data.q[i], data.k_cache[i], data.v_cache[i], data.block_tables, data.seq_lens)

    return prepare
