"""What puts parts that a learner wrote into the package's engine. Theirs offer less than the engine asks for; each
wrapper here offers the rest and hands the work on. `calls` counts what was asked.
"""

from collections import Counter
from collections.abc import Callable

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import Appended, BlockTable
from pagedkv.engine.request import Step
from pagedkv.engine.scheduler import Scheduler


class OwnPool(BlockPool):
    """A pool of lesson 3.1 does the work; who owns what is noted here, for names that are lost with the last owner."""

    def __init__(self, cls, num_blocks: int, block_size: int, calls: Counter):
        super().__init__(num_blocks, block_size)
        self.own, self.calls = cls(num_blocks, block_size), calls
        self.owners, self.named = Counter(), {}

    num_free = property(lambda self: self.own.num_free)

    def allocate(self, n):
        self.calls["pool"] += 1
        ids = list(self.own.allocate(n))
        self.owners.update(ids)
        return ids

    def share(self, ids):
        self.calls["pool"] += 1
        self.own.share(list(ids))
        self.owners.update(ids)

    def free(self, ids):
        self.calls["pool"] += 1
        ids = list(ids)
        self.own.free(list(ids))
        self.owners.subtract(ids)
        for block in ids:
            if not self.owners[block]:
                self.forget(block)

    def ref_count(self, block_id):
        return self.owners[block_id]

    def claim(self, block_id):
        if self.owners[block_id] > 1:
            return False
        self.forget(block_id)
        return True

    def keep(self, block_id, on_lost):
        self.named[block_id] = on_lost

    def forget(self, block_id):
        if on_lost := self.named.pop(block_id, None):
            on_lost(block_id)


class OwnTable(BlockTable):
    """A table of lesson 3.1 holds the blocks; those that were found by their names stand before its own."""

    def __init__(self, cls, pool: BlockPool, calls: Counter, found=()):
        super().__init__(pool)
        self.own, self.calls, self.found = cls(pool), calls, list(found)

    blocks = property(lambda self: self.found + list(self.own.blocks))
    num_tokens = property(lambda self: len(self.found) * self.pool.block_size + self.own.num_tokens)
    version = property(lambda self: len(self.blocks))  # grows whenever the runner has to send it anew

    def changes(self, version):
        return 0, self.blocks

    def append(self, n):
        self.calls["table"] += 1
        return Appended(list(self.own.append(n)), [])

    def translate(self, position):
        self.calls["table"] += 1
        before = len(self.found)
        if position < before * self.pool.block_size:
            block, offset = divmod(position, self.pool.block_size)
            return block, offset, self.found[block], self.found[block] * self.pool.block_size + offset
        block, *rest = self.own.translate(position - before * self.pool.block_size)
        return before + block, *rest

    def free(self):
        self.own.free()
        self.pool.free(self.found[::-1])

    def truncate(self, num_tokens):
        """A table of 3.1 cannot: after a step that failed such an engine is of no use."""


class OwnPrefix:
    """Names and match of lesson 3.3 as the scheduler asks for them: `known` maps names to blocks."""

    def __init__(self, pool: BlockPool, names: Callable, match: Callable, calls: Counter):
        self.pool, self.names, self.find, self.calls, self.known = pool, names, match, calls, {}
        self.clears = 0  # it is never cleared

    def found(self, token_ids, identity):
        self.calls["match"] += 1
        return self.find(list(token_ids), self.pool.block_size, self.known, None, identity)

    def match(self, token_ids, identity=None):
        blocks = self.found(token_ids, identity)
        self.pool.share(blocks)
        return blocks

    def peek(self, token_ids, identity=None):
        blocks = self.found(token_ids, identity)
        return len(blocks), sum(not self.pool.ref_count(block) for block in blocks)

    def insert(self, token_ids, blocks, start=0, *, identity=None):
        self.calls["hash"] += 1
        names = self.names(list(token_ids), self.pool.block_size, None, identity)
        for name, block in list(zip(names, blocks, strict=False))[start:]:
            if self.known.setdefault(name, block) == block:
                self.pool.keep(block, self.forget)

    def forget(self, block):
        self.known = {name: other for name, other in self.known.items() if other != block}


class ByHand(Scheduler):
    """The package's scheduler, but for who runs: that says a function such as that of lesson 6.2."""

    def __init__(self, pool: BlockPool, decide: Callable, calls: Counter | None = None, **options):
        super().__init__(pool, **options)
        self.decide, self.calls = decide, Counter() if calls is None else calls

    def schedule(self) -> Step:
        self.calls["schedule"] += 1
        before, running = dict(self.running), list(self.running.values())
        given = self.pool, self.token_budget, self.watermark_blocks, self.new_table
        try:
            step = Step(work=list(self.decide(running, self.waiting, *given)))
        finally:  # if it raises, those that it admitted can be let go of
            self.running = {request.request_id: request for request in running}
        if running and not step.work:
            raise RuntimeError("schedule returns nobody, though requests run: they would stand still for ever")
        for request, n in step.work:
            stored = request.num_stored
            step.slots += [request.table.translate(position)[3] for position in range(stored - n, stored)]
            if request.num_pending == 0:
                step.ready.append(request)
        step.admitted = [request for number, request in self.running.items() if number not in before]
        step.preempted = [request for number, request in reversed(before.items()) if number not in self.running]
        for request in step.preempted:
            request.preemptions += 1
        return step
