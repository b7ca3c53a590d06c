"""Who runs next, with how many tokens, in which slots: the only place where blocks are given and taken.

Running requests come first, in order of admission. When a block is missing, the latest admitted gives all of its own
back and returns to the head of the queue. A new request is admitted when all of its tokens fit and the watermark stays
free, and not in a step that preempted; with nothing running neither rule holds. A token budget is spent in the same
order, so at most one request, the latest, is partly prefilled.
"""

from collections import deque
from math import inf

from pagedkv.arguments import finite_number, having, whole_number
from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.engine.request import Generation, Step
from pagedkv.engine.window import Window
from pagedkv.prefix_cache import PrefixCache
from pagedkv.sizing import ceil_div


class Scheduler:
    """Serves requests from `pool`, first come, first served; at most `max_running`, and `token_budget` tokens a step.

    - `watermark`: the share of the pool that an admission leaves free. `prefix`: reuse of blocks.
    - `host`: a `swap.HostPool` for the K and V of preempted requests, else they are computed again.
    - `new_table(pool, blocks)` makes a table. `max_blocks`: the longest table that the runner takes.
    - `window`: how many tokens every layer of the model sees, the current one included; blocks behind it are given
      back. A step's tokens and the window before them must fit in the pool then, so the budget may be smaller than
      `token_budget`, and a sequence longer than the pool.
    """

    def __init__(
        self, pool: BlockPool, *, token_budget: int | None = None, max_running: int | None = None,
        watermark: float = 0.01, prefix: PrefixCache | None = None, host=None,
        new_table: type[BlockTable] = BlockTable, max_blocks: int | None = None, window: int | None = None,
    ):  # fmt: skip
        self.pool = having("pool", pool, "a BlockPool", "allocate", "num_blocks")
        self.prefix = having("prefix", prefix, "a PrefixCache", "match", "insert", or_none=True)
        self.host = having("host", host, "a HostPool", "park", "bring_back", "drop", or_none=True)
        self.new_table = having("new_table", new_table, "a class of tables", "__call__")
        self.watermark_blocks = int(finite_number("watermark", watermark, 0, 1) * pool.num_blocks)
        self.max_running = inf if max_running is None else whole_number("max_running", max_running, 1)
        budget = inf if token_budget is None else whole_number("token_budget", token_budget, 1)
        most = pool.num_blocks if max_blocks is None else whole_number("max_blocks", max_blocks, 1)
        self.window = Window.of(window, pool)
        self.token_budget = min(budget, self.window.budget) if self.window else budget
        self.max_blocks = most if self.window else min(pool.num_blocks, most)
        self.waiting: deque[Generation] = deque()
        self.running: dict[int, Generation] = {}  # by id, in order of admission
        self.live: dict[int, Generation] = {}  # both

    def check(self, request: Generation) -> None:
        """Raise ValueError if the request could not run even alone."""
        having("request", request, "a Generation", "max_stored")
        needed, new = ceil_div(request.max_stored, self.pool.block_size), request.sampling.max_new_tokens
        if needed > self.max_blocks:
            wanted = f"the prompt of {request.num_prompt} tokens and max_new_tokens of {new} need {needed} blocks"
            raise ValueError(f"{wanted}, and a request can have {self.max_blocks}")

    def add(self, request: Generation) -> None:
        """Queue it at the end; ValueError if it could not run even alone, or if its id is here."""
        self.check(request)
        if request.request_id in self.live:
            raise ValueError(f"request_id {request.request_id!r} is that of a request that waits or runs")
        self.live[request.request_id] = request
        self.waiting.append(request)

    def schedule(self) -> Step:
        """Take blocks for the next step. Every request in it is stored as far as the step will have run. Whatever is
        raised on the way, the step is undone.
        """
        step, budget = Step(), self.token_budget
        try:
            if self.window:
                for request in self.running.values():
                    self.window.drop(request)
            for request in list(self.running.values()):
                if budget == 0 or request.table is None:  # preempted in this step, as are all behind it
                    break
                budget -= self._grow(request, min(request.num_pending, budget), step)
            if not step.preempted or not self.running:
                self._admit(budget, step)
        except BaseException:
            self.undo(step)
            raise
        return step

    def finish(self, request: Generation, reason: str) -> None:
        """Let go of all that a request holds, wherever it is: the one way out, for end, stop and abort."""
        if self.running.pop(request.request_id, None) is None:
            if request not in self.waiting:
                raise ValueError(f"request {request.request_id} neither waits nor runs: a schedule has lost it")
            self.waiting.remove(request)
        del self.live[request.request_id]
        self._release(request)
        self._drop_parked(request)
        request.finish_reason = reason

    def undo(self, step: Step) -> None:
        """A step that failed was not run: its tokens are not stored, and nobody finds blocks that were not written.

        Those it admitted wait again, at the head: they may share such blocks.
        """
        for request, n in step.work:
            before = request.table.num_tokens - n
            for block_id in request.table.blocks[before // self.pool.block_size :]:
                self.pool.forget(block_id)
            request.table.truncate(before)
        for request in [one for one in reversed(step.admitted) if one.request_id in self.running]:
            self._requeue(request)  # the others had to go at once

    def _grow(self, request: Generation, n: int, step: Step) -> int:
        """Slots for the next `n` tokens of a running request; 0 if it had to go for want of a block."""
        while request.table is not None:
            try:
                slots, copies = request.table.append(n)
            except OutOfBlocks:
                self._preempt(next(reversed(self.running.values())), step)
                if request.table is None and self.pool.num_free == self.pool.num_blocks:  # nor has it room alone
                    raise
                continue
            step.work.append((request, n))
            step.slots += slots
            step.copies += copies
            stored, size = request.table.num_tokens, self.pool.block_size
            if stored == len(request.tokens):
                step.ready.append(request)
            known = (stored - n) // size
            if stored // size > known and self.prefix is not None and request.clears == self.prefix.clears:
                # Now: whoever is admitted in this very step may share them, since a layer writes before it reads.
                self.prefix.insert(request.tokens[:stored], request.table.blocks, known, identity=request.identity)
            return n
        return 0

    def _preempt(self, request: Generation, step: Step) -> None:
        stored = request.table.num_tokens
        if self.host is not None:
            request.parked = self.host.park(request.table)  # None: no room
        self._requeue(request)
        request.preemptions += 1
        step.preempted.append(request)
        if request.parked is None:
            step.lost += stored
        else:
            step.parked += stored - request.parked.first_block * self.pool.block_size

    def _requeue(self, request: Generation) -> None:
        del self.running[request.request_id]
        self._release(request)
        self.waiting.appendleft(request)

    def _admit(self, budget: int, step: Step) -> None:
        while self.waiting and budget and len(self.running) < self.max_running and self._fits(self.waiting[0]):
            request, found = self.waiting.popleft(), []
            step.admitted.append(request)
            self.running[request.request_id] = request
            if self.prefix is not None:
                if request.clears != self.prefix.clears:  # computed before it was cleared
                    self._drop_parked(request)
                request.clears = self.prefix.clears
                if request.parked is None or not request.parked.first_block:
                    found = self.prefix.match(request.tokens, request.identity)
            try:
                request.table = self.new_table(self.pool, found)
            except BaseException:  # of a learner's own: what was found is not held yet
                self.pool.free(found)
                raise
            step.reused += request.table.num_tokens
            if request.parked is not None:
                self._bring_back(request, step)
            if self.window:
                self.window.drop(request)
            granted = self._grow(request, min(request.num_pending, budget), step)
            if not granted:  # a table that takes more blocks than its tokens fill: not again in this step
                break
            budget -= granted

    def _fits(self, request: Generation) -> bool:
        """Whether all known tokens have room now, beside the watermark if others run. Blocks that are found in the
        prefix cache need none; those of them that wait in the free list are not free for anything else.
        """
        free = self.pool.num_free - (self.watermark_blocks if self.running else 0)
        needed = ceil_div(len(request.tokens), self.pool.block_size)
        if self.window:  # no more than a window and a step at a time, found or not
            needed = min(needed, self.window.blocks(self.token_budget))
        elif needed > free and self.prefix is not None:
            found, idle = self.prefix.peek(request.tokens, request.identity)
            needed, free = needed - found, free - idle
        return needed <= free

    def _bring_back(self, request: Generation, step: Step) -> None:
        """From the host only what was not found in blocks that others computed, or that nobody has taken since."""
        table, parked = request.table, request.parked
        if parked.first_block:  # then nothing was looked for
            table.skip(parked.first_block)
        first, missing = table.num_tokens // self.pool.block_size, max(parked.num_tokens - table.num_tokens, 0)
        table.append(missing)
        self.host.bring_back(parked, table, first)
        self._drop_parked(request)
        step.restored += missing

    def _drop_parked(self, request: Generation) -> None:
        if request.parked is not None:
            self.host.drop(request.parked)
            request.parked = None

    def _release(self, request: Generation) -> None:
        if request.table is not None:
            request.table.free()
            request.table = None
