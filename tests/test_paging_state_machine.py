import pytest

pytest.importorskip("torch")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from hypothesis.stateful import run_state_machine_as_test  # noqa: E402
from paging_machine import machine  # noqa: E402

STEPS = settings(
    max_examples=250,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_paging_equals_a_plain_model():
    run_state_machine_as_test(machine(), settings=STEPS)


FAULTS = {
    "block_pool": {
        "a freed block keeps its reference": ("left = refs[block_id] - 1", "left = refs[block_id] - (block_id != 2)"),
        "a shared block gets no reference": ("refs[block_id] += 1", "refs[block_id] += not refs[block_id]"),
        "a revived block stays in the free list": (
            "    del self._idle[block_id]\n            refs",
            "    pass\n            refs",
        ),
        "a freed cached block counts as blank": ("self._idle[block_id] = None", "self._blank.append(block_id)"),
        "the cache is not told of an eviction": ("for block_id in lost:", "for block_id in ():"),
        "the pool promises a block too many": ("if n > self.num_free:", "if n > self.num_free + 1:"),
        "handed-out blocks stay in the free list": ("blank.pop()", "blank[-1]"),
        "overwritten content stays cached": ("self.forget(block_id)\n        return", "pass\n        return"),
        "sharing is seen from three owners on": ("self._refs[block_id] > 1:", "self._refs[block_id] > 2:"),
    },
    "block_table": {
        "copy-on-write keeps its old reference": ("pool.free([blocks.pop()])", "blocks.pop()"),
        "copy-on-write skips the copy": ("copies.append((blocks[-1], fresh[0]))", "pass"),
        "copy-on-write copies backwards": ("(blocks[-1], fresh[0])", "(fresh[0], blocks[-1])"),
        "a shared block is written in place": ("> size or not pool.claim(blocks[-1]))", "> size)"),
        "a shared block is written in place by a long append": (
            "shared = offset > 0 and",
            "shared = offset > 0 and n == 1 and",
        ),
        "a block too late at the boundary": ("offset + n > size", "offset + n > size + 1"),
        "a block too many at the boundary": ("ceil_div(offset + n,", "ceil_div(offset + n + 1,"),
        "slots one too far": ("[blocks[-1] * size + offset]", "[blocks[-1] * size + offset + (0 < offset < size - 1)]"),
        "fork takes no references": ("self._pool.share(blocks[self._dropped :])\n", "pass\n"),
        "truncation keeps the blocks behind": ("self._pool.free(blocks[: keep - 1 if keep else None : -1])", "pass"),
        "truncation rounds down": ("keep = ceil_div(num_tokens,", "keep = int.__floordiv__(num_tokens,"),
        "truncation is not marked": ("self._versions[keep:]\n            self._version += 1", "self._versions[keep:]"),
        "growth is not marked": (
            "self._version += 1\n        self._versions += [self._version] * len(fresh)",
            "self._versions += [self._version] * len(fresh)",
        ),
        "a freed table keeps its first block": ("reversed(self._live()[self._dropped :])", "self._live()[:0:-1]"),
    },
    "prefix_cache": {
        "the whole prompt may be matched": ("token_ids[:-1], identity", "token_ids, identity"),
        "a hash without the blocks before": ("blake2b(parent + content,", "blake2b(content,"),
        "a match takes no references": ("self._pool.share(blocks)", "pass"),
        "a lost block stays findable": (
            "del self._by_key[entry.key]",
            "pass",
        ),
        "a lost copy stays findable": ("del entry.blocks[block_id]", "pass"),
        "the second copy has no name": ("and block_id not in entry.blocks:", "and not entry.blocks:"),
        "a name without the request's identity": ("yield (identity, name)", "yield (None, name)"),
        "clear leaves the blocks in use": ("list(self._by_block)", "list(self._pool._idle)"),
    },
    "kv_cache": {
        "padding is written to the last slot": ("self.num_slots + 1, *token", "self.num_slots, *token"),
        "only K is copied": (
            "self._blocks[:, :, torch.tensor(list(origin), device=self.device)] = copied",
            "self._blocks[:1, :, torch.tensor(list(origin), device=self.device)] = copied[:1]",
        ),
    },
    "device_tables": {
        "released rows keep their entries": ("old_end = self._seen[row][2]\n", "old_end = 0\n"),
        "shorter rows keep old entries": ("tail += [PADDING] * (old_end - end)", "pass"),
        "a row's new table is taken for the old": ("old_version if table is old_table else -1", "old_version"),
    },
}


@pytest.mark.parametrize(
    ("module", "fault"), [(module, fault) for module, faults in FAULTS.items() for fault in faults]
)
@pytest.mark.thorough
def test_a_seeded_fault_is_caught(module, fault):
    faulty = machine(
        {module: [FAULTS[module][fault]]}
    )  # outside the block below: fails if the text to replace is not there
    until_it_shows = settings(STEPS, max_examples=5000)
    with pytest.raises(Exception):  # noqa: B017 whatever the fault leads to
        run_state_machine_as_test(faulty, settings=until_it_shows)
