"""The engine without a model: who runs when, what is refused, and that nothing is left behind."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pagedkv.block_pool import BlockPool, OutOfBlocks
from pagedkv.block_table import BlockTable
from pagedkv.engine.engine import Engine, Token
from pagedkv.engine.request import Generation, Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache


def engine(num_blocks=20, block_size=4, run=lambda step: [7] * len(step.ready), reuse=False, **options):
    pool = BlockPool(num_blocks, block_size)
    prefix = PrefixCache(pool) if reuse else None
    return Engine(Scheduler(pool, prefix=prefix, **options), run, vocab_size=50)


def assert_empty(engine):
    scheduler = engine.scheduler
    assert scheduler.pool.num_free == scheduler.pool.num_blocks
    assert not (scheduler.waiting or scheduler.running or engine.busy)


WITHOUT_TORCH = """
import random, sys
from pagedkv.block_pool import BlockPool
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
rng = random.Random(0)
engine = Engine(Scheduler(BlockPool(40, 4)), lambda step: [1] * len(step.ready))
prompts = [[0] * rng.randint(1, 30) for _ in range(60)]
outputs = engine.generate(prompts, [Sampling(rng.randint(1, 30)) for _ in prompts])
print(len(outputs), sum(row.preempted for row in engine.usage) > 0, "torch" in sys.modules)
"""


def test_scheduler_and_engine_need_no_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout == "60 True False\n"


# Who runs when


def test_a_prompt_is_run_whole_and_then_one_token_a_step():
    served = engine()
    first, second = served.add([1] * 5, Sampling(3)), served.add([2] * 3, Sampling(1))
    assert served.step() == [Token(first, 7, None), Token(second, 7, "length")]
    assert served.step() == [Token(first, 7, None)]
    assert list(served.stream()) == [Token(first, 7, "length")]
    assert [(row.prefill_tokens, row.decode_tokens, row.blocks_used) for row in served.usage] == [
        (8, 0, 3), (0, 1, 2), (0, 1, 2),
    ]  # fmt: skip
    assert_empty(served)


def test_a_budget_is_spent_in_order_of_admission():
    served = engine(token_budget=6)
    ids = [served.add([i] * 9, Sampling(3)) for i in range(2)]
    work = []
    served.run = lambda step: (
        work.append([(request.request_id, n) for request, n in step.work]) or [7] * len(step.ready)
    )
    while served.busy:
        served.step()
    a, b = ids
    assert work == [[(a, 6)], [(a, 3), (b, 3)], [(a, 1), (b, 5)], [(a, 1), (b, 1)], [(b, 1)], [(b, 1)]]


def test_the_latest_admitted_goes_and_comes_back_first_with_all_it_knows():
    served = engine(num_blocks=4, watermark=0.0)
    a, b, c = (served.add([i] * 7, Sampling(6)) for i in range(3))
    steps = []
    served.run = lambda step: steps.append(step) or [7] * len(step.ready)
    while served.busy:
        served.step()
    assert [request.request_id for step in steps for request in step.preempted] == [b]
    admitted = [(number, request.request_id) for number, step in enumerate(steps) for request in step.admitted]
    assert [request_id for _, request_id in admitted] == [a, b, b, c]
    again = admitted[2][0]
    assert [n for request, n in steps[again].work if request.request_id == b] == [9]  # 7 and the two that it sampled


def test_requests_of_one_step_share_what_it_computes():
    served = engine(num_blocks=100, reuse=True)
    prompts = [[1] * 40 + [i] for i in range(8)]
    served.generate(prompts, Sampling(1))
    assert served.usage[0].reused == 280 and served.usage[0].prefill_tokens + served.usage[0].decode_tokens == 48
    assert served.scheduler.prefix.hits == 280 and served.scheduler.prefix.lookups == 8 * 41


def test_identities_share_nothing():
    served = engine(num_blocks=100, reuse=True)
    for identity in ("a", "b", None):
        served.add([1] * 40, Sampling(1), identity)
    assert served.step() and served.usage[0].reused == 0


class Strict:
    """Like an array: what it says of == is no truth."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise ValueError("ambiguous")


@pytest.mark.parametrize("identity", [Strict(), float("nan"), (1, "a")])
def test_an_identity_is_equal_to_itself(identity):
    served = engine(num_blocks=40, reuse=True)
    for _ in range(2):
        served.add([1] * 9, Sampling(9), identity)
    assert len(list(served.stream())) == 18 and served.usage[0].reused == 8
    assert served.scheduler.prefix.peek([1] * 9 + [7] * 8, identity)[0] == 4


def test_no_token_is_too_long_to_be_found_again():
    served = Engine(engine(reuse=True).scheduler, lambda step: [2**63] * len(step.ready))
    with pytest.raises(ValueError, match=f"prompt must be a whole number of at least 0 and at most {2**63 - 1}"):
        served.add([2**63] * 9)
    request = served.add([2**63 - 1] * 9)
    with pytest.raises(ValueError, match=f"a token of run must be .* at least 0 and at most {2**63 - 1}"):
        served.step()
    served.abort(request)
    assert_empty(served)


def test_identities_are_kept_apart_through_preemption_and_the_same_are_found_again():
    served = engine(num_blocks=9, reuse=True, watermark=0.0)
    how = Sampling(12)
    for identity in ("a", "b", "a"):
        served.add([1] * 9, how, identity)
    assert len(list(served.stream())) == 36 and sum(row.preempted for row in served.usage) > 0
    prefix = served.scheduler.prefix
    assert prefix.hits == sum(row.reused for row in served.usage) > 0
    assert prefix.peek([1] * 9)[0] == prefix.peek([1] * 9, "c")[0] == 0 < prefix.peek([1] * 9, "a")[0]


def test_hits_and_lookups_count_tokens_of_those_who_were_admitted():
    served = engine(num_blocks=4, reuse=True, watermark=0.0)
    prefix = served.scheduler.prefix
    served.generate([[1] * 9], Sampling(2))
    assert (prefix.lookups, prefix.hits) == (9, 0)
    running = served.add([2] * 9, Sampling(2))
    served.add([1] * 9, Sampling(2))
    served.step()
    assert (prefix.lookups, prefix.hits) == (18, 0)  # the other was only peeked at: there is no room
    served.abort(running)
    served.step()
    assert prefix.lookups == 27 and prefix.hits == served.usage[-1].reused


@pytest.mark.parametrize("parks", [False, True])
def test_nothing_that_was_computed_before_a_clear_is_found_after_it(parks):
    host = Host([]) if parks else None
    served = engine(num_blocks=5, reuse=True, watermark=0.0, host=host)
    first = [served.add([i] * 7, Sampling(12)) for i in range(2)]
    while not any(row.preempted for row in served.usage):
        served.step()
    (waits,), prefix = served.scheduler.waiting, served.scheduler.prefix
    assert (waits.parked is not None) == parks
    prefix.clear()
    while first[0] in served.scheduler.live:
        served.step()
    assert len(prefix) == 0  # the one that ran on has filled more blocks, some with K and V of old weights
    while served.busy:
        served.step()
    assert served.usage[-1].restored == 0 and sum(row.restored for row in served.usage) == 0
    assert prefix.peek([1] * 8)[0] > 0  # the other was computed anew
    served.generate([[0] * 9], Sampling(1))
    assert served.usage[-1].reused == 0 and prefix.peek([0] * 9)[0] == 2
    assert host is None or host.parked == 0


def test_both_copies_of_equal_blocks_are_found():
    """Two that write the same text from different prompts on: the copy of either serves when the other's is gone."""
    served = engine(num_blocks=8, reuse=True, watermark=0.0, run=lambda step: [5] * len(step.ready))
    pool, prefix = served.scheduler.pool, served.scheduler.prefix
    a, b = served.add([5] * 3, Sampling(9)), served.add([5] * 2, Sampling(10))
    for _ in range(8):
        served.step()
    tables = [request.table.blocks for request in served.scheduler.running.values()]
    assert prefix.peek([5] * 9) == (2, 0) and set(tables[0]).isdisjoint(tables[1])
    served.abort(a)
    assert prefix.peek([5] * 9) == (2, 2)
    lost = [pool.allocate(1)[0] for _ in range(pool.num_free)]
    assert set(tables[0][:2]) <= set(lost) and prefix.match([5] * 9) == tables[1][:2]
    pool.free([*lost, *tables[1][:2]])
    served.abort(b)
    assert_empty(served)


def test_a_prompt_that_is_found_needs_no_room_for_what_is_found():
    served = engine(num_blocks=10, reuse=True, watermark=0.0)
    served.add([1] * 33, Sampling(4))
    served.step()
    served.add([1] * 33, Sampling(4))
    served.step()
    assert served.usage[-1].running == 2 and served.usage[-1].reused == 32


def test_found_blocks_that_wait_in_the_free_list_are_not_free_for_others():
    served = engine(num_blocks=4, block_size=1, reuse=True, watermark=0.25)
    served.generate([[1, 2]], Sampling(1))  # leaves two findable blocks in the free list
    served.add([9, 9], Sampling(1))
    first = Generation(99, [1, 2, 3], Sampling(1))
    served.scheduler.pool.allocate(1)
    served.scheduler.running[0] = Generation(0, [5], Sampling(9))
    assert not served.scheduler._fits(first)  # 3 free, 1 kept, 2 found but idle: no room for the third
    del served.scheduler.running[0]
    assert served.scheduler._fits(first)


@pytest.mark.parametrize("options", [dict(watermark=0.5), dict(watermark=1.0, reuse=True)], ids=str)
def test_on_an_idle_pool_the_watermark_does_not_count(options):
    served = engine(num_blocks=10, **options)
    assert len(served.generate([[1] * 30], Sampling(2))[0]) == 2


def test_at_the_edge_of_the_pool():
    served = engine(num_blocks=10)
    assert served.generate([[1] * 33], Sampling(8)) == [[7] * 8]  # 40 slots: the last token is not stored
    with pytest.raises(ValueError, match="prompt of 33 tokens and max_new_tokens of 9 need 11 blocks.*can have 10"):
        served.add([1] * 33, Sampling(9))
    with pytest.raises(ValueError, match="need 3 blocks, and a request can have 2"):
        engine(max_blocks=2).add([1] * 9, Sampling(1))
    assert_empty(served)


# Ends


def test_the_stop_token_is_the_last():
    run = lambda step: [len(request.tokens) for request in step.ready]  # noqa: E731
    served = engine(run=run)
    assert served.generate([[1, 1, 1]], Sampling(9, stop_token=5)) == [[3, 4, 5]]
    assert served.events[-1].what == "stop"


def test_abort_lets_go_wherever_a_request_is():
    served = engine(max_running=1)
    running, waiting = served.add([1] * 9), served.add([2] * 9)
    served.step()
    served.abort(waiting)
    served.abort(running)
    assert_empty(served)
    for gone in (running, 17, "a", None):
        with pytest.raises(ValueError, match="request_id must be of a request that waits or runs, not "):
            served.abort(gone)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_step_that_fails_was_not_run_and_may_be_tried_again(error):
    served = engine(num_blocks=30, reuse=True)
    good, fails = served.run, [False, True, True, False]

    def run(step):
        if fails and fails.pop(0):
            raise error
        return good(step)

    served.run = run
    a = served.add([1] * 9, Sampling(4))
    served.step()
    b = served.add([1] * 9, Sampling(4))
    for _ in range(2):
        with pytest.raises(error):
            served.step()
        served.scheduler.pool.check([request.table.blocks for request in served.scheduler.running.values()])
        assert [request.num_stored for request in served.scheduler.running.values()] == [9]
        assert [request.request_id for request in served.scheduler.waiting] == [b]
        assert len(served.usage) == 1
    tokens = list(served.stream())
    assert [token.request_id for token in tokens].count(a) == 3 and len(tokens) == 7
    assert_empty(served)


def test_a_run_of_too_few_tokens_is_told():
    served = engine(run=lambda step: [])
    served.add([1])
    with pytest.raises(ValueError, match="run must give a token for each of 1 in step.ready, not 0"):
        served.step()
    assert served.scheduler.pool.num_free == 20


def test_an_interrupted_generate_leaves_nothing():
    def run(step):
        if len(step.ready[0].tokens) == 6:
            raise KeyboardInterrupt
        return [7] * len(step.ready)

    served = engine(run=run)
    other = served.add([3], Sampling(30))
    with pytest.raises(KeyboardInterrupt):
        served.generate([[1] * 5, [2] * 5])
    assert [request.request_id for request in served.scheduler.running.values()] == [other]


@pytest.mark.parametrize(
    ("gives", "error", "words"),
    [
        ([None], TypeError, "a token of run must be a whole number of at least 0 and at most 49, not None"),
        ([7.0], TypeError, "a token of run must be a whole number"),
        ([True], TypeError, "a token of run must be a whole number"),
        ([50], ValueError, "a token of run must be a whole number of at least 0 and at most 49, not 50"),
        (None, TypeError, "what run gives must be an iterable of tokens, not None"),
    ],
)
def test_what_is_no_token_is_refused_and_the_step_undone(gives, error, words):
    served = engine(run=lambda step: gives)
    request = served.add([1] * 5, Sampling(2))
    with pytest.raises(error, match=words):
        served.step()
    served.run = lambda step: iter([7])
    assert served.step() == [Token(request, 7, None)]
    served.abort(request)
    assert_empty(served)


def test_a_table_that_cannot_be_made_keeps_no_block_that_was_found():
    served = engine(reuse=True)
    served.generate([[1] * 9], Sampling(1))
    served.add([1] * 9, Sampling(1))
    good, served.scheduler.new_table = served.scheduler.new_table, lambda pool, blocks: 1 / 0
    with pytest.raises(ZeroDivisionError):
        served.step()
    assert served.scheduler.pool.num_free == 20
    served.scheduler.new_table = good
    assert [token.token for token in served.stream()] == [7] and served.usage[-1].reused == 8
    assert_empty(served)


def test_whoever_waits_for_an_answer_takes_no_token_of_another():
    served = engine(run=lambda step: [len(request.tokens) for request in step.ready])
    other = served.add([3] * 3, Sampling(5))
    assert served.generate([[1] * 3, [2] * 4], Sampling(2)) == [[3, 4], [4, 5]]
    assert [token.token for token in served.step()] == [3, 4, 5]
    assert [token.token for token in served.stream()] == [6, 7]
    again = served.add([3] * 3, Sampling(4))
    served.generate([[1] * 3], Sampling(9))
    assert served.busy and [token.token for token in served.stream()] == [3, 4, 5, 6]
    assert (other, again) == (0, 3)
    assert_empty(served)


def test_of_an_aborted_request_no_token_comes_any_more():
    served = engine()
    a, b = served.add([1] * 3, Sampling(3)), served.add([2] * 3, Sampling(3))
    told = []
    for token in served.stream():
        told.append(token.request_id)
        if len(told) == 1:
            served.abort(b)
    assert told == [a] * 3
    assert_empty(served)


@pytest.mark.parametrize("what", ["step", "abort"])
def test_nobody_steps_or_aborts_inside_of_a_step(what):
    served = engine()

    def run(step):
        served.step() if what == "step" else served.abort(0)

    good, served.run = served.run, run
    served.add([1] * 5, Sampling(2))
    with pytest.raises(RuntimeError, match=f"{what} must be called between steps, not while one runs"):
        served.step()
    served.run = good
    assert len(list(served.stream())) == 2
    assert_empty(served)


def test_a_request_may_be_added_inside_of_a_step():
    served = engine()
    good = served.run
    served.run = lambda step: (len(served.usage) == 0 and served.add([2], Sampling(2))) and [7] or good(step)
    served.add([1] * 5, Sampling(2))
    assert len(list(served.stream())) == 4
    assert_empty(served)


def test_who_waits_for_blocks_that_others_hold_is_told():
    served = engine(num_blocks=4)
    others = served.scheduler.pool.allocate(3)
    served.add([1] * 9, Sampling(2))
    assert served.step() == []  # others may give theirs back between steps
    words = "request 0 waits for blocks while nothing runs, and 1 of 4 are free: others hold the pool's"
    with pytest.raises(RuntimeError, match=words):
        list(served.stream())
    with pytest.raises(RuntimeError, match=words):
        served.generate([[2]])
    served.scheduler.pool.free(others)
    assert len(list(served.stream())) == 2
    assert_empty(served)


def test_two_engines_on_one_pool_serve_in_turn():
    pool = BlockPool(4, 4)
    a, b = (Engine(Scheduler(pool), lambda step: [7] * len(step.ready)) for _ in range(2))
    a.add([1] * 13, Sampling(3))
    a.step()
    b.add([2] * 13, Sampling(2))
    assert b.step() == [] and len(list(a.stream())) == 2 and len(list(b.stream())) == 2
    assert pool.num_free == 4


class Ahead(BlockTable):
    """Has a block in hand beside those that its tokens fill."""

    spare = ()

    def append(self, n):
        got = super().append(n)
        try:
            self.spare = self.spare or self.pool.allocate(1)
        except OutOfBlocks:
            self.truncate(self.num_tokens - n)
            raise
        return got

    def free(self):
        self.pool.free(self.spare)
        super().free()


@pytest.mark.parametrize("token_budget", [None, 3])
@pytest.mark.parametrize("reuse", [False, True])
def test_a_table_that_takes_more_than_the_pool_has_does_not_go_in_circles(token_budget, reuse):
    served = engine(5, reuse=reuse, new_table=Ahead, token_budget=token_budget, watermark=0.0)
    assert len(served.generate([[1] * 9, [2] * 9], Sampling(8))[1]) == 8  # 4 blocks and one in hand
    served.add([1] * 13, Sampling(8))
    with pytest.raises(OutOfBlocks, match="1 block requested, 0 free"):
        for _ in range(100):
            served.step()
    served.scheduler.pool.check([])
    served.abort(2)
    assert_empty(served)


def test_an_id_is_that_of_one_request():
    scheduler = Scheduler(BlockPool(10, 4))
    first = Generation(1, [1] * 5, Sampling(2))
    scheduler.add(first)
    for again in (first, Generation(1, [2] * 5, Sampling(2))):
        with pytest.raises(ValueError, match="request_id 1 is that of a request that waits or runs"):
            scheduler.add(again)
        scheduler.schedule()
    scheduler.finish(first, "abort")
    scheduler.add(Generation(1, [2] * 5, Sampling(2)))


class Host:
    """Counts instead of copying, and breaks when it is told to."""

    def __init__(self, broken):
        self.parked, self.broken = 0, broken

    def _do(self, what, change):
        if what in self.broken:
            self.broken.remove(what)
            raise MemoryError(what)
        self.parked += change

    def park(self, table):
        self._do("park", 1)
        return SimpleNamespace(num_tokens=table.num_tokens, first_block=0)

    def bring_back(self, parked, table, first_block):
        self._do("bring back", 0)

    def drop(self, parked):
        self._do("drop", -1)


@pytest.mark.parametrize("what", ["park", "bring back", "match", "insert"])
def test_whatever_fails_while_a_step_is_scheduled_nothing_is_lost(what, monkeypatch):
    host, broken = Host([what]), [what]

    def breaks(owner, name, label):
        right = getattr(owner, name)

        def once(*arguments, **options):
            if label in broken and len(served.usage) >= 2:
                broken.remove(label)
                raise MemoryError(label)
            return right(*arguments, **options)

        monkeypatch.setattr(owner, name, once)

    served = engine(num_blocks=6, watermark=0.0, reuse=True, host=host)
    breaks(served.scheduler.prefix, "match", "match")
    breaks(served.scheduler.prefix, "insert", "insert")
    wanted = [served.add([i] * 6, Sampling(9)) for i in range(3)]
    tokens, failed = [], 0
    while served.busy:
        assert len(tokens) < 100
        if len(served.usage) == 2 and len(wanted) == 3:
            wanted.append(served.add([9], Sampling(9)))
        try:
            tokens += served.step()
        except MemoryError:
            failed += 1
        scheduler = served.scheduler
        scheduler.pool.check([request.table.blocks for request in scheduler.running.values()])
        here = [request.request_id for request in [*scheduler.running.values(), *scheduler.waiting]]
        assert here == sorted(served.scheduler.live)
    assert failed == 1 and sorted(token.request_id for token in tokens) == sorted(wanted * 9)
    assert host.parked == 0
    assert_empty(served)


# What is refused


@pytest.mark.parametrize(
    ("prompt", "error", "words"),
    [
        ([], ValueError, "prompt must have at least one token"),
        ("text", TypeError, "prompt must be token ids, not a string: encode it first"),
        (b"text", TypeError, "prompt must be token ids, not a string: encode it first"),
        ([True], TypeError, "prompt must be a whole number"),
        ([2**70], ValueError, "prompt must be a whole number"),
        ([50], ValueError, "prompt must be a whole number of at least 0 and at most 49, not 50"),
        ([-1], ValueError, "prompt must be a whole number of at least 0 and at most 49, not -1"),
        ([1.5], TypeError, "prompt must be a whole number"),
        (3, TypeError, "prompt must be an iterable of token ids, not 3"),
    ],
)
def test_prompts_that_are_refused(prompt, error, words):
    served = engine()
    for call in (lambda: served.add(prompt), lambda: served.generate([[1, 2], prompt])):
        with pytest.raises(error, match=words):
            call()
    assert_empty(served)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (dict(max_new_tokens=0), ValueError, "max_new_tokens must be a whole number of at least 1, not 0"),
        (dict(temperature=-0.1), ValueError, "temperature must be a finite number of at least 0, not -0.1"),
        (dict(temperature=float("nan")), ValueError, "temperature must be a finite number"),
        (dict(seed=1.0), TypeError, "seed must be a whole number, not 1.0"),
        (dict(stop_token=-1), ValueError, "stop_token must be a whole number of at least 0"),
    ],
)
def test_samplings_that_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        Sampling(**options)
    Sampling(seed=-(2**80)), Sampling(seed=2**80)


def test_other_arguments_that_are_refused():
    with pytest.raises(TypeError, match="sampling must be a Sampling, not 0.8"):
        engine().add([1], 0.8)
    with pytest.raises(ValueError, match="sampling must be one, or one for each of 2 prompts, not 1"):
        engine().generate([[1], [2]], [Sampling()])
    for name in ("token_budget", "max_running", "max_blocks"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, not 0"):
            engine(**{name: 0})
    with pytest.raises(ValueError, match="watermark must be a finite number of at least 0 and at most 1, not 1.5"):
        engine(watermark=1.5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Scheduler(3), TypeError, "pool must be a BlockPool, not 3, which has no allocate"),
        (lambda: Scheduler(BlockPool(9), prefix=True), TypeError, "prefix must be a PrefixCache or None, not True"),
        (lambda: Scheduler(BlockPool(9), host=16), TypeError, "host must be a HostPool or None, not 16"),
        (lambda: Scheduler(BlockPool(9), new_table=None), TypeError, "new_table must be a class of tables, not None"),
        (lambda: Scheduler(BlockPool(9)).add([1, 2]), TypeError, r"request must be a Generation, not \[1, 2\]"),
        (lambda: Engine(3, list), TypeError, "scheduler must be a Scheduler, not 3, which has no schedule"),
        (lambda: Engine(Scheduler(BlockPool(9)), None), TypeError, "run must be a Runner, or a function from a Step"),
        (lambda: Engine(Scheduler(BlockPool(9)), list, 0), ValueError, "vocab_size must be a whole number of at least"),
        (lambda: engine().abort([]), ValueError, r"request_id must be of a request that waits or runs, not \[\]"),
    ],
)
def test_what_an_engine_is_not_made_of(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_schedule_that_loses_a_request_is_told():
    served = engine()
    served.add([1] * 9)
    served.scheduler.waiting.clear()
    with pytest.raises(ValueError, match="request 0 neither waits nor runs: a schedule has lost it"):
        served.abort(0)
