"""How much memory each policy holds for a request, and when: the one thing in which the five differ.

A policy has three verbs: `admit` (the prompt is stored), `grow` (one more token is), `release`. `refusal` says whether
a request can never fit. `grow_all` grows all by many tokens at once, as far as nothing but growth happens.
"""

from functools import cached_property

from pagedkv.arguments import finite_number, shown, whole_number
from pagedkv.block_pool import OutOfBlocks
from pagedkv.simulation.arena import Arena, BuddyArena
from pagedkv.simulation.workload import Request
from pagedkv.sizing import BLOCK_SIZE, MAX_BLOCK_SIZE, MAX_BLOCKS, ceil_div


class Policy:
    """What the simulator relies on. One of your own needs `slots`, `admit`, `grow` and `release`; the rest may stay.

    `admit` and `grow` raise OutOfMemory or OutOfBlocks, changing nothing, when there is no room now. In contiguous
    memory `held` maps request ids to extents; a policy with a `block_size` holds just the blocks that the tokens need.
    """

    slots: int  # token slots it manages
    block_size: int | None = None  # None: contiguous
    copied_tokens = 0

    @cached_property
    def held(self) -> dict:
        """What each request holds, by its id."""
        return {}

    def refusal(self, request: Request) -> str | None:
        """Why this request can never be served, or None."""

    def grow_all(self, steps: int) -> int:
        """Grow every request by up to `steps` tokens at once; return by how many. What is left is done by `grow`."""
        return 0

    def _check_new(self, request: Request) -> None:
        if not isinstance(request, Request):
            raise TypeError(f"request must be a Request, not {shown(request)}")
        if request.request_id in self.held:
            raise ValueError(f"request {request.request_id} is held already")
        if reason := self.refusal(request):
            raise ValueError(reason)

    def _check_held(self, request: Request) -> None:
        if not isinstance(request, Request) or request.request_id not in self.held:
            what = shown(getattr(request, "request_id", request))
            raise ValueError(f"request {what} is not held: it was never admitted, or released before")


class Reservation(Policy):
    """One extent for a request's whole life, from the first step on. Subclasses say how many slots they ask for."""

    def __init__(self, arena: Arena | BuddyArena):
        if not isinstance(arena, (Arena, BuddyArena)):
            raise TypeError(f"arena must be an Arena or a BuddyArena, not {shown(arena)}")
        self.arena = arena
        self.slots = arena.capacity

    def asked(self, request: Request) -> int:
        """Slots to reserve. Never fewer than prompt and output together."""
        raise NotImplementedError

    def refusal(self, request: Request) -> str | None:
        asked, total = self.asked(request), request.total_tokens
        if asked < total:
            return f"request {request.request_id} will store {total} tokens, only {asked} slots are asked for"
        return self._too_large(request, asked)

    def _too_large(self, request: Request, slots: int) -> str | None:
        if slots > self.arena.largest_request:
            return (
                f"request {request.request_id} needs {slots} slots in a row, the arena has at most "
                f"{self.arena.largest_request} in a row"
            )

    def admit(self, request: Request) -> None:
        """Reserve.

        Raises OutOfMemory, changing nothing, when no hole is large enough now, ValueError when none ever will be.
        """
        self._check_new(request)
        self.held[request.request_id] = self.arena.allocate(self.asked(request))

    def grow(self, request: Request) -> None:
        """One more token. Its slot has been reserved since the start."""
        self._check_held(request)

    def grow_all(self, steps: int) -> int:
        return steps

    def release(self, request: Request) -> None:
        self._check_held(request)
        self.arena.free(self.held.pop(request.request_id))


class MaxLength(Reservation):
    """Every request gets the longest sequence the model allows."""

    def __init__(self, arena, max_seq_len: int = 2048):
        super().__init__(arena)
        self.max_seq_len = whole_number("max_seq_len", max_seq_len, 1, arena.largest_request)

    def asked(self, request):
        return self.max_seq_len

    def refusal(self, request):
        if request.total_tokens > self.max_seq_len:
            return f"request {request.request_id} needs {request.total_tokens} slots, max_seq_len is {self.max_seq_len}"
        return super().refusal(request)


class PowerOfTwo(MaxLength):
    """The prompt and the next power of two of the output, at most twice too long; capped at max_seq_len."""

    def asked(self, request):
        guess = 1 << (request.output_tokens - 1).bit_length() if request.output_tokens else 0
        return min(request.prompt_tokens + guess, self.max_seq_len)


class Oracle(Reservation):
    """Exactly what the request will need, as if its output length were known."""

    def asked(self, request):
        return request.total_tokens


class GrowByCopy(Reservation):
    """Extents of `initial`, `initial * factor`, `initial * factor**2`, ... slots: the smallest with room for one more
    token. When it is full, the next larger one is taken, the tokens are copied over and the old one is freed: for a
    moment both are needed.
    """

    def __init__(self, arena, initial: int = 256, factor: float = 2.0):
        super().__init__(arena)
        self.initial = whole_number("initial", initial, 1, arena.largest_request)
        self.factor = finite_number("factor", factor, 1, above=True)
        self.copied_tokens = 0
        self._room = {}  # request_id -> free slots at the end of its extent

    def asked(self, request):
        return self._grown(self.initial, request.prompt_tokens)

    def refusal(self, request):
        return self._too_large(request, request.total_tokens)

    def admit(self, request):
        super().admit(request)
        self._room[request.request_id] = self.held[request.request_id].requested - request.prompt_tokens

    def grow(self, request):
        """One more token. Raises OutOfMemory, changing nothing, when no hole can take the larger extent."""
        self._check_held(request)
        if not self._room[request.request_id]:
            self._move(request.request_id)
        self._room[request.request_id] -= 1

    def grow_all(self, steps):
        steps = min(steps, *self._room.values()) if self._room else steps
        for request_id in self._room:
            self._room[request_id] -= steps
        return steps

    def release(self, request):
        super().release(request)
        del self._room[request.request_id]

    def _grown(self, size: int, tokens: int) -> int:
        """`size` grown by `factor` until it holds more than `tokens`."""
        while size <= min(tokens, most := self.arena.largest_request):
            size = max(int(min(size * self.factor, most)), size + 1)
        return min(size, most)

    def _move(self, request_id: int) -> None:
        old = self.held[request_id]
        size = self._grown(old.requested, old.requested)
        self.held[request_id] = self.arena.allocate(size)
        self.copied_tokens += old.requested
        self._room[request_id] = size - old.requested
        self.arena.free(old)


class Paged(Policy):
    """Blocks on demand: a request holds just enough of them for the tokens it has (Kwon et al., SOSP 2023).

    All blocks are alike, so the policy only counts them; which block goes to whom is BlockPool's business. A new
    request must leave `watermark` of the pool free for the growth of the others; growth itself may use every block.
    """

    def __init__(self, num_blocks: int, block_size: int = BLOCK_SIZE, watermark: float = 0.01):
        self.num_blocks = whole_number("num_blocks", num_blocks, 1, MAX_BLOCKS)
        self.block_size = whole_number("block_size", block_size, 1, MAX_BLOCK_SIZE)
        self.watermark_blocks = int(finite_number("watermark", watermark, 0, 1) * self.num_blocks)
        self.slots = self.num_blocks * self.block_size
        self.num_free = self.num_blocks
        # Growing together only moves a clock: a request has held[id] + _clock tokens, and its last block is full when
        # that is a multiple of block_size. _phases counts the requests by held[id] % block_size.
        self._clock = 0
        self._phases = [0] * self.block_size

    def refusal(self, request: Request) -> str | None:
        needed = self._blocks(request.total_tokens)
        if needed > self.num_blocks:
            total = f"the pool has {self.num_blocks} in total"
            return f"request {request.request_id} needs {needed} blocks of {self.block_size} slots, {total}"

    def admit(self, request: Request) -> None:
        """Take blocks for the prompt. Raises OutOfBlocks, changing nothing, when that would go below the watermark;
        with nothing else running the watermark does not count. Raises ValueError when the request can never fit."""
        self._check_new(request)
        needed = self._blocks(request.prompt_tokens)
        free = self.num_free - (self.watermark_blocks if self.held else 0)
        if needed > free:
            raise OutOfBlocks(needed, max(free, 0))
        self.num_free -= needed
        self._enter(request.request_id, request.prompt_tokens - self._clock)

    def grow(self, request: Request) -> None:
        """One more token; a new block if the last is full. Raises OutOfBlocks, changing nothing, when there is none."""
        full = self.tokens(request) % self.block_size == 0
        if full and not self.num_free:
            raise OutOfBlocks(1, 0)
        self.num_free -= full
        self._enter(request.request_id, self._leave(request.request_id) + 1)

    def grow_all(self, steps: int) -> int:
        """Grow every request by up to `steps` tokens, stopping before the first step for which the free blocks do not
        suffice.
        """
        for step in range(steps):
            needed = self._phases[-self._clock % self.block_size]
            if needed > self.num_free:
                return step
            self.num_free -= needed
            self._clock += 1
        return steps

    def release(self, request: Request) -> None:
        self.num_free += self._blocks(self.tokens(request))
        self._leave(request.request_id)

    def tokens(self, request: Request) -> int:
        """Tokens that the request has stored."""
        self._check_held(request)
        return self.held[request.request_id] + self._clock

    def _blocks(self, tokens: int) -> int:
        return ceil_div(tokens, self.block_size)

    def _enter(self, request_id: int, offset: int) -> None:
        self.held[request_id] = offset
        self._phases[offset % self.block_size] += 1

    def _leave(self, request_id: int) -> int:
        offset = self.held.pop(request_id)
        self._phases[offset % self.block_size] -= 1
        return offset
