"""Lesson 6.5: what its checks accept and refuse, that an engine on a learner's parts writes what the package's does,
and that its faults and numbers are what it says.
"""

from collections import Counter
from functools import cache
from importlib.util import find_spec

import pytest
from exercise_rules import exercise_tests, unheard
from kernels import DECODE
from picture_rules import assert_legible, boxes, texts
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.block_pool import OutOfBlocks
from pagedkv.course.draw import style
from pagedkv.course.judge.check import check
from pagedkv.course.lesson_6_5 import exercises, faults, own_policy, pictures, predictions, watchman, widgets
from pagedkv.simulation.policies import Paged

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from pagedkv.course.lesson_6_5 import own_engine  # noqa: E402 (imports torch)
from pagedkv.engine import plays  # noqa: E402
from pagedkv.engine.engine import build  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402

# Exercise 1


def decodes_in_a_loop(positions, block_tables, query_start_loc):
    starts = list(range(len(positions) + 1)) if query_start_loc is None else query_start_loc.tolist()
    rows = [i for i, (a, b) in enumerate(zip(starts, starts[1:], strict=False)) for _ in range(a, b)]
    return block_tables[rows], torch.tensor([p + 1 for p in positions.tolist()], dtype=torch.int32)


def decodes_by_search(positions, block_tables, query_start_loc):
    at = torch.arange(len(positions), dtype=torch.int32)
    rows = at if query_start_loc is None else torch.bucketize(at, query_start_loc[1:], right=True)
    return [block_tables.index_select(0, rows), torch.add(positions, 1).to(torch.int32)]


def as_long(positions, block_tables, query_start_loc):
    tables, lens = exercises.as_decodes(positions, block_tables, query_start_loc)
    return tables, lens.long()


def in_place(positions, block_tables, query_start_loc):
    positions += 1
    return exercises.as_decodes(positions - 1, block_tables, query_start_loc)


# Exercise 2


def fault_with_helpers(seen, num_blocks, right):
    def books(now):
        return now.free + len(set().union(*now.tables.values())) - num_blocks

    for step, now in enumerate(seen):
        off = books(now)
        if off:
            return [step, "given away" if off > 0 else "leak"]
        if not all(right[i][: len(mine)] == list(mine) for i, mine in now.written.items()):
            return [step, "tokens"]


def fault_token_by_token(seen, num_blocks, right):
    for step in range(len(seen)):
        free, tables, written = seen[step].free, seen[step].tables, seen[step].written
        count = [0] * num_blocks
        for table in tables.values():
            for block in table:
                count[block] = 1
        if sum(count) < num_blocks - free:
            return step, "leak"
        if sum(count) > num_blocks - free:
            return step, "given away"
        for i in written:
            for mine, good in zip(written[i], right[i], strict=False):
                if mine != good:
                    return step, "tokens"
    return None


NAMES = list(watchman.RIGHT.values())


def named(engine: str, said) -> tuple:
    return watchman.first_fault, [said if one == engine else right for one, right in watchman.RIGHT.items()]


# Exercise 3


class Own(own_policy.KeepFree):
    """The lesson's rule, which here counts as the learner's."""


class Books:
    """What the lesson gives: a policy without an admission."""

    def __init__(self, num_blocks, block_size):
        self.free, self.size, self.tokens = num_blocks, block_size, {}

    grow, release = own_policy.KeepFree.grow, own_policy.KeepFree.release


class OnBooks(Books):
    """What the lesson asks for: an admission alone."""

    def admit(self, request):
        needed = (request.prompt_tokens + self.size - 1) // self.size
        if self.tokens and self.free - needed < 0.3 * len(self.tokens) or needed > self.free:
            raise OutOfBlocks(needed, self.free)
        self.free, self.tokens[request.request_id] = self.free - needed, request.prompt_tokens


def on_books(admit):
    return type("OnBooks", (Books,), {"admit": admit})


def takes_unnoted(self, request):
    self.free -= -(-request.prompt_tokens // self.size)


def says_no(self, request):
    needed = -(-request.prompt_tokens // self.size)
    if needed > self.free:
        return False
    self.free, self.tokens[request.request_id] = self.free - needed, request.prompt_tokens
    return True


class ForEachThatRuns:
    """A quarter of a block for each that runs, counted in tokens, and blocks as a list."""

    def __init__(self, num_blocks, block_size):
        self.ids, self.size, self.of = list(range(num_blocks)), block_size, {}

    def room(self):
        return 0.25 * len(self.of) if self.of else 0

    def admit(self, request):
        needed = len(range(0, request.prompt_tokens, self.size))
        if len(self.ids) - needed < self.room():
            raise OutOfBlocks(needed, len(self.ids))
        self.of[request.request_id] = [[self.ids.pop() for _ in range(needed)], request.prompt_tokens]

    def grow(self, request):
        blocks, tokens = self.of[request.request_id]
        if tokens == len(blocks) * self.size:
            if not self.ids:
                raise OutOfBlocks(1, 0)
            blocks.append(self.ids.pop())
        self.of[request.request_id][1] += 1

    def release(self, request):
        self.ids += self.of.pop(request.request_id)[0]


class FourAlways(ForEachThatRuns):
    """A watermark of four blocks, on small pools of less."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.kept = min(4, num_blocks // 16)

    def room(self):
        return self.kept if self.of else 0


def keeping(**changes):
    return type("Keeping", (ForEachThatRuns,), changes)


def blindly(self, request):
    needed = -(-request.prompt_tokens // self.size)
    self.of[request.request_id] = [self.ids[:needed], request.prompt_tokens]


def refused_by_name(self, request):
    if len(self.ids) * self.size < request.prompt_tokens:
        return False
    return ForEachThatRuns.admit(self, request)


def reads_the_length(self, request):
    if request.output_tokens < 10**6:
        ForEachThatRuns.admit(self, request)


def takes_and_refuses(self, request):
    needed = -(-request.prompt_tokens // self.size)
    taken, self.ids = self.ids[:needed], self.ids[needed:]
    if len(taken) < needed or self.of and len(self.ids) < 2:
        raise OutOfBlocks(needed, len(self.ids))
    self.of[request.request_id] = [taken, request.prompt_tokens]


def rounded_down(self, request):
    needed = request.prompt_tokens // self.size
    if needed > len(self.ids):
        raise OutOfBlocks(needed, len(self.ids))
    self.of[request.request_id] = [[self.ids.pop() for _ in range(needed)], request.prompt_tokens]


def never_grows(self, request):
    blocks, tokens = self.of[request.request_id]
    if tokens == len(blocks) * self.size:
        raise OutOfBlocks(1, 0)
    self.of[request.request_id][1] += 1


def grows_by_itself(self, request):
    self.of[request.request_id][1] += 1


RIGHT = {
    "6.5-decodes": [exercises.as_decodes, decodes_in_a_loop, decodes_by_search],
    "6.5-faults": [(one, NAMES) for one in (watchman.first_fault, fault_with_helpers, fault_token_by_token)],
    "6.5-policy": [OnBooks, ForEachThatRuns, FourAlways, keeping(room=lambda self: len(self.of) / 2)],
}
WRONG = {
    "6.5-decodes": [
        *exercises.MISTAKES,
        (as_long, "int32"),
        (lambda p, t, s: (exercises.as_decodes(p, t, s)[0].long(), (p + 1).int()), "int32"),
        (in_place, "changes its input `positions`"),
        (lambda p, t, s: (t.repeat_interleave(s.diff(), 0), (p + 1).int()), "raises AttributeError"),
    ],
    "6.5-faults": [
        *(((wrong, NAMES), sentence) for wrong, sentence in watchman.MISTAKES),
        *((named(engine, said), sentence) for engine, some in watchman.WHY.items() for said, sentence in some.items()),
        ((watchman.first_fault, [*NAMES[:2], ...]), "engine C has no answer yet"),
        ((watchman.first_fault, [*NAMES[:2], "a ghost"]), "none of the six sentences"),
        ((watchman.first_fault, NAMES[:2]), "three of the six sentences are expected"),
        ((lambda seen, n, right: [now.written.clear() for now in seen] and None, NAMES), "changes its input `seen`"),
        (
            (watchman._judging(words=lambda now, mine, right: sum(mine) == sum(right[: len(mine)])), NAMES),
            "a tuple is expected, not nothing",
        ),
    ],
    "6.5-policy": [
        (type("Mine", (Paged,), {}), "stands on the package's"),
        (ForEachThatRuns(64, 16), "the class is expected"),
        (keeping(release=None), "there is no method release"),
        (keeping(room=lambda self: 0), "its victims lose about as much as under plain paging"),
        (keeping(room=lambda self: 2 * len(self.of)), "requests wait though there is room"),
        (keeping(room=lambda self: 99 * len(self.of)), "requests wait though there is room"),
        (keeping(room=lambda self: 20 if self.of else 0), "requests wait though there is room"),
        (keeping(room=lambda self: 5), "is not let in, and so never"),
        (keeping(room=lambda self: 1), "is not let in, and so never"),  # a prompt that fills the pool
        (keeping(admit=blindly), "more blocks are handed out than there are"),
        (keeping(admit=refused_by_name), "more blocks are handed out than there are|a request that runs is unknown"),
        (on_books(takes_unnoted), "a request that runs is unknown: admit notes its tokens"),
        (on_books(says_no), "or raises OutOfBlocks to keep it out"),
        (keeping(admit=rounded_down), "more blocks are handed out than there are"),
        (keeping(grow=grows_by_itself), "more blocks are handed out than there are"),
        (keeping(admit=reads_the_length), "output_tokens is read"),
        (keeping(admit=takes_and_refuses), "is not let in, and so never|is preempted before it has stored"),
        (keeping(release=lambda self, request: self.of.pop(request.request_id)), "is not let in, and so never"),
        (keeping(grow=never_grows), "is preempted"),
        (keeping(grow=lambda self, request: 1 / 0), "raises ZeroDivisionError"),
    ],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)

# By exercise: mutants that gain every point, and why they are right answers too.
EQUIVALENT = {
    "6.5-faults": {"taken > len(named) → taken >= len(named)": "asked only where the two differ"},
    "6.5-policy": {"2 → 3": "a third of a block for each that runs: another policy, and as cheap"},
}


def test_each_sentence_is_told_somebody():
    assert unheard(exercises, WRONG) == [] and unheard(watchman, WRONG) == []


# Parts in an engine


class Backwards:
    """A pool of lesson 3.1 that hands out its last block first."""

    def __init__(self, num_blocks, block_size):
        self.block_size, self.owners = block_size, [0] * num_blocks
        self.num_free = num_blocks

    def allocate(self, n):
        if n > self.num_free:
            raise OutOfBlocks(n, self.num_free)
        ids = [block for block, owners in reversed(list(enumerate(self.owners))) if not owners][:n]
        return self.change(ids, 1) or ids

    def share(self, ids):
        self.change(ids, 1)

    def free(self, ids):
        self.change(ids, -1)

    def change(self, ids, by):
        for block in ids:
            self.owners[block] += by
        self.num_free = self.owners.count(0)


class Table:
    """A table of lesson 3.1, its number of tokens a property."""

    def __init__(self, pool):
        self.pool, self.blocks, self.ends = pool, [], 0

    num_tokens = property(lambda self: self.ends)

    def append(self, n):
        size, start = self.pool.block_size, self.ends
        self.blocks += self.pool.allocate(-(-(start + n) // size) - len(self.blocks))
        self.ends += n
        return tuple(self.translate(position)[3] for position in range(start, start + n))

    def translate(self, position):
        block, offset = divmod(position, self.pool.block_size)
        return block, offset, self.blocks[block], self.blocks[block] * self.pool.block_size + offset

    def free(self):
        self.pool.free(self.blocks)
        self.blocks, self.ends = [], 0


def names_of(token_ids, block_size, salt=None, identity=None):
    return [(salt, identity, tuple(token_ids[:end])) for end in range(block_size, len(token_ids) + 1, block_size)]


def match(token_ids, block_size, known, salt=None, identity=None):
    names = names_of(token_ids[:-1], block_size, salt, identity)
    count = next((i for i, name in enumerate(names) if name not in known), len(names))
    return [known[name] for name in names[:count]]


@cache
def scene():
    model, tokenizer = plays.load()
    prompts = [tokenizer.encode(f"**{name}**\nGood night").ids for name in ("HORATIO", "OPHELIA", "HORATIO")]
    prompts = [tokenizer.encode("**HAMLET**\nGood night.\n").ids + prompt for prompt in prompts]
    how = [Sampling(10, 0.8, seed) for seed in range(3)]
    return model, prompts, how, build(model, 17, 4, watermark=0.0).generate(prompts, how)


def schedule(*inputs):
    return faults.schedule(*inputs)


@pytest.mark.parametrize(
    "parts",
    [
        {"pool": Backwards},
        {"table": Table},
        {"reuse": (names_of, match)},
        {"schedule": schedule},
        {"pool": Backwards, "table": Table, "reuse": (names_of, match)},
        {"pool": Backwards, "table": Table, "schedule": schedule},
    ],
    ids=lambda parts: " ".join(parts),
)
def test_the_same_tokens_are_written_on_a_learners_parts(parts):
    model, prompts, how, right = scene()
    calls = Counter()
    engine = own_engine.engine(model, 17, 4, calls=calls, watermark=0.0, **parts)
    assert engine.generate(prompts, how) == right
    assert engine.scheduler.pool.num_free == 17
    assert sum(row.preempted for row in engine.usage) > 0
    asked = {"hash", "match"} if "reuse" in parts else set()
    assert set(calls) == asked | (parts.keys() - {"reuse"}) and min(calls.values()) > 3
    if "schedule" not in parts:
        assert sum(row.reused for row in engine.usage) >= 16  # two blocks, twice: the common beginning


def hole_of(name, asked):
    parts, yours = own_engine.collect()
    assert yours == []
    if name == "attend":
        return own_engine.whole_batch(parts["attend"], asked)
    way = own_engine.query_by_query if name == "attention" else own_engine.in_one_launch
    return way(parts[name], exercises.as_decodes, asked)


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize(("name", "calls"), [("attention", 11 * 20), ("attend", 3 * 5), ("kernel", 3 * 5)])
def test_the_same_tokens_are_written_by_each_way_to_fill_the_hole(name, calls, capsys):
    model, *_ = scene()
    asked, short = Counter(), [list(range(40, 49))]
    right = build(model, 4, 4).generate(short, Sampling(3))
    assert own_engine.engine(model, 4, attend=hole_of(name, asked)).generate(short, Sampling(3)) == right
    assert asked == {name: calls}
    assert "kernel: the package's (yours: kernel not kept)" in capsys.readouterr().out


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is for Linux only")
@pytest.mark.usefixtures("nothing_kept")
def test_a_kept_kernel_comes_back_and_is_launched(monkeypatch, capsys):
    from cells import run_cell

    import pagedkv.attention.triton  # noqa: F401 (chooses the interpreter)
    from pagedkv.course.judge import keep as keeping
    from pagedkv.course.lessons import find

    namespace = {"__name__": "__main__"}
    run_cell("import triton\nimport triton.language as tl\n@triton.jit" + DECODE, namespace)
    monkeypatch.setattr(keeping, "_passed", {})
    keeping.remember_passed(find("4.3-decode"), namespace["decode"])
    keeping.keep(namespace["decode"])
    parts, yours = own_engine.collect()
    said = capsys.readouterr().out
    assert 'kernel: kept, for mine("kernel")' in said and "kernel: yours" in said and yours == ["kernel"]
    model, *_ = scene()
    asked, short = Counter(), [[40, 41]]
    hole = own_engine.in_one_launch(parts["kernel"], exercises.as_decodes, asked)
    right = build(model, 4, 4).generate(short, Sampling(2))
    assert own_engine.engine(model, 4, attend=hole).generate(short, Sampling(2)) == right and asked == {"kernel": 10}


def test_until_it_is_written_the_lessons_function_serves(capsys):
    def stub(positions, block_tables, query_start_loc): ...

    assert exercises.or_the_lessons(stub) is exercises.as_decodes
    assert "the lesson's, until yours is written" in capsys.readouterr().out
    assert exercises.or_the_lessons(decodes_in_a_loop) is decodes_in_a_loop


def idle(running, waiting, *_):
    while waiting:
        running.append(waiting.popleft())
    return []


def raises(*given):
    idle(*given)
    return 1 / 0


@pytest.mark.parametrize(("schedule", "error", "words"), [
    (idle, RuntimeError, "returns nobody, though requests run"), (raises, ZeroDivisionError, "division"),
])  # fmt: skip
def test_a_schedule_that_goes_wrong_says_so_and_does_not_hang(schedule, error, words):
    engine = own_engine.engine(plays.load()[0], 8, schedule=schedule)
    with pytest.raises(error, match=words):
        engine.generate([[1, 2], [3]])
    assert not engine.busy


# Faults


def test_the_watchman_finds_each_fault_where_it_is_planted():
    found = {name: watchman.first_fault(faults.run(name), faults.NUM_BLOCKS, faults.right_tokens()) for name in "ABC"}
    assert watchman.first_fault(faults.run(), faults.NUM_BLOCKS, faults.right_tokens()) is None
    assert {name: what for name, (_, what) in found.items()} == {"A": "leak", "B": "given away", "C": "tokens"}
    first = {name: faults.run(name)[step] for name, (step, _) in found.items()}
    assert first["A"].preempted and not any(now.ended for now in faults.run("A")[: found["A"][0] + 1])
    assert first["B"].preempted or first["B"].ended
    victims = {i for now in faults.run("C")[: found["C"][0]] for i in now.preempted}
    wrong = {i for i, tokens in first["C"].written.items() if tokens != faults.right_tokens()[i][: len(tokens)]}
    back = faults.run("C")[found["C"][0] - 1]
    assert wrong and wrong <= victims and not wrong & back.tables.keys()  # it was away the step before


def test_the_schedule_without_a_slip_is_that_of_lesson_6_2():
    from pagedkv.course.lesson_6_2 import own_schedule

    case = own_schedule.Case(5, 1, 100, 0, [(2, 4), (1, 5), (1, 2), (3, 1)])
    assert case.outcome(faults.schedule) == case.outcome(own_schedule.schedule)


# Policies


def test_a_bill_counts_what_a_run_does():
    plain = own_policy.bill_of("paged")
    kept = own_policy.kept_free(0.0, 0)
    assert plain == kept and plain.lost > 1000
    assert own_policy.bill_of("oracle").lost == 0
    asked = sum(request.total_tokens for request in own_policy.requests_of(0))
    assert plain.cost == pytest.approx((64 * plain.steps + asked + plain.lost) / asked)


def test_what_keeps_little_free_passes_with_room_and_what_keeps_none_does_not():
    def cost(each, always):
        bills = [own_policy.kept_free(each, always, seed) for seed in own_policy.SEEDS]
        return sum(bill.cost for bill in bills) / sum(
            own_policy.bill_of("paged", seed).cost for seed in own_policy.SEEDS
        )

    assert max(cost(0.25, 0), cost(0.5, 0), cost(0, 2), cost(0, 3), cost(0, 4)) < 0.982
    assert cost(0, 0) == 1 and cost(1, 0) > 0.99 and cost(2, 0) > 1


def test_a_policy_that_is_not_written_yet_is_left_out_of_the_race():
    class Stub:
        def __init__(self, num_blocks, block_size): ...

        def admit(self, request): ...

        def grow(self, request): ...

        def release(self, request): ...

    assert list(own_policy.race(Stub)) == list(own_policy.FIVE)
    assert list(own_policy.race(ForEachThatRuns)) == [*own_policy.FIVE, "yours"]


# Predictions


def calls_of_attention():
    shape = plays.load()[0].shape
    return 4 * shape.num_layers * shape.num_q_heads


def wrong_tokens_of_a():
    right = faults.right_tokens()
    return sum(
        a != b for i, tokens in faults.run("A")[-1].written.items() for a, b in zip(tokens, right[i], strict=True)
    )


def first_of_b():
    seen, right = faults.run("B"), faults.right_tokens()
    books, _ = watchman.first_fault(seen, faults.NUM_BLOCKS, right)
    tokens, _ = watchman.first_fault([now._replace(free=19, tables={}) for now in seen], 19, right)
    return "its blocks, steps before" if books < tokens else "both in one step" if books == tokens else "a token"


def cheaper_than_the_oracle():
    return 100 * (1 - own_policy.bill_of("paged").cost / own_policy.bill_of("oracle").cost)


test_answers = prediction_test(
    predictions.PREDICTIONS,
    {
        "6.5-calls": calls_of_attention,
        "6.5-lost": wrong_tokens_of_a,
        "6.5-first": first_of_b,
        "6.5-oracle": cheaper_than_the_oracle,
    },
)

# Pictures and widgets


def test_the_parts_are_legible_and_yours_stand_out():
    canvas, words = pictures.parts_of({"pool": 1234, "kernel": 5}, ["pool", "hash"])
    assert_legible(canvas.svg(words))
    assert len(boxes(canvas, pictures.YOURS)) == 2
    assert "pool of 3.1, yours, 1,234 calls" in words and "attend of 6.1, the package, 0 calls" in words
    assert "1,234 calls" in texts(canvas)


@pytest.mark.parametrize(("name", "step"), [("", 12), ("A", 20), ("B", 14), ("B", 21), ("C", 47)])
def test_what_is_held_is_legible_and_the_books_are_right(name, step):
    seen = faults.run(name)
    canvas, words = pictures.held("An engine", seen, faults.NUM_BLOCKS, step, faults.right_tokens())
    assert_legible(canvas.svg(words))
    now = seen[step]
    named = {block for table in now.tables.values() for block in table}
    off = faults.NUM_BLOCKS - now.free - len(named)
    assert (f"{abs(off)} too many are taken" in words) == (off > 0) and (f"{abs(off)} too few" in words) == (off < 0)


def test_a_block_is_outlined_where_it_is_in_use_twice():
    for name, step, twice in (("", 12, 0), ("B", 6, 0), ("B", 14, 8)):  # 2 and 3, in three tables and once more each
        canvas, words = pictures.held("Engine", faults.run(name), faults.NUM_BLOCKS, step, faults.right_tokens())
        assert len(boxes(canvas, edge=style.HIGHLIGHT)) == twice
        assert ("In use twice, outlined: 2, 3." in words) == (twice > 0)


def test_a_policy_that_breaks_a_promise_is_told_so_in_plain_words(capsys):
    assert check("6.5-policy", keeping(grow=grows_by_itself)).points == 0
    assert "keeps its promises: more blocks are handed out than there are" in capsys.readouterr().out


SETTINGS = {
    "engine": [{"name": name, "step": step} for name in widgets.ENGINES for step in (0, 14, 55)],
    "kept": [{"each": each, "always": always} for each, always in ((0.0, 0), (2.0, 12), (0.5, 0), (0.25, 3))],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)


def test_the_walk_ends_with_the_longest_run():
    assert widgets.engine().controls["step"].max + 1 == max(len(faults.run(name)) for name in widgets.ENGINES.values())
