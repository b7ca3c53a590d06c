"""What holds for the tensors of every module: the dtypes that K and V may have, and how a computation is kept apart
from the settings of the process that it runs in.

Default device and default dtype do not reach a tensor that is made with its own device and dtype. The modes of PyTorch
do, and are turned off by the decorators here and by torch.no_grad.
"""

from contextlib import ExitStack
from functools import wraps

import torch

from pagedkv.arguments import shown

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FP8 = torch.float8_e4m3fn
CACHE_DTYPES = (*FLOATS, FP8)
WITH_AUTOCAST = ("cpu", "cuda", "mps", "xpu")  # kinds of devices

lasting = torch.inference_mode(False)
"""Decorator of what makes a tensor that is kept: one made in inference mode can be written there only."""


def here(device) -> torch.device:
    """The device of that name. Raises ValueError where nothing is called that, or this machine has none."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:  # PyTorch has one for each kind
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device must name one of this machine's, not {shown(device)}: {reason}") from None
    return found


def is_fp8(tensor):
    """Whether it is a cache of eight bits a number, the one such dtype that is taken."""
    return tensor.dtype == FP8


def in_pairs(cache):
    """Whether it is such a cache, and two of its numbers can be read at a time, as one int16."""
    if not is_fp8(cache):
        return False
    block, slot, head, dim = cache.stride()
    return dim == 1 and (block | slot | head | cache.storage_offset() | cache.data_ptr()) % 2 == 0


def without_autocast(function):
    """Decorator: run `function` outside of torch.autocast, which would multiply in other dtypes than it was given.

    Costs a microsecond where no autocast is on.
    """

    @wraps(function)
    def plain(*arguments, **options):
        on = [kind for kind in WITH_AUTOCAST if torch.is_autocast_enabled(kind)]
        if not on:
            return function(*arguments, **options)
        with ExitStack() as off:
            for kind in on:
                off.enter_context(torch.autocast(kind, enabled=False))
            return function(*arguments, **options)

    return plain
