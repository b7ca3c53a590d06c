"""The torch backend's work, counted: the rows of the cache that it copies, the operators that it calls, the memory that
it takes.
"""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from private_names import TorchDispatchMode  # noqa: E402

from pagedkv.attention.paged import paged_attention  # noqa: E402


class Counted(TorchDispatchMode):
    """Counts the operators that run, and the bytes of K and V that are gathered."""

    def __init__(self):
        super().__init__()
        self.operators, self.gathered = 0, 0

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        result = operator(*arguments, **(options or {}))
        self.operators += 1
        if "index_select" in operator.name() or ("aten::index" in operator.name() and result.dim() == 4):
            self.gathered += result.nbytes
        return result


def counted(lengths, head_dim=64, block_size=16):
    blocks = -(-max(lengths) // block_size)
    pool = torch.randperm(len(lengths) * blocks, generator=torch.Generator().manual_seed(0))
    cache = torch.zeros(len(pool), block_size, 2, head_dim)
    q, tables = torch.zeros(len(lengths), 8, head_dim), pool.view(len(lengths), -1).int()
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    with Counted() as count:
        paged_attention(q, cache, cache, tables, seq_lens, backend="torch")
    return count


@pytest.mark.parametrize("lengths", [[1024] * 16, [1], [17, 3000, 64]])
def test_a_decode_copies_each_key_and_value_once_and_little_more(lengths):
    needed = 2 * sum(lengths) * 2 * 64 * 4  # K and V, two heads of 64 in float32
    gathered = counted(lengths).gathered
    assert (
        needed <= gathered <= needed + 2 * len(lengths) * 256 * 2 * 64 * 4
    )  # less than a chunk of 256 tokens beside each sequence


def test_the_operators_of_a_decode_do_not_grow_with_the_batch():
    """Only with the MiB that are copied: what a CPU's cache does not hold is multiplied in pieces."""
    short, long = counted([40] * 2).operators, counted([300]).operators
    assert short == counted([40] * 16).operators <= 70 and long <= 195
    assert counted([1024] * 16).operators <= long + 16 * 10  # 16 MiB


MEMORY = """
import resource, torch
from pagedkv.attention.paged import paged_attention
lens = torch.full((256,), 10, dtype=torch.int32)
tables = torch.zeros(256, 6250, dtype=torch.int32)
cache = torch.zeros(1, 16, 2, 64)
q = torch.zeros(256, 8, 64)
call = lambda: paged_attention(q, cache, cache, tables, lens, backend="torch")
call()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lens[100] = 100_000
call()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)  # MiB
"""


def test_one_long_sequence_among_short_ones_is_not_padded_to_its_length():
    """Padded to 100 000 tokens, the 256 sequences would take 25 GB."""
    grown = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 200
