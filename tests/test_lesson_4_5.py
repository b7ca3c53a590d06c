"""Lesson 4.5: what its checks accept and refuse, what an offset that overflows does, and what its pictures say."""

import importlib.util
import math
import signal
import subprocess
from statistics import mean, median

import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible
from prediction_rules import prediction_test

from pagedkv.bench.report import recorded, results
from pagedkv.course.lesson_4_5 import benchmark, exercises, far_kernel, pictures, predictions, tuning
from pagedkv.course.lesson_4_5.card import Card
from pagedkv.course.lesson_4_5.tuning import DoesNotFit

# By exercise: mutants that gain every point, and why they are right answers too.
EQUIVALENT = {
    "4.5-programs": {
        "16384 → 16385": "a warp takes a multiple of 256 registers, which no odd number is",
        "233472 → 233473": "a program takes a multiple of 128 bytes, which no odd number is",
        "64 → 65": "warps are a power of two, and a program of one is stopped at 32 programs",
    },
    "4.5-benchmark": {
        "20 → ...": "so many walks over the copies that the launch of a replay does not count",
        "9 → ...": "several stretches",
        "4 → ...": "near the middle",
    },
}


# Programs


def counted_down(registers, shared, warps):
    """The largest number that fits, tried from above."""
    per_thread, per_program = math.ceil(registers / 8) * 8, math.ceil((shared + 1024) / 128) * 128
    for many in range(32, 0, -1):
        fits = math.ceil(many * warps / 4) <= 16_384 // (per_thread * 32) if (many * warps) % 4 == 0 else None
        if fits is None:
            fits = many * warps <= 16_384 // (per_thread * 32) * 4
        if fits and many * per_program <= 228 * 1024 and many * warps <= 64:
            return many
    return 0


def by_limits(registers, shared, warps):
    limits = {"registers": 0, "shared": int(233472 / (1024 + shared + -(shared + 1024) % 128))}
    limits["registers"] = int(16384 / (32 * (registers + -registers % 8))) * 4 // warps
    return min(*limits.values(), 64 // warps, 32)


WRONG_PROGRAMS = {
    "registers not in eights": (exercises._exact_registers, "in eights a thread"),
    "one file of registers": (exercises._one_file, "lives in one quarter"),
    "a thread for a warp": (
        lambda r, s, w: exercises._least(65_536 // (r * w), exercises._by_shared(s), w),
        "a warp has 32",
    ),
    "shared memory alone": (exercises._without_registers, "registers are no limit here"),
    "one quarter": (exercises._one_quarter, "a multiprocessor has four"),
    "programs a quarter": (exercises._programs_in_a_quarter, "may lie in different quarters"),
    "warps": (exercises._in_warps, "those are warps"),
    "no reserve": (exercises._no_reserve, "beside those of each program"),
    "one reserve": (exercises._reserve_once, "not once"),
    "no pieces": (exercises._not_rounded, "pieces of 128 bytes"),
    "registers alone": (exercises._without_shared, "shared memory is no limit here"),
    "no counts": (exercises._without_counts, "64 warps and 32 programs"),
    "no programs": (lambda r, s, w: min(exercises._without_counts(r, s, w), 64 // w), "32 programs are a limit too"),
    "no warps": (lambda r, s, w: min(exercises._without_counts(r, s, w), 32), "64 warps are a limit too"),
    "a fraction": (lambda r, s, w: exercises.programs(r, s, w) + 0.5, "whole number"),
    "at least one": (lambda r, s, w: max(1, exercises.programs(r, s, w)), "should return 0"),
}

# Benchmarks


def longest_graph(card):
    card.launch(0)
    card.synchronize()
    graph, times = card.capture([i % card.copies for i in range(400)]), []
    while len(times) < 15:
        start = card.clock()
        graph.replay()
        card.synchronize()
        times.append(card.clock() - start)
        card.synchronize()
    return sorted(times)[len(times) // 2] / 400


def with_the_minimum(card):
    graph = card.capture([*range(card.copies)] * 30)
    times = []
    for i in range(10):
        before = card.clock()
        graph.replay()
        card.synchronize()
        if i:
            times.append((card.clock() - before) / card.copies / 30)
    return min(times)


def variant(warm=True, wait=True, copies=None, average=median, graph=True, calls=160, runs=9, unit=1.0, divide=True):
    """The measurement with some of its precautions left out."""

    def measure(card):
        walk = [i % (copies or card.copies) for i in range(calls)]
        if warm:
            for copy in walk:
                card.launch(copy)
            card.synchronize()
        captured = card.capture(walk) if graph and warm else None
        times = []
        for _ in range(runs):
            start = card.clock()
            if captured:
                captured.replay()
            else:
                for copy in walk:
                    card.launch(copy)
            if wait:
                card.synchronize()
            times.append((card.clock() - start) / (calls if divide else 1))
        return average(times) * unit

    return measure


WRONG_BENCHMARKS = {
    "no waiting": (variant(wait=False), "`launch` returns before anything has run"),
    "no warm-up": (variant(warm=False, runs=1), "the first call compiles the kernel"),
    "mean with the first call": (variant(warm=False, average=mean), "the first call compiles the kernel"),
    "the same tensors": (variant(copies=1), "walk over all `card.copies` copies"),
    "two in turn": (variant(copies=2), "walk over all `card.copies` copies"),
    "one run": (variant(runs=1, warm=True), "their median"),
    "one run after two": (variant(average=lambda times: times[2], runs=3), "their median"),
    "three runs": (variant(runs=3), "of five stretches"),
    "mean": (variant(average=mean), "their median"),
    "maximum": (variant(average=max), "their median"),
    "eager": (variant(graph=False), "capture the calls in a graph"),
    "one call a replay": (variant(calls=1), "put more calls between two readings"),
    "one walk a graph": (variant(calls=8), "capture more calls in the graph"),
    "all calls": (variant(divide=False), "divide by their number"),
    "ms": (variant(unit=1e-3), "that is in ms"),
    "the clock stands": (lambda card: 0.0, "read before and after the calls"),
    "words": (lambda card: "9 µs", "a number of µs is expected, not a string"),
}

# Autotuners


def with_a_loop(settings, measure, key):
    found = {}

    def choose(shape):
        which = key(shape)
        if which in found:
            return found[which]
        least, winner = math.inf, None
        for setting in settings:
            try:
                us, error = measure(shape, setting)
            except DoesNotFit:
                continue
            if error <= 0.01 and us < least:
                least, winner = us, setting
        if winner is None:
            raise DoesNotFit("no setting is left")
        found[which] = winner
        return winner

    return choose


def tuner(
    fastest=min,
    keyed=True,
    cached=True,
    catch=DoesNotFit,
    stop=False,
    worst=0.01,
    allowed=None,
    early=False,
    last=False,
):
    """The autotuner with one thing done otherwise."""
    allowed = allowed or (lambda error: error <= worst)

    def autotuned(settings, measure, key):
        best = {}
        if early:
            for setting in settings:
                measure((64, 2048), setting)

        def choose(shape):
            name = key(shape) if keyed else shape
            if keyed == "once":
                name = 0
            if name in best and cached:
                return best[name]
            times = {}
            for setting in settings:
                try:
                    us, error = measure(shape, setting)
                except catch:
                    if stop:
                        break
                    continue
                if allowed(error):
                    times[setting] = us
            if not times:
                raise DoesNotFit
            order = list(times)[::-1] if last else list(times)
            best[name] = fastest(order, key=times.get)
            return best[name]

        return choose

    return autotuned


def returns_the_time(settings, measure, key):
    return lambda shape: min(measure(shape, setting) for setting in settings)[0]


def first_of_none(settings, measure, key):
    def choose(shape):
        try:
            return with_a_loop(settings, measure, key)(shape)
        except DoesNotFit:
            return settings[0]

    kept = {}
    return lambda shape: (
        kept.setdefault(key(shape), None) or kept.update({key(shape): choose(shape)}) or kept[key(shape)]
    )


WRONG_TUNERS = {
    "slowest": (tuner(fastest=max), "the smallest time wins"),
    "last of equals": (tuner(last=True), "the first of them wins"),
    "nothing kept": (tuner(cached=False), "measured again at the next call"),
    "kept by shape": (tuner(keyed=False), "look up key(shape)"),
    "one for all": (tuner(keyed="once"), "each key has its own"),
    "measures early": (tuner(early=True), "before any shape is known"),
    "stops at a misfit": (tuner(stop=True), "ends the search"),
    "misfits pass on": (tuner(catch=ZeroDivisionError), "raises DoesNotFit"),
    "catches everything": (tuner(catch=Exception), "catch DoesNotFit only"),
    "errors ignored": (tuner(allowed=lambda error: True), "errors are not looked at"),
    "NaN is no error": (tuner(allowed=lambda error: not error > 0.01), "an error that is NaN"),
    "strict": (tuner(allowed=lambda error: error < 0.01), "exactly 0.01 is allowed"),
    "the time": (returns_the_time, "one of the settings, not a float"),
    "a setting where none fits": (first_of_none, "must raise DoesNotFit"),
    "no function": (lambda settings, measure, key: settings[0], "must return the function `choose`"),
}

RIGHT = {
    "4.5-programs": [exercises.programs, counted_down, by_limits],
    "4.5-benchmark": [benchmark.measure, longest_graph, with_the_minimum],
    "4.5-autotune": [tuning.autotuned, with_a_loop],
}
WRONG = {
    "4.5-programs": [*WRONG_PROGRAMS.values()],
    "4.5-benchmark": [*WRONG_BENCHMARKS.values()],
    "4.5-autotune": [*WRONG_TUNERS.values()],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_every_sentence_is_heard():
    assert unheard(exercises, WRONG) == []


def test_the_rules_give_what_a_profiler_said():
    for kernels in recorded("tuning_h200")["profiles"].values():
        for counters in kernels.values():
            registers = int(counters["launch__registers_per_thread"])
            warps = 64 // int(counters["launch__occupancy_limit_warps"])
            assert exercises._by_registers(registers, warps) == counters["launch__occupancy_limit_registers"]


# Predictions


def limit_of_the_deep_loop() -> str:
    registers, shared, warps = 102, 71_680, 4
    fits = {
        "registers": exercises._by_registers(registers, warps),
        "shared memory": exercises._by_shared(shared),
        "warps": exercises.WARPS // warps,
    }
    return min(fits, key=fits.get)


def slowest_of_three() -> str:
    rows = {(row["tile"], row["num_warps"], row["num_stages"]): row for row in recorded("tuning_h200")["settings"]["d"]}
    times = {}
    for stages in (2, 3, 4):
        row = rows[64, 4, stages]
        times[exercises.programs(row["registers"], row["shared"], 4)] = row["us"]
    assert list(times) == [5, 3, 2]
    return f"{max(times, key=times.get)} at once"


def cached() -> str:
    ways = recorded("tuning_h200")["ways"]["a"]
    less = 1 - ways["graph, the same tensors"] / ways["graph, rotated tensors"]
    return "about a fifth shorter" if 0.15 < less < 0.25 else str(less)


def small_blocks() -> str:
    one, many = (results(recorded(), case)["pagedkv"]["us"] for case in ("j1", "j128"))
    return "1 to 5 % slower" if 1.01 < one / many < 1.05 else str(one / many)


COMPUTED = {
    "4.5-limit": limit_of_the_deep_loop,
    "4.5-slowest": slowest_of_three,
    "4.5-cached": cached,
    "4.5-blocks": small_blocks,
}

test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


# The card


def test_a_card_queues_and_only_waiting_takes_the_time():
    card = Card(100.0, launch_us=20.0)
    start = card.clock()
    card.launch(0)
    card.launch(1)
    assert card.clock() - start == 40
    card.synchronize()
    assert card.clock() - start == 20 + 200 + 3  # the first kernel begins when it is launched, the second after it
    card.synchronize()
    assert card.clock() - start == 226


def test_a_graph_is_launched_once_and_leaves_no_gaps():
    card = Card(5.0, launch_us=20.0, compile_us=1000.0)
    graph = card.capture([0, 1, 2, 3])
    start = card.clock()
    graph.replay()
    assert card.clock() - start == 4
    card.synchronize()
    assert card.clock() - start == 4 + 20 + 3
    with pytest.raises(IndexError, match="card.copies"):
        card.launch(8)


def test_the_cache_holds_what_was_read_last():
    card = Card(100.0, launch_us=0.0, cached=2)
    took = []
    for copy in (0, 1, 0, 2, 1, 1):
        start = card.clock()
        card.launch(copy)
        card.synchronize()
        took.append(card.clock() - start - 3)
    assert took == [100, 100, 60, 100, 100, 60]


# The kernel that really overflows


@pytest.mark.thorough  # the notebook's cell is compared each time
def test_a_kernel_with_wide_offsets_reads_beyond_two_to_the_31_and_one_with_narrow_ones_does_not():
    wide, narrow = far_kernel.read_far(64), far_kernel.read_far(32)
    if wide.startswith("skipped"):
        pytest.skip(wide)
    assert wide == "it reads 3.0, which is right"
    assert narrow.startswith("the process dies") or narrow.endswith("wrong")


@pytest.mark.parametrize(
    ("code", "stderr", "sentence"),
    [
        (-signal.SIGSEGV, "", "the process dies: the address is not its own"),
        (
            1,
            "RuntimeError: CUDA error: an illegal memory access was encountered\nmore",
            "the process dies: the address is not its own",
        ),
        (
            1,
            "Traceback\nImportError: no torch\n",
            "the process ends with 1, but not for its address: ImportError: no torch",
        ),
        (-signal.SIGKILL, "", "the process ends with -9, but not for its address: no message"),
    ],
)
def test_only_a_bad_address_is_called_one(code, stderr, sentence, monkeypatch):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    monkeypatch.setattr(far_kernel, "_free_bytes", lambda: far_kernel.NEEDED)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, code, "", stderr))
    assert far_kernel.read_far(32) == sentence


def test_where_memory_is_short_the_overflow_is_skipped_with_a_sentence(monkeypatch):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    monkeypatch.setattr(far_kernel, "_free_bytes", lambda: 2**30)
    assert far_kernel.read_far(64) == "skipped: it needs 6 GiB of free memory"


# Pictures


def test_a_multiprocessor_is_filled_to_its_limit():
    canvas, alt = pictures.multiprocessor(104, 71_680, 4)
    assert "registers for 4 programs" in alt and "shared memory for 3" in alt and "3 programs at once" in alt
    assert_legible(canvas.svg(alt))
    assert_legible(pictures.multiprocessor(16, 0, 1)[0].svg("x"))
    assert "0 programs" in pictures.multiprocessor(255, 1024, 32)[1]


def test_the_waves_of_every_setting_are_shown():
    figure, alt = pictures.waves(recorded("tuning_h200"), "d", 512)
    assert figure.axes and "1.29 waves" in alt
