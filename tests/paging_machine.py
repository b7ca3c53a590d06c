"""A state machine that drives pool, tables, prefix cache, KV cache and device tables at once, and checks every slot's
content.

The K/V of a token depend on all tokens before it, as in a model, so the machine stores one number for each distinct
prefix: a slot that was reused, copied or shared wrongly holds the number of another prefix.
"""

import importlib.util
import sys

import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pagedkv.sizing import KVShape

MODULES = ("block_pool", "block_table", "prefix_cache", "kv_cache", "device_tables")
NUM_BLOCKS, BLOCK_SIZE, MAX_SEQS = 12, 3, 6
lengths = st.integers(0, 8)
IDENTITIES = (None, "adapter")
identities = st.sampled_from(IDENTITIES)
token_lists = st.lists(st.integers(0, 1), max_size=11)  # two tokens only, so that prompts often begin alike


def load(faults=None):
    """Fresh copies of the five modules, with faults {module: [(old, new), ...]} put into their text."""
    saved = {name: sys.modules.get(f"pagedkv.{name}") for name in MODULES}
    copies = {}
    try:
        for name in MODULES:
            spec = importlib.util.find_spec(f"pagedkv.{name}")
            text = spec.loader.get_source(spec.name)
            for old, new in (faults or {}).get(name, []):
                assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
                text = text.replace(old, new)
            copies[name] = sys.modules[f"pagedkv.{name}"] = importlib.util.module_from_spec(spec)
            exec(compile(text, spec.origin, "exec"), copies[name].__dict__)
    finally:
        for name, module in saved.items():
            if module is None:
                sys.modules.pop(f"pagedkv.{name}", None)
            else:
                sys.modules[f"pagedkv.{name}"] = module
    return {key: value for module in copies.values() for key, value in vars(module).items() if isinstance(value, type)}


def machine(faults=None):
    code = load(faults)
    number_of = {}  # a prefix, as a tuple of tokens -> the number that stands for its last token's K/V

    def numbers(tokens, start=0):
        return [number_of.setdefault(tuple(tokens[: i + 1]), len(number_of) + 1) for i in range(start, len(tokens))]

    class Paging(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.pool = code["BlockPool"](NUM_BLOCKS, BLOCK_SIZE)
            self.cache = code["PrefixCache"](self.pool)
            self.kv = code["PagedKVCache"](KVShape(1, 1, 1, dtype_bytes=4), NUM_BLOCKS, BLOCK_SIZE, dtype=torch.float32)
            self.mirror = code["DeviceBlockTables"](MAX_SEQS, NUM_BLOCKS)
            self.tokens, self.tables = {}, {}  # row -> what the sequence should hold, and its table
            self.remembered = [()]
            self.known = {}  # the plain model of the prefix cache: (identity, prefix) -> the blocks that hold its end

        def model_forgets(self, blocks):
            """These blocks get other content; what hangs on them cannot be reached any more."""
            self.known = {key: [block for block in held if block not in blocks] for key, held in self.known.items()}
            gone = [key for key, held in self.known.items() if not held]
            for identity, prefix in list(self.known):
                if any(identity == other and prefix[: len(root)] == root for other, root in gone):
                    del self.known[identity, prefix]

        def append(self, row, new):
            table, old = self.tables[row], self.tokens[row]
            before, total, free = table.blocks, len(old) + len(new), self.pool.num_free
            others = [other.blocks for key, other in self.tables.items() if key != row]
            partial = bool(new) and len(old) % BLOCK_SIZE > 0
            copied = partial and any(before[-1] in blocks for blocks in others)
            needed = -(-total // BLOCK_SIZE) - len(before) + copied
            assert table.blocks_needed(len(new)) == needed
            if needed > free:
                try:
                    table.append(len(new))
                except code["OutOfBlocks"] as error:
                    assert (error.requested, error.free) == (needed, free)
                    assert (table.blocks, self.pool.num_free) == (before, free)
                    return False
                raise AssertionError("the pool gave more than it had")
            slots, copies = table.append(len(new))
            assert len(slots) == len(new) and len(copies) == copied
            kept = before[:-1] if copied else before
            assert table.blocks[: len(kept)] == kept
            assert self.pool.num_free == free - needed
            self.model_forgets(set(table.blocks[len(kept) :]) | ({before[-1]} if partial and not copied else set()))
            self.tokens[row] = old + new
            values = torch.tensor(numbers(self.tokens[row], len(old)), dtype=torch.float32).reshape(-1, 1, 1)
            self.kv.copy_blocks(copies)
            padding = torch.tensor([-1])
            nothing = torch.full((1, 1, 1), -5.0)
            self.kv.write(
                0,
                torch.cat([nothing, values]),
                -torch.cat([nothing, values]),
                torch.cat([padding, torch.tensor(slots).long()]),
            )
            return True

        def match(self, prompt, identity):
            blocks = self.cache.match(prompt, identity)
            expected = []
            for length in range(BLOCK_SIZE, len(prompt), BLOCK_SIZE):
                if (identity, tuple(prompt[:length])) not in self.known:
                    break
                expected.append(self.known[identity, tuple(prompt[:length])][0])
            assert blocks == expected
            return blocks

        @rule()
        def look_up_everything(self):
            for prefix in sorted(set(self.remembered)):
                for identity in IDENTITIES:
                    self.pool.free(reversed(self.match([*prefix, 0], identity)))

        @rule(data=st.data(), row=st.integers(0, MAX_SEQS - 1), end=token_lists, identity=identities)
        def start(self, data, row, end, identity):
            """A new sequence, in the place of another if the row is taken; half of them begin as an earlier one did."""
            if row in self.tables:
                self.finish(row)
            prompt = list(data.draw(st.sampled_from(self.remembered))) + end
            blocks = self.match(prompt, identity)
            self.tables[row] = code["BlockTable"](self.pool, blocks)
            self.tokens[row] = prompt[: len(blocks) * BLOCK_SIZE]
            if not self.append(row, prompt[len(self.tokens[row]) :]):
                self.finish(row)

        @precondition(lambda self: self.tables)
        @rule(data=st.data(), new=token_lists)
        def grow(self, data, new):
            self.append(data.draw(st.sampled_from(sorted(self.tables))), new)

        @precondition(lambda self: 0 < len(self.tables) < MAX_SEQS)
        @rule(data=st.data())
        def fork(self, data):
            row = data.draw(st.sampled_from(sorted(self.tables)))
            child = min(set(range(MAX_SEQS)) - set(self.tables))
            self.tables[child], self.tokens[child] = self.tables[row].fork(), list(self.tokens[row])

        @precondition(lambda self: self.tables)
        @rule(data=st.data(), rejected=lengths)
        def truncate(self, data, rejected):
            row = data.draw(st.sampled_from(sorted(self.tables)))
            length = max(len(self.tokens[row]) - rejected, 0)
            self.tables[row].truncate(length)
            del self.tokens[row][length:]

        @precondition(lambda self: self.tables)
        @rule(data=st.data(), identity=identities)
        def remember(self, data, identity):
            row = data.draw(st.sampled_from(sorted(self.tables)))
            tokens, blocks = self.tokens[row], self.tables[row].blocks
            self.cache.insert(tokens, blocks, identity=identity)
            for i in range(len(tokens) // BLOCK_SIZE):
                prefix = tuple(tokens[: (i + 1) * BLOCK_SIZE])
                self.remembered.append(prefix)
                if blocks[i] not in self.known.get((identity, prefix), []):
                    self.model_forgets({blocks[i]})
                    self.known.setdefault((identity, prefix), []).append(blocks[i])

        @precondition(lambda self: len(self.cache) > 5)
        @rule()
        def clear(self):
            self.cache.clear()
            self.known = {}

        @precondition(lambda self: self.tables)
        @rule(data=st.data())
        def free(self, data):
            self.finish(data.draw(st.sampled_from(sorted(self.tables))))

        def finish(self, row):
            self.tables.pop(row).free()
            del self.tokens[row]

        @invariant()
        def every_sequence_reads_its_own_tokens(self):
            for row, table in self.tables.items():
                assert table.num_tokens == len(self.tokens[row])
                assert len(table.blocks) == -(-table.num_tokens // BLOCK_SIZE)
                k, v = self.kv.gather(0, table.token_slots())
                assert k.flatten().tolist() == numbers(self.tokens[row])
                assert torch.equal(v, -k)

        @invariant()
        def references_are_those_of_the_tables(self):
            blocks = [table.blocks for table in self.tables.values()]
            self.pool.check(blocks)
            assert NUM_BLOCKS - self.pool.num_free == len({block for table in blocks for block in table})

        @invariant()
        def device_tables_are_equal(self):
            expected = torch.full((MAX_SEQS, NUM_BLOCKS), -1, dtype=torch.int32)
            for row, table in self.tables.items():
                expected[row, : len(table.blocks)] = torch.tensor(table.blocks)
            assert torch.equal(self.mirror.update(self.tables), expected)

        def teardown(self):
            for row in list(self.tables):
                self.finish(row)
            self.pool.check([])
            assert sorted(self.pool.allocate(NUM_BLOCKS)) == list(range(NUM_BLOCKS))
            assert len(self.cache) == 0

    return Paging
