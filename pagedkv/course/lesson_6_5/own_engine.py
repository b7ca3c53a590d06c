"""An engine on parts that a learner wrote: those that were kept, three ways to fill the hole in its model, and all
of it put together.

    engine(model, 24, 4, pool=MyPool, table=MyTable, attend=query_by_query(decode, as_decodes), calls=calls)

What is left out is the package's, without a wrapper. `calls` counts what is asked of each part.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import torch

from pagedkv.attention.paged import write_kv
from pagedkv.block_pool import BlockPool
from pagedkv.course.judge.keep import mine
from pagedkv.course.lesson_6_5.wrappers import ByHand, OwnPool, OwnPrefix, OwnTable
from pagedkv.engine.batch import paged
from pagedkv.engine.engine import Engine
from pagedkv.engine.runner import Runner
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache

TOGETHER = (("pool",), ("table",), ("hash", "match"), ("schedule",), ("attention",), ("attend",), ("kernel",))


def collect() -> tuple[dict, list[str]]:
    """What was kept in earlier lessons, the package's part where nothing was; and the names of what was kept."""
    with suppress(ImportError):
        import pagedkv.attention.triton  # noqa: F401 (first: where there is no GPU it chooses the interpreter)
    parts = {}
    for names in TOGETHER:
        found = mine(*names)
        parts |= zip(names, found if len(names) > 1 else (found,), strict=True)
    return parts, [name for name, part in parts.items() if getattr(part, "fn", part).__module__ == f"mine_{name}"]


def query_by_query(decode: Callable, as_decodes: Callable, calls: Counter | None = None) -> Callable:
    """Attention of lesson 4.1, one query of one head, in the place of a whole batch's."""
    calls = Counter() if calls is None else calls

    def hole(cache, batch):
        tables, lens = as_decodes(batch.positions, batch.block_tables, batch.query_start_loc)

        def attend(layer, q, k, v):
            k_cache, v_cache = cache.k[layer], cache.v[layer]
            write_kv(k, v, k_cache, v_cache, batch.slots, backend="torch")
            out, group = torch.empty_like(q), q.shape[1] // k.shape[1]
            for row, length in enumerate(lens.tolist()):
                for head in range(q.shape[1]):
                    calls["attention"] += 1
                    own = k_cache[:, :, head // group], v_cache[:, :, head // group]
                    out[row, head] = decode(q[row, head], *own, tables[row], length)
            return out

        return attend

    return hole


def whole_batch(function: Callable, calls: Counter | None = None) -> Callable:
    """The function of lesson 6.1, which takes a batch as it is."""
    calls = Counter() if calls is None else calls

    def hole(cache, batch):
        def attend(layer, q, k, v):
            calls["attend"] += 1
            return function(cache, batch, layer, q, k, v)

        return attend

    return hole


def in_one_launch(kernel, as_decodes: Callable, calls: Counter | None = None) -> Callable:
    """The kernel of lesson 4.3: one launch for all queries and heads of a layer, on the GPU where there is one."""
    calls = Counter() if calls is None else calls
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def hole(cache, batch):
        tables, lens = as_decodes(batch.positions, batch.block_tables, batch.query_start_loc)

        def attend(layer, q, k, v):
            calls["kernel"] += 1
            k_cache, v_cache = cache.k[layer], cache.v[layer]
            write_kv(k, v, k_cache, v_cache, batch.slots, backend="torch")
            given = [tensor.to(device).contiguous() for tensor in (q, k_cache, v_cache, tables, lens)]
            out = torch.empty(q.shape, dtype=torch.float32, device=device)
            kernel[(q.shape[1], len(q))](
                *given, out, q.shape[2] ** -0.5, given[0].stride(0), tables.shape[1],
                BLOCK=cache.block_size, DIM=q.shape[2], GROUP=q.shape[1] // k.shape[1],
            )  # fmt: skip
            return out.to(q)

        return attend

    return hole


class OwnRunner(Runner):
    """The package's runner with another hole in its model."""

    def __init__(self, *arguments, hole: Callable, **options):
        super().__init__(*arguments, **options)
        self.hole = hole

    def logits(self, batch):
        return self.model(batch.tokens, batch.positions, self.hole(self.cache, batch), batch.last)


def engine(
    model, num_blocks: int, block_size: int = 4, *, pool=None, table=None, reuse=None, attend=None, schedule=None,
    calls: Counter | None = None, **options,
) -> Engine:  # fmt: skip
    """pool, table: classes of 3.1. reuse: (names, match) of 3.3. attend: (cache, batch) -> the hole. schedule: of 6.2,
    which knows nothing of reuse. options: of the Scheduler.
    """
    calls = Counter() if calls is None else calls
    blocks = OwnPool(pool, num_blocks, block_size, calls) if pool else BlockPool(num_blocks, block_size)
    if table:
        options["new_table"] = lambda pool, found=(): OwnTable(table, pool, calls, found)
    if schedule:
        scheduler = ByHand(blocks, schedule, calls, **options)
    else:
        prefix = OwnPrefix(blocks, *reuse, calls) if reuse else PrefixCache(blocks)
        scheduler = Scheduler(blocks, prefix=prefix, **options)
    runner = OwnRunner(model, num_blocks, block_size, hole=attend or paged)
    return Engine(scheduler, runner, model.shape.vocab_size)
