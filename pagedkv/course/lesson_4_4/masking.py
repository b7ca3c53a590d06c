"""The exercise of lesson 4.4 in which a kernel reads what it must not: unused slots, and entries past the end of its
block table.
"""

import math
from contextlib import contextmanager, nullcontext

import numpy as np

from pagedkv.course.judge.calling import NotAttempted, call
from pagedkv.course.judge.compare import Wrong, kind, same
from pagedkv.course.judge.exercise import Exercise, Part
from pagedkv.course.judge.stub import has_gap

BLOCK, TILE, DIM = 4, 8, 16  # tokens in a block, tokens in a tile, head_dim
FAR = 10**8  # a block id outside of any pool


def _kernel_part(title: str, poison: float, lengths: tuple[int, ...], stale: int | None = None) -> Part:
    """The learner's kernel must give attention over `length` tokens, whatever `poison` lies in all other slots of the
    pool.

    `stale` stands in the table past the last block; None: the table ends there. On a GPU -1 stands there instead, for a
    kernel that reads on: only the interpreter sees the addresses of a kernel, and stops it before a bad one is
    followed.
    """

    def test(kernel):
        if not callable(getattr(kernel, "fn", None)) or not hasattr(kernel, "run"):
            raise Wrong(f"a kernel is expected, a function under @triton.jit, not {kind(kernel)}")
        if has_gap(kernel.fn):
            raise NotAttempted
        for length in lengths:
            expected, got = _attend(kernel, length, poison, stale)
            if not bool(got.isfinite().all()):
                kindly = _attend(kernel, length, poison, stale, hidden=0.0)[1]
                raise Wrong(
                    "a load with a mask but no `other` leaves what it hides undefined (NaN here), and 0 · NaN is NaN"
                    if bool(kindly.isfinite().all())
                    else "NaN or infinity of an unused slot reaches the output: a weight of 0 does not help, since 0 · "
                    "NaN is NaN"
                )
            try:
                same(expected, got, 1e-4)
            except Wrong:
                raise Wrong(
                    "the output is finite, but not that of attention over exactly the first `length` tokens"
                ) from None

    return Part(title, test)


def _attend(kernel, length: int, poison: float, stale: int | None, hidden: float = math.nan):
    """Launch the kernel on one sequence whose blocks are shuffled among poisoned ones; the right answer, and the
    kernel's. `hidden` is what a load gives where it is masked off and says nothing itself.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = torch.Generator().manual_seed(length)
    num_blocks, width, needed = (
        20,
        12,
        -(-length // BLOCK),
    )  # blocks of the pool; entries of the widest table; of the sequence
    table = torch.randperm(num_blocks - 2, generator=draw)[:width].int() + 2  # blocks 0 and 1 belong to someone else
    slots = (table[:, None] * BLOCK + torch.arange(BLOCK)).flatten()[:length]
    table[needed:] = -1 if device == "cuda" or stale is None else stale
    rows = (1 + num_blocks) * BLOCK  # one block more in front, for a kernel that follows the -1
    k_room, v_room = torch.full((2, rows, DIM), poison)
    k, v = k_room[BLOCK:], v_room[BLOCK:]
    q = torch.randn(DIM, generator=draw)
    k[slots] = torch.randn(length, DIM, generator=draw)
    v[slots] = torch.randn(length, DIM, generator=draw)
    weights = (k[slots].double() @ q.double()).softmax(0)
    expected = (weights @ v[slots].double()).float()
    out = torch.full((DIM,), math.nan, device=device)
    q, k_room, v_room, table = (x.to(device) for x in (q, k_room, v_room, table))
    table = table[:needed] if stale is None else table

    def launch():
        try:
            kernel[(1,)](q, k_room[BLOCK:], v_room[BLOCK:], table, out, length, BLOCK=BLOCK, TILE=TILE, DIM=DIM)
        except Exception as error:
            return error

    with nullcontext() if device == "cuda" else _guarded(hidden, q, k_room, v_room, table):
        error = call(launch)
    if error:
        while error.__cause__:
            error = error.__cause__
        if isinstance(error, Wrong):
            raise error
        raise Wrong(f"your kernel raises {type(error).__name__} ({' '.join(str(error).split())[:150]})")
    return expected, out.cpu()


@contextmanager
def _guarded(hidden: float, *tensors):
    """Let the interpreter's loads read bytes of `tensors` only; any other raises Wrong before it is followed.

    A lane that is masked off without `other` holds 0 in the interpreter and anything on a GPU: here it gets `hidden`, a
    block id one that leads out of any pool.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    masked_load = builder.create_masked_load
    rooms = [(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in tensors]

    def load(pointers, mask, other, *options):
        kind = pointers.get_element_ty()
        number = kind.is_floating()
        followed = pointers.data[mask.data.astype(bool)]
        if not all(any(start <= at < end for start, end in rooms) for at in followed.tolist()):
            if not number:
                raise Wrong(
                    "it reads past the block table, which is just as wide as the sequence needs: which load of yours "
                    "has no mask?"
                )
            raise Wrong("it reads outside of the pool: which load follows a table entry past the last block?")
        if other is None:
            filled = np.full(pointers.data.shape, hidden if number else FAR, np.float32 if number else np.int32)
            other = interpreter.TensorHandle(filled, kind)
        return masked_load(pointers, mask, other, *options)

    builder.create_masked_load = load
    try:
        yield
    finally:
        del builder.create_masked_load


MASKING = Exercise(
    "4.4-masking",
    "mend the masks of a kernel",
    (
        _kernel_part("a full last block", math.nan, (8, 16, 32)),
        _kernel_part("NaN in every unused slot, a table as wide as the sequence needs", math.nan, (1, 5, 11, 29)),
        _kernel_part("infinity in every unused slot, large ids in the table's unused part", math.inf, (3, 13, 41), FAR),
    ),
    needs="triton",
)
