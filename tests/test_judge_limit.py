"""The time limit of a check: what it stops, what it leaves alone, and the verdicts around it."""

import contextlib
import ctypes
import io
import itertools
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest

from pagedkv.course.judge import check as check_module
from pagedkv.course.judge import limit
from pagedkv.course.judge.check import check
from pagedkv.course.judge.exercise import Exercise, Part, call, calls

pytestmark = pytest.mark.usefixtures("destructors_may_raise")  # what is raised in one is raised again outside


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(limit, "SECONDS", 0.2)


def swallows_every_error():
    total = 0
    while total < 10**18:
        try:
            time.sleep(0.01)
            total = helper(total)  # noqa: F821
        except:  # noqa: E722
            continue


def swallows_without_a_pause():
    while True:
        try:
            helper()  # noqa: F821
        except BaseException:
            pass


def swallows_in_three_loops():
    while True:
        try:
            while True:
                try:
                    while True:
                        try:
                            helper()  # noqa: F821
                        except:  # noqa: E722
                            pass
                except:  # noqa: E722
                    pass
        except:  # noqa: E722
            pass


def suppresses():
    while True:
        with contextlib.suppress(BaseException):
            while True:
                pass


def continues_in_finally():
    source = """
while True:
    try:
        time.sleep(0.01)
    finally:
        continue
"""
    with warnings.catch_warnings():  # Python 3.14 warns of such a line
        warnings.simplefilter("ignore")
        code = compile(source, "<loop>", "exec")
    exec(code)


def calls_itself_in_except():
    try:
        while True:
            pass
    except:  # noqa: E722
        calls_itself_in_except()


def swallows_in_a_generator():
    def ones():
        while True:
            try:
                yield 1
            except:  # noqa: E722
                pass

    return sum(ones())


def swallows_in_a_destructor():
    class Slow:
        def __del__(self):
            swallows_every_error()

    while True: Slow()  # noqa: E701  # fmt: skip


def swallows_on_exit():
    class Context:
        def __enter__(self): ...

        def __exit__(self, *_):
            swallows_without_a_pause()

    while True:
        with Context():
            raise ValueError


def swallows_in_a_callback():
    sorted([3, 1, 2], key=lambda _: swallows_without_a_pause())


def swallows_in_a_callback_of_c():
    callback = ctypes.CFUNCTYPE(None)(swallows_without_a_pause)
    while True:
        callback()


def tries_again_above(depth=0):
    try:
        return tries_again_above(depth + 1)
    except RecursionError:
        return tries_again_above(depth)


def tries_again_at_the_bottom():
    while True:
        try:
            tries_again_at_the_bottom()
        except RecursionError:
            pass


def waits_at_the_bottom():
    try:
        waits_at_the_bottom()
    except RecursionError:
        while True:
            pass


def swallows_all_the_way():
    while True:
        try:
            swallows_all_the_way()
        except:  # noqa: E722
            pass


def calls_itself_at_last():
    try:
        calls_itself_at_last()
    finally:
        calls_itself_at_last()


RECURSIVE = [
    tries_again_above, tries_again_at_the_bottom, waits_at_the_bottom, swallows_all_the_way, calls_itself_at_last,
]  # fmt: skip
IN_PYTHON = [
    *RECURSIVE,
    swallows_every_error, swallows_without_a_pause, swallows_in_three_loops, suppresses, continues_in_finally,
    calls_itself_in_except, swallows_in_a_generator, swallows_in_a_destructor, swallows_on_exit,
    swallows_in_a_callback, swallows_in_a_callback_of_c,
    lambda: [x for x in itertools.count() if x < 0],
]  # fmt: skip


def again_and_again(block):
    def function():
        while True:
            try:
                block()
            except:  # noqa: E722
                block()

    return function


def reads_what_nobody_writes():
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.recv(1)


def takes_a_lock_twice():
    lock = threading.Lock()
    with lock:
        lock.acquire()


RECURSION = sys.getrecursionlimit()
BLOCKING = [
    again_and_again(lambda: time.sleep(1000)), again_and_again(takes_a_lock_twice),
    again_and_again(lambda: queue.Queue().get()), again_and_again(threading.Event().wait),
    again_and_again(reads_what_nobody_writes), again_and_again(signal.pause),
    lambda: subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)"]),
    lambda: re.match("(a+)+$", "a" * 40 + "b"), lambda: 10 ** 10**8,
]  # fmt: skip


@pytest.mark.parametrize("function", IN_PYTHON + BLOCKING)
def test_nothing_swallows_the_limit(function):
    with pytest.raises(limit.TooLong), limit.time_limit():
        limit.limited(function)
    assert sys.getrecursionlimit() == RECURSION
    assert signal.getsignal(limit.SIGNAL) is signal.SIG_DFL and not any(signal.getitimer(signal.ITIMER_REAL))


@pytest.mark.parametrize("function", IN_PYTHON)
def test_without_an_alarm_of_the_system_a_thread_does_the_same(function, monkeypatch):
    monkeypatch.delattr(signal, "setitimer")  # as on Windows
    before = threading.active_count()
    with pytest.raises(limit.TooLong), limit.time_limit():
        limit.limited(function)
    assert threading.active_count() == before


def test_input_is_interrupted():
    code = """
from pagedkv.course.judge import limit
limit.SECONDS = 0.2
try:
    with limit.time_limit():
        limit.limited(input)
except limit.TooLong:
    print("stopped")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == b"stopped\n"


def test_the_first_time_cleaning_up_is_left_alone():
    cleaned = []

    def function():
        try:
            while True:
                pass
        finally:
            cleaned.extend(str(i) for i in range(1000))

    with pytest.raises(limit.TooLong), limit.time_limit():
        limit.limited(function)
    assert len(cleaned) == 1000


def test_what_runs_outside_is_never_interrupted():
    with limit.time_limit():
        time.sleep(0.5)
        sum(1 for _ in range(10**5))
    if hasattr(sys, "monitoring"):
        assert sys.monitoring.get_tool(limit.TOOL) is None


def test_filters_of_warnings_are_as_before(nine):
    before = list(warnings.filters)
    check("9.9-nine", swallows_in_three_loops)
    assert warnings.filters == before


def test_somebody_elses_timer_and_handler_stay(nine):
    def theirs(*_): ...

    before = signal.signal(signal.SIGALRM, theirs)
    try:
        check("9.9-nine", lambda: 9)
        assert signal.getsignal(signal.SIGALRM) is theirs
        signal.setitimer(signal.ITIMER_REAL, 100)
        check("9.9-nine", lambda: 9)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_in_another_thread_a_check_is_made_without_a_limit(nine):
    results = []
    thread = threading.Thread(target=lambda: results.append(check("9.9-nine", lambda: 9).points))
    thread.start()
    thread.join()
    assert results == [3]


# verdicts


@pytest.fixture
def nine(monkeypatch):
    made = Exercise("9.9-nine", "Nine", tuple(calls(title, lambda: 9, [()]) for title in ("one", "two", "three")))
    monkeypatch.setattr(check_module, "find", lambda name: made)
    return made


ENDLESS = (
    "your function has not returned after 0.2 seconds, which are for the whole check; is there an endless loop? Or the "
    "machine is busy: run the cell again."
)


def test_the_parts_share_one_limit_and_the_rest_is_not_judged(nine, capsys):
    calls_made = []

    def endless():
        calls_made.append(1)
        while True:
            pass

    assert check("9.9-nine", endless).points == 0
    assert len(calls_made) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"   not yet  one: {ENDLESS}", "   not judged  two", "   not judged  three", "   0 of 3 points"
    ]  # fmt: skip


def test_what_was_right_before_counts(nine, capsys):
    seen = []

    def endless_later():
        seen.append(1)
        while len(seen) > 1:
            pass
        return 9

    assert check("9.9-nine", endless_later).points == 1
    assert capsys.readouterr().out.splitlines()[1:3] == ["   ok       one", f"   not yet  two: {ENDLESS}"]


def test_a_verdict_is_printed_when_its_part_is_judged(monkeypatch):
    class Output(io.StringIO):
        def flush(self):
            flushed.append(self.getvalue().splitlines()[-1])

    flushed, seen_before = [], []
    parts = tuple(Part(title, lambda answer: seen_before.append(list(flushed))) for title in ("a", "b", "c"))
    made = Exercise("9.9-x", "x", parts, only_with={"a": "b"})
    monkeypatch.setattr(check_module, "find", lambda name: made)
    with contextlib.redirect_stdout(Output()):
        assert check("9.9-x", 5).points == 3
    title = "9.9-x · x"
    assert seen_before == [[title], [title], [title, "   ok       a", "   ok       b"]]  # a waits for b, c for neither


@pytest.mark.parametrize(
    ("endless", "lines"),
    [
        ("b", ["ok       a; counts only together with: b", f"not yet  b: {ENDLESS}", "not judged  c"]),
        ("a", [f"not yet  a: {ENDLESS}", "not judged  b", "not judged  c"]),
        ("c", ["ok       a", "ok       b", f"not yet  c: {ENDLESS}"]),
    ],
)
def test_a_part_that_counts_with_another_waits_for_it(endless, lines, monkeypatch, capsys):
    def part(title):
        return Part(title, lambda answer: call(time.sleep, 1000 if title == answer else 0))

    made = Exercise("9.9-x", "x", tuple(map(part, "abc")), only_with={"a": "b", "b": "a"})
    monkeypatch.setattr(check_module, "find", lambda name: made)
    assert check("9.9-x", endless).points == (2 if endless == "c" else 0)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[1:-1]] == lines


def test_a_real_check_takes_one_limit_not_five(capsys):
    calls_made = []

    def endless(*_):
        calls_made.append(1)
        while True:
            pass

    assert check("3.2-append", endless).points == 0
    assert len(calls_made) == 1
    assert capsys.readouterr().out.count("not judged") == 4


def test_the_answer_that_swallows_every_error(capsys):
    assert check("2.1-computed", (lambda p, o: swallows_every_error(), lambda p, o: p + o - 1)).points == 0
    assert "has not returned after 0.2 seconds" in capsys.readouterr().out


# what an answer may do to its surroundings


class LoopsInStr(Exception):
    def __str__(self):
        while True:
            pass


class FailsInStr(Exception):
    def __str__(self):
        raise KeyError


class Loops(list):
    def __iter__(self):
        while True:
            pass


class Unseen:
    @property
    def __class__(self):
        raise SystemExit

    def __getattr__(self, name):
        raise RuntimeError(name)


def raises(error):
    raise error


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: raises(LoopsInStr), "has not returned after 0.2 seconds"),
        (lambda: raises(FailsInStr), "your function raises FailsInStr in line"),
        (lambda: raises(KeyboardInterrupt), "your function raises KeyboardInterrupt in line"),
        (lambda: raises(GeneratorExit), "your function raises GeneratorExit in line"),
        (lambda: sys.stdout.close() or 8, "the number is too small"),
        (lambda: setattr(sys, "stdout", io.StringIO()) or 8, "the number is too small"),
        (lambda: setattr(sys, "stdout", None) or 8, "the number is too small"),
        (Unseen, "cannot be checked"),
    ],
)
def test_no_answer_leaves_the_check_or_takes_its_words_away(answer, words, nine, monkeypatch, capsys):
    if "0.2 seconds" not in words:
        monkeypatch.setattr(limit, "SECONDS", 60)
    stdout, limits = sys.stdout, sys.getrecursionlimit()
    assert check("9.9-nine", answer() if answer is Unseen else answer).points == 0  # pytest cannot look at one
    assert sys.stdout is stdout and sys.getrecursionlimit() == limits
    said = capsys.readouterr().out.splitlines()
    assert words in said[1] and len(said) == 5


def test_comparing_what_an_answer_returns_is_limited_too(monkeypatch, capsys):
    made = Exercise("9.9-x", "x", (calls("one", lambda xs: xs, [([1.5, 2.5],)]), calls("two", lambda: 9, [()])))
    monkeypatch.setattr(check_module, "find", lambda name: made)
    assert check("9.9-x", lambda xs: Loops(xs)).points == 0
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[1:3]] == [
        f"not yet  one: {ENDLESS}", "not judged  two"
    ]  # fmt: skip


def test_what_an_answer_prints_is_seen(nine, monkeypatch, capsys):
    monkeypatch.setattr(limit, "SECONDS", 60)
    assert check("9.9-nine", lambda: print("seen", file=sys.stdout) or 9).points == 3
    assert capsys.readouterr().out.count("seen") == 3


def test_an_interrupt_from_outside_leaves_the_check(nine, monkeypatch):
    monkeypatch.setattr(limit, "SECONDS", 60)

    def interrupted():
        signal.raise_signal(signal.SIGINT)
        while True:
            pass

    with pytest.raises(KeyboardInterrupt):
        check("9.9-nine", interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
