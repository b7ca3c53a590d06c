"""The memory that a kernel sees in Triton's interpreter when it is judged: its tensors and nothing else, each address
looked at before it is followed.

Addresses are made up. Each tensor's begin in a window of 2⁵⁴ bytes of its own, so that an address always tells which
tensor it was counted from, however far off it is, and none leads into the memory of this process. A tensor may be the
far end of a larger one, all of whose rest reads as NaN: offsets into it need 64 bits. A fault says which program, in
which line, reads or writes which element of what.
"""

import sys
from typing import NamedTuple

import numpy as np

from pagedkv.course.judge.compare import Wrong

WINDOW = 54  # bits
FAR = 10**8  # what a whole number is that a load hides and no `other` says: as a block id it leads out of any tensor
ORDER = ": programs run many at once, in any order"


class Fault(Wrong):
    """Something that a kernel does and must not. `str` quotes numbers, `plain` does not; `key` says what it was, such
    as ("writes", "cache", "before").
    """

    def __init__(self, quoted: str, plain: str, key: tuple[str, ...] = ()):
        super().__init__(quoted, plain, key)
        self.plain, self.key = plain, key

    def __str__(self) -> str:
        return self.args[0]


class Room(NamedTuple):
    """One tensor: the bytes of its storage, where in them it begins, and which of the elements from there are its."""

    name: str
    bytes: np.ndarray
    start: int
    itemsize: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    owned: np.ndarray  # for each element from the first to the last
    writer: np.ndarray  # for each of these, the program that wrote it; -1: none
    far: int = 0  # how many elements of the tensor that the kernel is told of lie in front, and are not there

    @classmethod
    def of(cls, name: str, tensor, far: int = 0) -> "Room":
        import torch

        storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()
        shape, stride = tuple(tensor.shape), tensor.stride()
        span = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) if tensor.numel() else 0
        owned = np.zeros(span, bool)
        if span:
            np.lib.stride_tricks.as_strided(owned, shape, stride)[...] = True
        start = tensor.storage_offset() * tensor.element_size()
        return cls(name, storage, start, tensor.element_size(), shape, stride, owned, np.full(span, -1), far)

    def view(self, per_element: np.ndarray) -> np.ndarray:
        """What there is for each element from the first to the last, in the tensor's shape."""
        if not per_element.size:
            return np.zeros(self.shape, per_element.dtype)
        steps = [step * per_element.itemsize for step in self.stride]
        return np.lib.stride_tricks.as_strided(per_element, self.shape, steps)

    def content(self) -> np.ndarray:
        """The bytes of the elements from the first to the last, [span, itemsize]."""
        return self.bytes[self.start : self.start + len(self.owned) * self.itemsize].reshape(-1, self.itemsize)


class Memory:
    """Stands where the interpreter has its own `load` and `store`; all else that it asks for is passed on to `rest`."""

    def __init__(self, rooms: list[Room], outputs: tuple[str, ...], kernel_file: str):
        self.rooms, self.outputs, self.kernel_file, self.rest = rooms, outputs, kernel_file, None
        self.program, self.serial = (0,), 0  # who runs: its place in the grid, and its number

    def address(self, number: int) -> int:
        """What the kernel gets as the pointer to a tensor."""
        return (number + 1 << WINDOW) - self.rooms[number].far * self.rooms[number].itemsize

    def __getattr__(self, name: str):
        if name.startswith("atomic"):
            raise Wrong("atomic operations are not judged here: let each program write only what is its own")
        return getattr(self.rest, name)

    def load(self, pointers, mask, other, dtype) -> np.ndarray:
        mask = np.broadcast_to(np.asarray(mask).astype(bool), pointers.shape)
        loaded = np.array(np.broadcast_to(other, pointers.shape), dtype)
        live = loaded[mask].view(np.uint8).reshape(-1, loaded.itemsize)
        for room, lanes, elements, at in self._found(pointers[mask], loaded.itemsize, "reads"):
            there = elements >= 0  # else a part of a larger tensor that is not there: it holds NaN
            if self._by_others(room, elements[there]).any():
                raise self._fault(f"reads what another program writes to `{room.name}`{ORDER}", "reads", room, "race")
            live[lanes[there]] = room.bytes[at[there]]
            live[lanes[~there]] = np.array([np.nan if loaded.dtype.kind == "f" else FAR], loaded.dtype).view(np.uint8)
        loaded[mask] = live.reshape(-1).view(dtype)
        return loaded

    def store(self, pointers, value, mask) -> None:
        mask = np.broadcast_to(np.asarray(mask).astype(bool), pointers.shape)
        value = np.ascontiguousarray(np.broadcast_to(value, pointers.shape)[mask])
        new = value.view(np.uint8).reshape(-1, value.itemsize)
        for room, lanes, elements, at in self._found(pointers[mask], value.itemsize, "writes"):
            if room.name not in self.outputs:
                raise self._fault(f"writes into `{room.name}`, which it is only to read", "writes", room, "input")
            if (self._by_others(room, elements) & (room.bytes[at] != new[lanes]).any(1)).any():
                raise self._fault(
                    f"overwrites what another has written to `{room.name}`{ORDER}", "writes", room, "race"
                )
            room.bytes[at] = new[lanes]
            if (room.bytes[at] != new[lanes]).any():
                said = f"writes two different numbers to one element of `{room.name}`, from two lanes of one store"
                raise self._fault(said, "writes", room, "twice")
            room.writer[elements] = self.serial

    def _by_others(self, room: Room, elements: np.ndarray) -> np.ndarray:
        """Whether another program of this launch has written each element."""
        return (room.writer[elements] >= 0) & (room.writer[elements] != self.serial)

    def _found(self, pointers, itemsize: int, verb: str) -> list[tuple]:
        """(room, its lanes, their elements, their bytes [lanes, itemsize]) for each tensor with any of these addresses;
        all are judged before the first is handed out.
        """
        addresses = pointers.astype(np.uint64).view(np.int64)
        owner = (addresses + (1 << WINDOW - 1) >> WINDOW) - 1
        found = []
        for number in np.unique(owner).tolist():
            lanes = np.flatnonzero(owner == number)
            if not 0 <= number < len(self.rooms):
                raise self._fault(f"{verb} at an address that belongs to no tensor", verb, None, "nowhere")
            room = self.rooms[number]
            offsets = addresses[lanes] - (number + 1 << WINDOW)
            elements = offsets // room.itemsize
            self._judge(room, elements, verb)
            if (offsets % room.itemsize).any() or itemsize != room.itemsize:
                said = f"{verb} `{room.name}` as numbers of another size than it has"
                raise self._fault(said, verb, room, "odd")
            found.append((room, lanes, elements, room.start + offsets[:, None] + np.arange(itemsize)))
        return found

    def _judge(self, room: Room, elements: np.ndarray, verb: str) -> None:
        inside = (elements >= 0) & (elements < len(room.owned))
        inside[inside] = room.owned[elements[inside]]
        wrapped = ~inside & (room.far > 0) & (elements % 2**32 < len(room.owned))
        if verb == "reads":
            inside |= (elements < 0) & (elements >= -room.far) & ~wrapped
        if inside.all():
            return
        element = int(elements[~inside][0])
        if wrapped.any():
            raise self._fault(f"{verb} far from `{room.name}`", verb, room, "wrapped")
        side = "before" if element < 0 else "behind" if element >= len(room.owned) else "between"
        step, count = (room.stride[0], room.shape[0]) if room.shape else (1, 1)
        if side == "between":
            said = f"{verb} between two rows of `{room.name}`"
            raise self._fault(f"{said}, which are {step:,} apart (element {element:,})", verb, room, side, said)
        what, place = ("row", f" (element {element:,})") if len(room.shape) > 1 and step else ("element", "")
        number = element // step if place else element
        has = f"which has {what}s 0 to {count - 1:,}" if count else f"which has no {what}s"
        quoted = f"{verb} {what} {number:,} of `{room.name}`, {has}{place}"
        plain = f"{verb} {'in front of' if side == 'before' else 'past the end of'} `{room.name}`"
        raise self._fault(quoted, verb, room, side, plain)

    def _fault(self, said: str, verb: str, room: Room | None, what: str, plain: str = "") -> Fault:
        """`said` of the program that runs, in the line of its kernel that runs."""
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self.kernel_file:
            frame = frame.f_back
        where = f"in line {frame.f_lineno} of its cell, " if frame else ""
        who = self.program[0] if len(self.program) == 1 else self.program
        key = (verb, room.name if room else "", what)
        return Fault(f"{where}program {who} {said}", f"{where}a program {plain or said}", key)
