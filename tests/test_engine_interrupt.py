"""Ctrl-C at any line of the engine, its scheduler, tables and pool: nothing leaks, hangs, or is told twice or never."""

import signal
import sys
import threading
from linecache import getline
from types import SimpleNamespace

import pytest

from pagedkv.block_pool import BlockPool
from pagedkv.engine.engine import Engine
from pagedkv.engine.interrupt import held
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache

FILES = ("engine.py", "scheduler.py", "window.py", "request.py", "block_table.py", "block_pool.py", "prefix_cache.py")


class Host:
    """Counts what is parked."""

    count = 0

    def park(self, table):
        self.count += 1
        first = sum(block_id == -1 for block_id in table.blocks)
        return SimpleNamespace(num_tokens=table.num_tokens, first_block=first)

    def bring_back(self, *arguments):
        pass

    def drop(self, parked):
        self.count -= 1


def interrupted(at: int, host, window) -> bool:
    """Serve three requests on a small pool, with SIGINT at the line of this number; False if there are fewer."""
    pool = BlockPool(5, 2)
    scheduler = Scheduler(pool, prefix=PrefixCache(pool), watermark=0.0, host=host, window=window)
    engine = Engine(scheduler, lambda step: [len(request.tokens) for request in step.ready])
    wanted = {engine.add([i] * 3, Sampling(6)): list(range(3, 9)) for i in range(3)}
    got, lines, steps, arrived = {i: [] for i in wanted}, 0, 0, False

    def count(frame, event, _):
        nonlocal lines
        # Python looks for signals where something is called or a loop turns, not between the last two lines of a step.
        lines += event == "line" and getline(frame.f_code.co_filename, frame.f_lineno).strip() != "return told"
        if event == "line" and lines == at:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return count

    def trace(frame, *_):
        return count if frame.f_code.co_filename.endswith(FILES) and "pagedkv" in frame.f_code.co_filename else None

    while engine.busy or engine._told:
        steps += 1
        assert steps < 200, "hangs"
        before = sys.gettrace()
        try:
            sys.settrace(None if arrived else trace)
            tokens = engine.step()
        except KeyboardInterrupt:
            arrived = True
            continue
        finally:
            sys.settrace(before)
        for token in tokens:
            got[token.request_id].append(token.token)
    assert got == wanted
    pool.check([])
    assert pool.num_free == 5 and (host is None or host.count == 0)
    return arrived


@pytest.mark.parametrize("stride", [101, pytest.param(1, marks=pytest.mark.thorough)], ids=["some lines", "all lines"])
@pytest.mark.parametrize("with_host", [False, True], ids=["recompute", "swap"])
@pytest.mark.parametrize("window", [None, 3])
def test_an_interrupt_finds_the_books_in_order(stride, with_host, window):
    at = 1
    while interrupted(at, Host() if with_host else None, window):
        at += stride
    assert at > 1500


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_interrupt_of_the_model_comes_at_once(one_by_one):
    pool = BlockPool(5, 2)
    reached = []

    def tokens(step):
        signal.raise_signal(signal.SIGINT)
        reached.append(step)
        yield 7

    engine = Engine(Scheduler(pool), tokens if one_by_one else lambda step: list(tokens(step)))
    engine.add([1] * 3, Sampling(2))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert not reached and not engine.scheduler.running


def test_a_handler_of_ones_own_is_called_and_stays():
    before, came = signal.getsignal(signal.SIGINT), []
    signal.signal(signal.SIGINT, lambda *arguments: came.append(arguments))
    try:
        mine = signal.getsignal(signal.SIGINT)
        with held() as outer:
            with held():
                signal.raise_signal(signal.SIGINT)
            assert not came
            outer.let_through(lambda: came.append("called"))
            assert [here == "called" for here in came] == [False, True]  # what came before comes first
            came.pop()
            outer.let_through(signal.raise_signal, signal.SIGINT)
            assert len(came) == 2
            signal.raise_signal(signal.SIGINT)
            assert len(came) == 2
        assert len(came) == 3 and signal.getsignal(signal.SIGINT) is mine
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with held():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_may_serve():
    outputs = []

    def serve():
        engine = Engine(Scheduler(BlockPool(9, 2)), lambda step: [7] * len(step.ready))
        outputs.append(engine.generate([[1] * 3], Sampling(4)))

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert outputs == [[[7] * 4]]


def test_who_stops_listening_loses_no_token():
    engine = Engine(Scheduler(BlockPool(20, 2)), lambda step: [len(request.tokens) for request in step.ready])
    ids = [engine.add([i] * 3, Sampling(4)) for i in range(3)]
    got = []
    while engine.busy or engine._told:
        listener = engine.stream()
        got.append(next(listener))
        listener.close()
    assert sorted((token.request_id, token.token) for token in got) == [(i, n) for i in ids for n in range(3, 7)]
