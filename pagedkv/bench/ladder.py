"""The rungs of lesson 4.4's ladder as implementations to time beside the production kernel, which is the last of them;
and that kernel with one of its settings changed at a time, to see what each brings.
"""

from collections.abc import Callable
from contextlib import contextmanager

from pagedkv.bench.data import Data
from pagedkv.bench.peers import Call, Unsupported, ours
from pagedkv.sizing import ceil_div

LADDER_CASES = ("a", "b", "c", "d", "e", "f", "i")

# name -> the launch that the kernel would choose, and the longest length -> the launch to try instead
SETTINGS: dict[str, Callable] = {
    "set: not split": lambda launch, longest: launch._replace(split_tokens=ceil_div(longest, 256) * 256, num_splits=1),
    "set: tiles of 16": lambda launch, _: launch._replace(tile=16),
    "set: shallow": lambda launch, _: launch._replace(num_stages=2),
    "set: deep": lambda launch, _: launch._replace(num_stages=3),
}


def ladder() -> dict[str, Callable[[Data], Call]]:
    """Name -> prepare(data), in the order in which the lesson climbs."""
    from pagedkv.attention.triton import ladder as rungs

    climb = {f"rung {number}": _rung(rung) for number, rung in enumerate((rungs.rung0, rungs.rung1, rungs.rung2))}
    return climb | {name: _with(change) for name, change in SETTINGS.items()}


def _rung(rung: Callable) -> Callable[[Data], Call]:
    def prepare(data: Data) -> Call:
        if not data.case.is_decode:
            raise Unsupported("decode only")
        return lambda i: rung(data.q[i], data.k_cache[i], data.v_cache[i], data.block_tables, data.seq_lens)

    return prepare


def _with(change: Callable) -> Callable[[Data], Call]:
    def prepare(data: Data) -> Call:
        call = ours("triton")(data)

        def call_changed(i: int):
            with launching(change):
                return call(i)

        return call_changed

    return prepare


@contextmanager
def launching(change: Callable):
    """While it is open, decode launches with change(the settings that it would have chosen, the longest sequence)."""
    from pagedkv.attention.triton import decode

    choose = decode.decode_launch

    def changed(row_bytes, programs, num_seqs, longest, multiprocessors):
        return change(choose(row_bytes, programs, num_seqs, longest, multiprocessors), longest)

    decode.decode_launch = changed
    decode.ready.cache_clear()  # what it remembers does not know of these settings
    try:
        yield
    finally:
        decode.decode_launch = choose
        decode.ready.cache_clear()
