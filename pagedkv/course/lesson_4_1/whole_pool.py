"""Does a function of lesson 4.1 read blocks that are not its own? Its output does not tell where NaN is cleared first.

What tells is what it makes: a copy, a score or a weight for every slot of a pool in which it owns three blocks.
"""

import tracemalloc

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import is_tensor


def takes_the_whole_pool(function, q, k_cache, v_cache, *rest) -> bool:
    """Whether the call makes as many floats as the pool has slots, in one tensor or in NumPy's memory."""
    made = []

    def watched(q, k_cache, v_cache, *rest):
        is_tracing = tracemalloc.is_tracing()
        tracemalloc.start()
        try:
            with _watch({x.untyped_storage().data_ptr() for x in (k_cache, v_cache)}, made):
                return function(q, k_cache, v_cache, *rest)
        finally:
            made.append(tracemalloc.get_traced_memory()[1] // 4)
            if not is_tracing:
                tracemalloc.stop()

    call(watched, q, k_cache, v_cache, *rest)
    return max(made) >= k_cache.shape[0] * k_cache.shape[1]


def _watch(pools: set[int], made: list[int]):
    """A context in which the size of every float tensor that PyTorch returns is noted, views of the pools left out."""
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for x in result if isinstance(result, (tuple, list)) else (result,):
                if is_tensor(x) and x.is_floating_point() and x.untyped_storage().data_ptr() not in pools:
                    made.append(x.numel())
            return result

    return Watch()
