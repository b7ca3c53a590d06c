"""Random runs of the engine on a model whose tokens are checksums, and faults that they must see."""

import importlib.util
import sys

import pytest

pytest.importorskip("torch")

import engine_machine  # noqa: E402
from engine_machine import continued, random_run  # noqa: E402

import pagedkv.engine.runner  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402

FEW, MANY = range(25), range(25, 340)


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.thorough)], ids=["few", "many"])
def test_every_token_is_right_and_nothing_is_lost(seeds):
    rows = [row for seed in seeds for row in random_run(seed).usage]
    for name in ("preempted", "lost", "parked", "reused", "restored"):
        assert sum(getattr(row, name) for row in rows) > 5, f"these runs say nothing of {name}"


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.thorough)], ids=["few", "many"])
def test_so_it_is_where_a_window_drops_blocks_of_a_small_pool(seeds):
    small, rows = dict(num_blocks=5, watermark=0.0, max_running=64, token_budget=None), []
    for seed in seeds:
        rows += random_run(seed, **small, window=[2, 5, 9][seed % 3], host_blocks=[0, 100][seed // 3 % 2]).usage
    for name in ("preempted", "lost", "parked", "restored"):
        assert sum(getattr(row, name) for row in rows) > 0, f"these runs say nothing of {name}"


def tokens_of(seed, **options):
    engine = engine_machine.random_engine(engine_machine.random.Random(seed), **options)
    prompts = [[(7 * seed + 5 * i + 3 * j) % 97 for j in range(3 + 4 * i)] for i in range(6)]
    sampling = [Sampling(10 + i) for i in range(6)]
    assert engine.generate(prompts, sampling) == [
        continued(prompt, how.max_new_tokens) for prompt, how in zip(prompts, sampling, strict=True)
    ]
    return engine


SMALL = dict(num_blocks=40, max_running=64, watermark=0.0, token_budget=None, reuse=False, keys=False, window=None)


def test_recompute_and_swap_have_the_same_schedule_and_another_bill():
    for seed in range(8):
        lost, parked = (tokens_of(seed, **SMALL, host_blocks=blocks).usage for blocks in (0, 1000))
        same = ("running", "waiting", "blocks_used", "tokens_stored", "preempted")
        assert [[getattr(row, name) for name in same] for row in lost] == [
            [getattr(row, name) for name in same] for row in parked
        ]
        assert sum(row.lost for row in lost) == sum(row.parked for row in parked) == sum(row.restored for row in parked)


def test_tokens_run_are_those_needed_and_those_lost_less_those_found():
    for seed in range(12):
        engine = tokens_of(seed, **SMALL | dict(reuse=seed % 2 == 1), host_blocks=0)
        needed = sum(3 + 4 * i + 10 + i - 1 for i in range(6))
        run = sum(row.prefill_tokens + row.decode_tokens for row in engine.usage)
        assert run == needed + sum(row.lost for row in engine.usage) - sum(row.reused for row in engine.usage)


# Faults: where -> what is right there, what stands there instead.
FAULTS = {
    "names a block that is not full": (
        "scheduler.Scheduler",
        "request.tokens[:stored], request.table.blocks",
        "request.tokens[: len(request.table.blocks) * self.pool.block_size], request.table.blocks",
    ),
    "brings back the first blocks instead of the missing": (
        "swap.HostPool",
        "parked.blocks[first_block - parked.first_block :]",
        "parked.blocks[: len(parked.blocks) - first_block + parked.first_block]",
    ),
    "asks for references before it is sure": (
        "scheduler.Scheduler",
        "found, idle = self.prefix.peek(",
        "self.prefix.match(request.tokens, request.identity)\n            found, idle = self.prefix.peek(",
    ),
    "an aborted request keeps its room on the host": (
        "scheduler.Scheduler",
        "        self._drop_parked(request)\n        request.f",
        "        request.f",
    ),
    "requeues at the tail": (
        "scheduler.Scheduler",
        "self.waiting.appendleft(request)",
        "self.waiting.append(request)",
    ),
    "the oldest goes": (
        "scheduler.Scheduler",
        "next(reversed(self.running.values()))",
        "next(iter(self.running.values()))",
    ),
    "readmits by the prompt alone": (
        "scheduler.Scheduler",
        "ceil_div(len(request.tokens),",
        "ceil_div(request.num_prompt,",
    ),
    "admits while others have to go": ("scheduler.Scheduler", "if not step.preempted or not self.running:", "if True:"),
    "only V comes back": (
        "kv_cache.PagedKVCache",
        "self._blocks[:, :, torch.tensor(list(origin), device=self.device)] = copied",
        "self._blocks[1:, :, torch.tensor(list(origin), device=self.device)] = copied[1:]",
    ),
    "only K comes back": (
        "kv_cache.PagedKVCache",
        "self._blocks[:, :, torch.tensor(list(origin), device=self.device)] = copied",
        "self._blocks[:1, :, torch.tensor(list(origin), device=self.device)] = copied[:1]",
    ),
    "a failed step leaves its blocks findable": ("scheduler.Scheduler", "self.pool.forget(block_id)", "pass"),
    "a failed step leaves its tokens stored": ("scheduler.Scheduler", "request.table.truncate(before)", "pass"),
    "a failed step leaves whom it admitted running": ("scheduler.Scheduler", "reversed(step.admitted)", "()"),
    "positions begin anew in each step": (
        "batch.pack",
        "in range(start, end)]",
        "in range(end - start)]",
    ),
    "rows are never given back": (
        "device_tables.DeviceBlockTables",
        "self._free.append(self._row.pop(name))",
        "self._row.pop(name)",
    ),
    "who came back keeps its room on the host": (
        "scheduler.Scheduler",
        "        self._drop_parked(request)\n        step",
        "        request.parked = None\n        step",
    ),
    "admission does not spend the budget": (
        "scheduler.Scheduler",
        "            budget -= granted\n",
        "",
    ),
    "the row before the last gives the token": (
        "batch.pack",
        "[count - 1 for",
        "[max(count - 2, 0) for",
    ),
    "a window drops one block too early": (
        "window.Window",
        "request.table.num_tokens - self.size + 1,",
        "request.table.num_tokens - self.size + self.block_size,",
    ),
    "a window drops nothing": (
        "scheduler.Scheduler",
        "self.window.drop(request)\n            for",
        "pass\n            for",
    ),
    "what a window has left comes back from the host": (
        "swap.HostPool",
        "parked.blocks[first_block - parked.first_block :]",
        "parked.blocks[first_block - parked.first_block - 1 :]",
    ),
    "attention sees past its window": ("batch.paged", "window=window,", "window=None,"),
    "seq_lens without the new tokens": ("batch.pack", "rows, ends)", "rows, [start for _, start, _ in spans])"),
}
USED_IN = {
    "pack": pagedkv.engine.runner,
    "paged": pagedkv.engine.runner,
    "Window": sys.modules["pagedkv.engine.scheduler"],
    "DeviceBlockTables": pagedkv.engine.runner,
    "Generation": sys.modules["pagedkv.engine.engine"],
}


def plant(monkeypatch, where: str, right: str, wrong: str) -> None:
    """Let the random runs use a class or function whose source was changed."""
    module, name = where.split(".")
    memory = ("kv_cache", "prefix_cache", "device_tables")
    module = f"pagedkv.{module}" if module in memory else f"pagedkv.engine.{module}"
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module)
    assert source.count(right) == 1, f"{right!r} stands {source.count(right)} times in {module}"
    faulty = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted", faulty)
    exec(compile(source.replace(right, wrong), "planted", "exec"), faulty.__dict__)
    used_in = [USED_IN.get(name, engine_machine)]
    if name == "PagedKVCache":
        used_in = [pagedkv.engine.runner, sys.modules["pagedkv.engine.swap"]]
    for module in used_in:
        monkeypatch.setattr(module, name, getattr(faulty, name))


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    plant(monkeypatch, *FAULTS[fault])
    with pytest.raises(Exception):  # noqa: B017 whatever it leads to
        for seed in range(400):
            random_run(seed)
