"""The exercise in which an autotuner is completed: what it measures, when, and what it never chooses."""

from pagedkv.course.judge.calling import NotAttempted, call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part
from pagedkv.course.judge.stub import has_gap

WORST_ERROR = 0.01


class DoesNotFit(Exception):
    """A setting asks for more registers or shared memory than there is."""


def autotuned(settings, measure, key):
    """The function shape -> fastest setting; `measure(shape, setting)` gives (µs, error) or raises DoesNotFit."""
    best = {}

    def choose(shape):
        if key(shape) not in best:
            times = {}
            for setting in settings:
                try:
                    us, error = measure(shape, setting)
                except DoesNotFit:
                    continue
                if error <= WORST_ERROR:
                    times[setting] = us
            if not times:
                raise DoesNotFit
            best[key(shape)] = min(times, key=times.get)
        return best[key(shape)]

    return choose


class Bench:
    """Stands for a card: times from a table, and a list of what was asked. None: does not fit."""

    def __init__(self, table: dict):
        self.table, self.asked = table, []

    def __call__(self, shape, setting):
        self.asked.append((shape, setting))
        found = self.table[shape][setting]
        if found is None:
            raise DoesNotFit
        if isinstance(found, Exception):
            raise found
        return found


def _batch_class(shape):
    return (shape[0] - 1).bit_length()


# shape (sequences, longest) -> setting (tile, warps) -> (µs, error). The first two shapes have one key.
A, B, C, D = (16, 4), (64, 8), (64, 4), (32, 4)
TABLE = {
    (5, 900): {A: (31.0, 2e-3), B: (24.5, 2e-3), C: (27.0, 2e-3), D: (24.5, 2e-3)},
    (8, 700): {A: (11.0, 2e-3), B: (12.5, 2e-3), C: (13.0, 2e-3), D: (14.5, 2e-3)},
    (64, 2048): {A: (180.0, 2e-3), B: (141.0, 2e-3), C: (123.0, 2e-3), D: (150.0, 2e-3)},
    (300, 64): {A: (52.0, 2e-3), B: None, C: None, D: (49.0, 2e-3)},
    (2, 9000): {A: (40.0, 2e-3), B: (0.5, float("nan")), C: (3.0, 0.4), D: (55.0, 0.01)},
}


def _tuner(answer, bench):
    """The learner's `choose`, ready to be called."""
    if callable(answer) and has_gap(answer):
        raise NotAttempted
    choose = call(answer, [A, B, C, D], bench, _batch_class, changes=(1, 2))
    if not callable(choose):
        raise Wrong(f"autotuned must return the function `choose`, not {kind(choose)}")
    return lambda shape: call(choose, shape, answer=answer)


def _chosen(answer, bench, shape, expected, sentences):
    got = _tuner(answer, bench)(shape)
    got = tuple(got) if isinstance(got, list) else got
    if got == expected:
        return
    if got is None:
        raise Wrong("`choose` returns nothing; is the return missing?")
    if got not in (A, B, C, D):
        raise Wrong(f"`choose` must return one of the settings, not {kind(got)}")
    raise Wrong(sentences.get(got, "another setting is faster"))


def _fastest(answer):
    _chosen(answer, Bench(TABLE), (64, 2048), C, {A: "that is the slowest setting; the smallest time wins"})
    _chosen(
        answer,
        Bench(TABLE),
        (5, 900),
        B,
        {D: "two settings are equally fast; the first of them wins", A: "that is the slowest setting"},
    )


def _once(answer):
    bench = Bench(TABLE)
    choose = _tuner(answer, bench)
    if bench.asked:
        raise Wrong("it measures before any shape is known; measure when `choose` meets a key for the first time")
    choose((5, 900))
    first = len(bench.asked)
    if len(set(bench.asked)) < first:
        raise Wrong("a setting is measured twice for one shape")
    choose((5, 900))
    if len(bench.asked) > first:
        raise Wrong("the same shape is measured again at the next call: keep what was found, under its key")
    other = choose((8, 700))
    if len(bench.asked) > first:
        raise Wrong("a shape with a known key is measured anew: look up key(shape), not the shape")
    if other != B:
        raise Wrong("a shape with a known key gets what was chosen for that key")
    if choose((64, 2048)) != C or len(bench.asked) == first:
        raise Wrong("a shape with another key gets the setting of the first: each key has its own")


def _misfits(answer):
    _chosen(answer, Bench(TABLE), (300, 64), D, {A: "a setting that does not fit ends the search; go on to the next"})
    nothing = {(1, 1): {setting: None for setting in (A, B, C, D)}}

    def refused():
        try:
            _tuner(answer, Bench(nothing))((1, 1))
        except Wrong as wrong:
            return str(wrong)
        return ""

    if "raises DoesNotFit" not in (said := refused()):
        raise Wrong(said or "where no setting is left, `choose` must raise DoesNotFit")
    broken = {(1, 1): {A: ZeroDivisionError(), B: (2.0, 0.0), C: (3.0, 0.0), D: (4.0, 0.0)}}
    try:
        _tuner(answer, Bench(broken))((1, 1))
    except Wrong as wrong:
        if "ZeroDivisionError" in str(wrong):
            return
        raise
    raise Wrong(
        "any exception counts as not fitting here: a mistake in the kernel would go unseen; catch DoesNotFit only"
    )


def _right_ones(answer):
    sentence = "the fastest setting gives a wrong answer: leave out those with an error above 0.01"
    without_nan = {(2, 9000): TABLE[2, 9000] | {B: None}}
    _chosen(answer, Bench(without_nan), (2, 9000), A, {C: "errors are not looked at: leave out those above 0.01"})
    at_the_edge = {(2, 9000): TABLE[2, 9000] | {A: (60.0, 2e-3)}}
    _chosen(
        answer,
        Bench(TABLE),
        (2, 9000),
        A,
        {B: "an error that is NaN is not at most 0.01: leave such settings out", C: sentence},
    )
    _chosen(
        answer, Bench(at_the_edge), (2, 9000), D, {A: "an error of exactly 0.01 is allowed", C: sentence, B: sentence}
    )


AUTOTUNE = Exercise(
    "4.5-autotune",
    "complete an autotuner",
    (
        Part("the fastest setting", _fastest),
        Part("each key once", _once),
        Part("settings that do not fit", _misfits),
        Part("no wrong answer, however fast", _right_ones),
    ),
    in_order=True,
)
