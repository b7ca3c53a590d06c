"""The packed block tables that a kernel reads, kept equal to the scheduler's lists.

The lists on the CPU are the authority. Between two steps little of them changes, most often a block at the end of some
tables, so only the changed entries travel: as one array of (row, column, value), scattered into a tensor that stays
where it is.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import cycle

import numpy as np
import torch

from pagedkv.arguments import listed, shown, whole_number
from pagedkv.block_table import BlockTable
from pagedkv.sizing import MAX_BLOCKS
from pagedkv.tensors import here, lasting

PADDING = -1
UNSEEN = object(), -1, 0


def pack_block_tables(tables: Sequence[BlockTable], device=None) -> torch.Tensor:
    """A new int32 tensor [len(tables), most blocks of any table], one table per row, the rest -1."""
    rows = [_table(table).blocks for table in listed("tables", tables, "BlockTables")]
    width = max(map(len, rows), default=0)
    packed = [row + [PADDING] * (width - len(row)) for row in rows]
    device = here("cpu" if device is None else device)
    return torch.tensor(packed, dtype=torch.int32, device=device).reshape(len(rows), width)


def _table(table) -> BlockTable:
    if not isinstance(table, BlockTable):
        raise TypeError(f"tables must hold BlockTables, not {shown(table)}")
    return table


class DeviceBlockTables:
    """An int32 tensor [max_seqs, max_blocks] on `device`, at one address for life, so that a captured CUDA graph can
    read it.

    Each `update` sends what changed since the one before, in one copy. Entries of no table read -1.
    """

    @lasting
    def __init__(self, max_seqs: int, max_blocks: int, device="cpu"):
        shape = whole_number("max_seqs", max_seqs, 1, MAX_BLOCKS), whole_number("max_blocks", max_blocks, 1, MAX_BLOCKS)
        self._tensor = torch.full(shape, PADDING, dtype=torch.int32, device=here(device))
        self._seen: dict[
            int, tuple[BlockTable, int, int]
        ] = {}  # row -> its table, the version sent, the columns in use
        self._row: dict[Hashable, int] = {}  # of those that `place` has given one
        self._free = list(range(max_seqs - 1, -1, -1))
        self._staging = cycle([_Staging(self._tensor.device), _Staging(self._tensor.device)])

    def update(self, tables: Mapping[int, BlockTable]) -> torch.Tensor:
        """Make row i equal to tables[i], and every row that is not named -1. Returns the tensor [max_seqs, max_blocks].

        On a GPU the change is queued on the current stream without waiting for it. Raises ValueError or TypeError,
        changing nothing, for a row out of range, a table that is longer than a row, or one that was freed.
        """
        if not isinstance(tables, Mapping):
            raise TypeError(f"tables must map rows to BlockTables, not be {shown(tables)}")
        seen, rows, columns, values = {}, [], [], []
        for row, table in tables.items():
            sent = old_table, old_version, old_end = self._seen.get(row, UNSEEN)
            version = table.version if table is old_table else _table(table).version
            if table is old_table and version == old_version:
                seen[row] = sent
                continue
            start, tail = table.changes(old_version if table is old_table else -1)
            end = start + len(tail)
            whole_number("a row of tables", row, 0, self._tensor.shape[0] - 1)
            whole_number("the blocks of a table", end, 0, self._tensor.shape[1])
            seen[row] = table, version, end
            tail += [PADDING] * (old_end - end)
            rows += [row] * len(tail)
            columns += range(start, start + len(tail))
            values += tail
        for row in self._seen.keys() - seen.keys():
            old_end = self._seen[row][2]
            rows += [row] * old_end
            columns += range(old_end)
            values += [PADDING] * old_end
        if rows:
            rows, columns, values = next(self._staging).send(rows + columns + values).view(3, -1)
            self._tensor[rows, columns] = values
        self._seen = seen
        return self._tensor

    def place(self, tables: Mapping[Hashable, BlockTable]) -> tuple[list[int], torch.Tensor]:
        """`update` with a row for each table that it keeps from call to call under the same name, so that little
        travels when one in the middle is gone. Returns (the rows in this order, the tensor).

        Raises ValueError where there are more tables than rows.
        """
        if len(tables) > self._tensor.shape[0]:
            raise ValueError(f"tables must be at most {self._tensor.shape[0]}, one a row, not {len(tables)}")
        for name in [name for name in self._row if name not in tables]:
            self._free.append(self._row.pop(name))
        for name in tables:
            if name not in self._row:
                self._row[name] = self._free.pop()
        rows = [self._row[name] for name in tables]
        return rows, self.update(dict(zip(rows, tables.values(), strict=True)))


class _Staging:
    """The way of a list of numbers to the device: on a GPU through pinned memory, so that the copy runs while the CPU
    goes on.

    The pinned buffer is not rewritten before its last copy is done. With two buffers in turn that wait is over by then.
    """

    def __init__(self, device: torch.device):
        self._device = device
        if device.type == "cuda":
            self._reserve(0)
            self._copied = torch.cuda.Event()

    @lasting
    def _reserve(self, size: int) -> None:
        self._buffer = torch.empty(size, dtype=torch.int32, device="cpu", pin_memory=True)

    def send(self, numbers: list[int]) -> torch.Tensor:
        packed = torch.from_numpy(np.array(numbers, dtype=np.int32))
        if self._device.type != "cuda":
            return packed.to(self._device)
        self._copied.synchronize()
        if len(packed) > len(self._buffer):
            self._reserve(2 * len(packed))
        sent = self._buffer[: len(packed)].copy_(packed).to(self._device, non_blocking=True)
        self._copied.record(torch.cuda.current_stream(self._device))
        return sent
