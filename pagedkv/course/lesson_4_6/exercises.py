"""Exercises of lesson 4.6: how many parts fill whole waves; the cutting of ragged lengths is in `items`."""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_4_6.items import ITEMS
from pagedkv.sizing import ceil_div

MOST = 8  # parts


def parts(num_seqs, places):
    """The fewest parts of each of `num_seqs` equal sequences that fill nine tenths of their waves; 1 where none do."""
    return _first(lambda p: 10 * num_seqs * p >= 9 * places * ceil_div(num_seqs * p, places))


def _first(enough, candidates=range(1, MOST + 1), otherwise=1):
    return next((p for p in candidates if enough(p)), otherwise)


def _full(num_seqs, places, p):
    return num_seqs * p / (places * ceil_div(num_seqs * p, places))


def _waves_down(num_seqs, places):
    return _first(lambda p: num_seqs * p >= 0.9 * places * (num_seqs * p // places))


def _one_wave_more(num_seqs, places):
    return _first(lambda p: num_seqs * p >= 0.9 * places * (num_seqs * p // places + 1))


def _last_wave(num_seqs, places):
    return _first(lambda p: (num_seqs * p - 1) % places + 1 >= 0.9 * places)


def _more_than(num_seqs, places):
    return _first(lambda p: 10 * num_seqs * p > 9 * places * ceil_div(num_seqs * p, places))


def _fullest(num_seqs, places):
    return max(range(1, MOST + 1), key=lambda p: _full(num_seqs, places, p))


def _most(num_seqs, places):
    return _first(lambda p: _full(num_seqs, places, p) >= 0.9, range(MOST, 0, -1))


def _seven(num_seqs, places):
    return _first(lambda p: _full(num_seqs, places, p) >= 0.9, range(1, MOST))


def _any_number(num_seqs, places):
    return _first(lambda p: _full(num_seqs, places, p) >= 0.9, range(1, 10_000))


def _at_least_two(num_seqs, places):
    return _first(lambda p: _full(num_seqs, places, p) >= 0.9, range(2, MOST + 1))


def _their_waves(num_seqs, places):
    return ceil_div(num_seqs * parts(num_seqs, places), places)


def _eight(num_seqs, places):
    return _first(lambda p: _full(num_seqs, places, p) >= 0.9, otherwise=MOST)


def _drawn(random, fits):
    """Cases (num_seqs, places) with more sequences than places for which `fits(parts)`."""
    found = []
    while len(found) < 10:
        places = random.randint(5, 130)
        case = random.randint(places + 1, 5 * places), places
        if fits(parts(*case)) and 10 * case[0] % (9 * places):
            found.append(case)
    return found


def _where_some_do(random):
    yield from ((110, 99), (90, 50), (100, 50), (150, 100), (12, 8), (112, 99), (51, 50), (134, 100))
    yield from _drawn(random, lambda p: p > 1)


def _where_none_do(random):
    yield from ((100, 99), (101, 100))
    for places in (random.randint(90, 200) for _ in range(6)):
        yield places + 1, places


def _any_batch(random):
    yield from ((9, 5), (1000, 99), (99 * 3, 99))
    yield from _drawn(random, lambda p: True)


EXERCISES = [
    ITEMS,
    Exercise(
        "4.6-waves",
        "fill whole waves",
        (
            calls(
                "where some number of parts fills them",
                parts,
                _where_some_do,
                mistakes=[
                    (_waves_down, "a wave that has begun takes its time in full: round up, over all items"),
                    (_one_wave_more, "items that fill their waves exactly begin no further one"),
                    (_last_wave, "judge all waves together, not the last one alone"),
                    (_more_than, "exactly nine tenths is enough"),
                    (_fullest, "the fewest parts that will do, not those that fill best: each is one more to merge"),
                    (_most, "the fewest parts that will do, not the most: try 1 first"),
                    (_seven, "eight parts may be tried too"),
                    (_at_least_two, "1 part may do too: then nothing is cut"),
                    (_their_waves, "those are the waves; how many parts are they?"),
                ],
            ),
            calls(
                "where none does",
                parts,
                _where_none_do,
                mistakes=[
                    (_eight, "where no number of parts will do, nothing is cut: 1"),
                    (_any_number, "eight parts are the most"),
                ],
            ),
            calls("any batch", parts, _any_batch),
        ),
        only_with={"where none does": "where some number of parts fills them"},
    ),
]
