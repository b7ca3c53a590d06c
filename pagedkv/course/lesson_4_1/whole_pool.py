"""Does a function of lesson 4.1 read blocks that are not its own? Its output does not tell where NaN is cleared first.

What tells is what it makes: run twice, with the blocks of others changed in between, each tensor and number on the way
to the output stays the same, unless one of them was read. Of NumPy only the memory is seen.
"""

import tracemalloc

from pagedkv.course.judge.calling import call, freeze
from pagedkv.course.judge.compare import Wrong, is_tensor

OTHERS = {  # by whether stale entries of the table name them
    False: "all blocks of the pool are copied, converted or scored: take only those that block_table names",
    True: "entries of block_table past the last block in use are followed, and blocks of other sequences are copied or "
    "scored: look up the first ceil(seq_len / block size) entries only",
}


def reads_its_own(function, large_pool) -> None:
    """Raise Wrong where `function` reads other blocks of `large_pool(stale=...)`, the arguments of a call."""
    for stale, said in OTHERS.items():
        if _reads_others(function, *large_pool(stale=stale)):
            raise Wrong(f"the output is right, but {said}")


def _reads_others(function, q, k_cache, v_cache, table, seq_len) -> bool:
    """Whether something that the call makes depends on blocks past those of its tokens, or has the size of the pool."""
    import torch

    others = torch.ones(len(k_cache), dtype=torch.bool)
    others[table[: -(-seq_len // k_cache.shape[1])].long()] = False
    runs = []
    for value in (1.0, float("nan")):
        k, v = (cache.masked_fill(others[:, None, None], value) for cache in (k_cache, v_cache))
        runs.append(_traced(function, q, k, v, table, seq_len))
    (first, memory), (second, _) = runs
    return first != second or memory >= 4 * others.numel() * k_cache.shape[1] + 200 * len(table)  # a list of the table


def _traced(function, q, k_cache, v_cache, *rest) -> tuple[int, int]:
    """A hash of all that PyTorch returns during the call, and the most bytes that Python and NumPy took."""
    made, memory = [0], []

    def watched(q, k_cache, v_cache, *rest):
        is_tracing = tracemalloc.is_tracing()
        tracemalloc.start()
        try:
            with _watch({x.untyped_storage().data_ptr() for x in (k_cache, v_cache)}, made):
                return function(q, k_cache, v_cache, *rest)
        finally:
            memory.append(tracemalloc.get_traced_memory()[1])
            if not is_tracing:
                tracemalloc.stop()

    call(watched, q, k_cache, v_cache, *rest)
    return made[0], memory[0]


def _watch(pools: set[int], made: list[int]):
    """A context in which what PyTorch returns goes into the hash `made[0]`, views of the pools left out."""
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for x in result if isinstance(result, tuple) else (result,):
                if is_tensor(x) and "empty" in function.__name__:  # what was there before is nobody's
                    x.zero_()
                if isinstance(x, (bool, int, float, list)) or is_tensor(x) and not _within(x, pools):
                    made[0] = hash((made[0], freeze(x)))
            return result

    return Watch()


def _within(x, pools: set[int]) -> bool:
    """Whether a tensor is a view of a pool, or, as one inside torch.vmap, has no memory to look at."""
    try:
        return x.untyped_storage().data_ptr() in pools
    except NotImplementedError:
        return True
