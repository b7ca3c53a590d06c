"""Exercises of lesson 4.5: how many programs a multiprocessor holds; the benchmark is in `benchmark`, the autotuner in
`tuning`.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_4_5.benchmark import BENCHMARK
from pagedkv.course.lesson_4_5.tuning import AUTOTUNE

QUARTERS, QUARTER, SHARED, WARPS, PROGRAMS = 4, 16_384, 233_472, 64, 32  # of a Hopper multiprocessor


def programs(registers, shared, warps):
    """How many programs of `warps` warps, `registers` a thread and `shared` bytes a multiprocessor holds at once."""
    return _least(_by_registers(registers, warps), _by_shared(shared), warps)


def _by_registers(registers, warps):
    per_warp = -(-registers // 8) * 8 * 32
    return QUARTER // per_warp * QUARTERS // warps


def _by_shared(shared):
    return SHARED // (-(-(shared + 1024) // 128) * 128)


def _least(by_registers, by_shared, warps):
    return min(by_registers, by_shared, WARPS // warps, PROGRAMS)


def _exact_registers(registers, shared, warps):
    return _least(QUARTER // (registers * 32) * QUARTERS // warps, _by_shared(shared), warps)


def _one_file(registers, shared, warps):
    return _least(QUARTERS * QUARTER // (-(-registers // 8) * 8 * 32 * warps), _by_shared(shared), warps)


def _no_reserve(registers, shared, warps):
    return _least(_by_registers(registers, warps), SHARED // max(shared, 1), warps)


def _reserve_once(registers, shared, warps):
    return _least(_by_registers(registers, warps), (SHARED - 1024) // max(shared, 1), warps)


def _not_rounded(registers, shared, warps):
    return _least(_by_registers(registers, warps), SHARED // (shared + 1024), warps)


def _without_shared(registers, shared, warps):
    return _least(_by_registers(registers, warps), PROGRAMS, warps)


def _without_registers(registers, shared, warps):
    return _least(PROGRAMS, _by_shared(shared), warps)


def _without_counts(registers, shared, warps):
    return min(_by_registers(registers, warps), _by_shared(shared))


def _one_quarter(registers, shared, warps):
    return _least(QUARTER // (-(-registers // 8) * 8 * 32) // warps, _by_shared(shared), warps)


def _programs_in_a_quarter(registers, shared, warps):
    return _least(QUARTER // (-(-registers // 8) * 8 * 32 * warps) * QUARTERS, _by_shared(shared), warps)


def _in_warps(registers, shared, warps):
    return programs(registers, shared, warps) * warps


def _where_registers_bind(random):
    yield from (
        (104, 1024, 4),
        (96, 1024, 4),
        (255, 1024, 1),
        (168, 4096, 2),
        (79, 1024, 8),
        (33, 0, 16),
        (97, 1024, 4),
    )
    yield from ((random.randint(90, 255), random.randrange(0, 9000, 512), random.choice((1, 2, 4))) for _ in range(9))


def _where_shared_memory_binds(random):
    yield from ((64, 71_680, 4), (32, 38_912, 2), (80, 139_264, 4), (24, 204_800, 1), (16, 8_193, 1), (16, 76_800, 1))
    yield from ((16, random.randrange(9_000, 200_000), 1) for _ in range(9))


def _where_counts_bind(random):
    yield from ((16, 0, 1), (8, 1024, 2), (16, 0, 4), (24, 4096, 8), (16, 1024, 16), (32, 0, 32))
    yield from ((random.randint(8, 24), 0, random.choice((1, 2, 4, 8))) for _ in range(4))


def _any_program(random):
    yield from ((255, 232_448, 32), (255, 1024, 32), (128, 38_912, 4), (64, 1024, 8))
    for _ in range(30):
        yield random.randint(16, 255), random.randrange(0, 232_448, 256), random.choice((1, 2, 4, 8, 16, 32))


EXERCISES = [
    Exercise(
        "4.5-programs",
        "count the programs of a multiprocessor",
        (
            calls(
                "where registers bind",
                programs,
                _where_registers_bind,
                mistakes=[
                    (_exact_registers, "registers are handed out in eights a thread: round up"),
                    (
                        _one_file,
                        "a warp lives in one quarter: count whole warps in 16,384 registers, then four times as many",
                    ),
                    (_without_registers, "registers are no limit here: they are those of a thread, and a warp has 32"),
                    (_one_quarter, "those fit into one quarter; a multiprocessor has four"),
                    (_programs_in_a_quarter, "a program's warps may lie in different quarters"),
                    (_in_warps, "those are warps; how many programs are they?"),
                ],
            ),
            calls(
                "where shared memory binds",
                programs,
                _where_shared_memory_binds,
                mistakes=[
                    (_no_reserve, "the system keeps 1,024 bytes beside those of each program"),
                    (_reserve_once, "the system keeps 1,024 bytes for each program, not once"),
                    (_not_rounded, "shared memory is handed out in pieces of 128 bytes: round up"),
                    (_without_shared, "shared memory is no limit here"),
                ],
            ),
            calls(
                "where warps or programs bind",
                programs,
                _where_counts_bind,
                mistakes=[
                    (_without_counts, "64 warps and 32 programs are limits too"),
                    (
                        lambda *program: min(_without_counts(*program), WARPS // program[2]),
                        "32 programs are a limit too",
                    ),
                    (lambda *program: min(_without_counts(*program), PROGRAMS), "64 warps are a limit too"),
                ],
            ),
            calls("any program", programs, _any_program),
        ),
    ),
    BENCHMARK,
    AUTOTUNE,
]
