"""A kernel that reads beyond 2³¹ elements, with its offset in 32 or in 64 bits. Run by `overflow.read_far`; the narrow one may crash.

`python -m pagedkv.course.lesson_4_3.far_kernel BITS` prints what the kernel reads where block 2 of the pool starts: 3.0, if it gets there.
"""

import sys

import pagedkv.attention.triton  # noqa: F401  # isort: skip: it chooses the interpreter, before Triton is imported
import torch
import triton
import triton.language as tl

STRIDE = 2**30  # elements between two blocks: block 2 starts at element 2³¹
ELEMENTS = 2 * STRIDE + 64


@triton.jit
def read(pool, table, out, stride, WIDE: tl.constexpr):
    block = tl.load(table)  # an int32, as every block table holds
    if WIDE:
        block = block.to(tl.int64)
    tl.store(out, tl.load(pool + block * stride).to(tl.float32))


def main(bits: int) -> float:
    """What the kernel reads with offsets of `bits` bits."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pool = torch.empty(ELEMENTS, dtype=torch.float16, device=device)  # on a CPU only the pages that are touched become real
    pool[2 * STRIDE] = 3.0
    out = torch.zeros(1, device=device)
    read[(1,)](pool, torch.tensor([2], dtype=torch.int32, device=device), out, STRIDE, WIDE=bits == 64)
    return out.item()


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
