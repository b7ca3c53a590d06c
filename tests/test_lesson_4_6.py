"""Lesson 4.6: what its checks accept and refuse, what the card on paper does, and what its pictures say."""

import heapq
from functools import partial
from importlib.util import find_spec

import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, assert_to_scale, texts, widths
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.course.lesson_4_6 import exercises, items, pictures, predictions, schedule, widgets

# By exercise: mutants that gain every point, and why they are right answers too.
EQUIVALENT = {
    "4.6-items": {
        "1 → 2": "of the upper bound of the search: a larger one is found too",
        "1 → 0": "of the same, in a batch of no tokens: there the lower bound is taken",
    }
}

# Items


def counted_up(seq_lens, wanted, tile):
    """The smallest cut tried from below, and parts that differ by a tile at most, the longer ones last."""
    tiles = [(length + tile - 1) // tile for length in seq_lens]
    cut = 1
    while sum(max(1, -(-n // cut)) for n in tiles) > max(wanted, len(tiles)):
        cut += 1
    table = []
    for sequence, (n, length) in enumerate(zip(tiles, seq_lens, strict=True)):
        parts = max(1, -(-n // cut))
        borders = [tile * (n * part // parts) for part in range(parts)] + [length]
        for part in range(parts):
            table.append([sequence, -1 if parts == 1 else part, borders[part], borders[part + 1]])
    return table


def split_the_longest(seq_lens, wanted, tile):
    """One more part for the sequence with the longest parts, as long as items are left; then parts are taken back."""
    tiles = [-(-length // tile) for length in seq_lens]
    parts = [1] * len(tiles)
    heap = [(-n, i) for i, n in enumerate(tiles)]
    heapq.heapify(heap)
    for _ in range(wanted - len(tiles)):
        if -heap[0][0] <= 1:
            break
        i = heap[0][1]
        parts[i] += 1
        heapq.heapreplace(heap, (-tiles[i] // parts[i], i))  # rounds away from 0
    longest = max(1, *(-(-n // p) for n, p in zip(tiles, parts, strict=True)))
    parts = [max(1, -(-n // longest)) for n in tiles]
    return [
        (i, part if p > 1 else -1, part * -(-n // p) * tile, min(length, (part + 1) * -(-n // p) * tile))
        for i, (n, p, length) in enumerate(zip(tiles, parts, seq_lens, strict=True))
        for part in range(p)
    ]


def as_an_array(seq_lens, wanted, tile):
    import numpy as np

    return np.array(items.items(seq_lens, wanted, tile), dtype=np.int32)


def changed(row=lambda row, length: row, cut=items.smallest_cut, keep=lambda length: True, greedy=False, parts_of=None):
    """The answer with another cut, other parts, or a change of each row."""

    def answer(seq_lens, wanted, tile):
        most, table = cut(seq_lens, wanted, tile), []
        for seq, length in enumerate(seq_lens):
            parts = parts_of(length, most, tile) if parts_of else items._parts(length, most, tile)
            size = tile * (most if greedy else -(-length // (parts * tile)))
            for part in range(parts):
                mine = (seq, part if parts > 1 else -1, part * size, min(length, (part + 1) * size))
                if keep(length):
                    table.append(row(mine, length))
        return table

    return answer


def numbered(table):
    """Parts numbered through all sequences."""

    def answer(*arguments):
        rows = table(*arguments)
        return [(s, part if part < 0 else i, first, end) for i, (s, part, first, end) in enumerate(rows)]

    return answer


def offsets(seq_lens, wanted, tile):
    """Tokens numbered through the batch."""
    rows = items.items(seq_lens, wanted, tile)
    return [(s, part, first + sum(seq_lens[:s]), end + sum(seq_lens[:s])) for s, part, first, end in rows]


def average(seq_lens, wanted, tile):
    return max(1, -(-sum(seq_lens) // (max(wanted, len(seq_lens)) * tile)))


def doubled(seq_lens, wanted, tile):
    cut = 1
    while sum(items._parts(length, cut, tile) for length in seq_lens) > max(wanted, len(seq_lens)):
        cut *= 2
    return cut


def without_empty(seq_lens, wanted, tile):
    """The parts of an empty sequence counted as none."""
    cut = 1
    while sum(-(-length // (cut * tile)) for length in seq_lens) > max(wanted, len(seq_lens)):
        cut += 1
    return cut


def fewer(seq_lens, wanted, tile):
    return items.smallest_cut(seq_lens, max(1, wanted - 1), tile)


def as_many_each(seq_lens, wanted, tile):
    """Every sequence in as many parts, where it has the tiles."""
    each, table = max(1, wanted // len(seq_lens)), []
    for seq, length in enumerate(seq_lens):
        tiles = -(-length // tile)
        parts = max(1, min(each, tiles))
        borders = [min(length, tile * (tiles * part // parts)) for part in range(parts + 1)]
        table += [(seq, i if parts > 1 else -1, borders[i], borders[i + 1]) for i in range(parts)]
    return table


def spend_all(seq_lens, wanted, tile):
    """Left-over items go to sequences that need none."""
    cut, table = items.smallest_cut(seq_lens, wanted, tile), []
    left = wanted - sum(items._parts(length, cut, tile) for length in seq_lens)
    for seq, length in enumerate(seq_lens):
        tiles, parts = -(-length // tile), items._parts(length, cut, tile)
        if left > 0 and tiles > parts and parts * -(-tiles // (parts + 1)) < tiles:
            parts, left = parts + 1, left - 1
        size = tile * -(-tiles // parts)
        for part in range(parts):
            table.append((seq, part if parts > 1 else -1, part * size, min(length, (part + 1) * size)))
    return table


def equal_tokens(seq_lens, wanted, tile):
    """Parts equal to the token, not in whole tiles."""
    table = []
    for seq, length in enumerate(seq_lens):
        parts = items._parts(length, items.smallest_cut(seq_lens, wanted, tile), tile)
        borders = [length * part // parts for part in range(parts + 1)]
        table += [(seq, i if parts > 1 else -1, borders[i], borders[i + 1]) for i in range(parts)]
    return table


def bounded_by_the_sum(seq_lens, wanted, tile):
    """A search from 1 to all whole tiles of the batch: one sequence and a bit of a tile need one more."""
    high = max(1, sum(seq_lens) // tile)
    return min(high, items.smallest_cut(seq_lens, wanted, tile))


def odd_part(odd):
    """The part is 0, not -1, where the length is odd(length, tile)."""

    def answer(seq_lens, wanted, tile):
        rows = items.items(seq_lens, wanted, tile)
        return [(s, 0 if part < 0 and odd(seq_lens[s], tile) else part, *ends) for s, part, *ends in rows]

    return answer


NEVER_CUT = changed(cut=lambda seq_lens, wanted, tile: 10**6)
WRONG_ITEMS = {
    "inclusive ends": (changed(lambda r, n: (*r[:3], max(r[3] - 1, 0))), "`end` is the token after the last one"),
    "no items for empty ones": (changed(keep=lambda length: length), "no tokens has no item"),
    "long ones only": (changed(keep=lambda length: length > 20), "nobody reads its tokens|no tokens has no item"),
    "past the end": (changed(lambda r, n: (*r[:3], r[3] + (-r[3] % 16))), "ends past the last token"),
    "the last part left out": (
        lambda *a: [r for r in items.items(*a) if r[1] < 1 or r[3] % a[2] == 0],
        "tokens are left out",
    ),
    "overlap": (changed(lambda r, n: (r[0], r[1], r[2], n)), "tokens are read twice"),
    "whole ones are part 0": (changed(lambda r, n: (r[0], max(r[1], 0), *r[2:])), "that is not cut is -1"),
    "one token is part 0": (odd_part(lambda n, tile: n == 1), "that is not cut is -1"),
    "less than a tile is part 0": (odd_part(lambda n, tile: n == tile - 1), "that is not cut is -1"),
    "bounded by the sum": (changed(cut=bounded_by_the_sum), "then none is cut"),
    "all -1": (changed(lambda r, n: (r[0], -1, *r[2:])), "-1 is for the only part"),
    "numbered through": (numbered(items.items), "anew in each sequence"),
    "from 1": (changed(lambda r, n: (r[0], r[1] + (r[1] >= 0), *r[2:])), "are numbered 0, 1, 2"),
    "tokens of the batch": (offsets, "must begin at token 0"),
    "sequences from 1": (changed(lambda r, n: (r[0] + 1, *r[1:])), "that there is not"),
    "longest first": (lambda *a: sorted(items.items(*a), key=lambda r: r[2] - r[3]), "must stand in order"),
    "equal to the token": (equal_tokens, "inside a tile"),
    "all over wanted": (changed(cut=average), "there are more items than wanted"),
    "empty ones not counted": (changed(cut=without_empty), "there are more items than wanted|then none is cut"),
    "cut all the same": (
        lambda s, wanted, tile: items.items(s, max(wanted, len(s) + 1), tile),
        "then none is cut",
    ),
    "nothing cut": (NEVER_CUT, "no sequence is cut"),
    "as many each": (as_many_each, "into as many parts"),
    "powers of two": (changed(cut=doubled), "the longest item could be shorter"),
    "one item short": (changed(cut=fewer), "the longest item could be shorter|no sequence is cut"),
    "all items spent": (spend_all, "more parts than the longest item asks for"),
    "full parts first": (changed(greedy=True), "not equal"),
    "a generator": (lambda *a: (row for row in items.items(*a)), "a list of rows is expected, not a generator"),
    "no part": (lambda *a: [(s, first, end) for s, _, first, end in items.items(*a)], "(sequence, part, first, end)"),
    "fractions": (changed(lambda r, n: (*r[:3], r[3] / 1)), "use // where tokens"),
    "sorts its input": (lambda s, wanted, tile: s.sort() or items.items(s, wanted, tile), "changes its input"),
}

# Waves


def listed(num_seqs, places):
    fill = {p: num_seqs * p / (places * (-(-num_seqs * p // places))) for p in range(1, 9)}
    return min((p for p, share in fill.items() if share >= 0.9), default=1)


def any_does(num_seqs, places):
    return any(exercises._full(num_seqs, places, p) >= 0.9 for p in range(1, 9))


def by_idle(num_seqs, places):
    for p in range(1, 9):
        empty = -num_seqs * p % places
        if empty * 10 <= num_seqs * p + empty:
            return p
    return 1


def while_it_gets_fuller(n, places):
    fuller = [exercises._full(n, places, p) for p in range(1, 9)]
    for p in range(8):
        if fuller[p] >= 0.9:
            return p + 1
        if p and fuller[p] < fuller[p - 1]:
            return 1
    return 1


WRONG_WAVES = {
    "rounded down": (exercises._waves_down, "round up, over"),
    "always one more": (exercises._one_wave_more, "begin no further one"),
    "the last alone": (exercises._last_wave, "not the last one alone"),
    "more than": (exercises._more_than, "exactly nine tenths is enough"),
    "fullest": (exercises._fullest, "not those that fill best"),
    "most": (exercises._most, "not the most"),
    "seven": (exercises._seven, "eight parts may be tried"),
    "from two": (exercises._at_least_two, "1 part may do"),
    "each for itself": (lambda n, places: 1, "round up, over all items"),
    "waves": (exercises._their_waves, "those are the waves"),
    "while it gets fuller": (while_it_gets_fuller, "should return"),
    "eight otherwise": (exercises._eight, "nothing is cut: 1"),
    "fullest otherwise": (
        lambda n, places: listed(n, places) if any_does(n, places) else exercises._fullest(n, places),
        "nothing is cut: 1",
    ),
    "any number": (exercises._any_number, "eight parts are the most"),
    "nothing otherwise": (lambda n, places: listed(n, places) if listed(n, places) > 1 else None, "None"),
}

RIGHT = {
    "4.6-items": [items.items, counted_up, split_the_longest, as_an_array],
    "4.6-waves": [exercises.parts, listed, by_idle],
}
WRONG = {"4.6-items": [*WRONG_ITEMS.values()], "4.6-waves": [*WRONG_WAVES.values()]}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_every_sentence_is_heard():
    assert unheard(exercises, WRONG) == []


def test_the_answer_is_the_packages_table():
    torch = pytest.importorskip("torch")
    if find_spec("triton") is None:
        pytest.skip("needs Triton")
    from pagedkv.attention.triton import INTERPRETED, plan, settings

    for seq_lens, wanted, tile in ([700, 0, 90, 33, 290], 11, 32), ([5, 70], 2, 16):
        tensor = torch.tensor(seq_lens, dtype=torch.int32, device="cpu" if INTERPRETED else "cuda")
        _, table, first = plan.cut(tensor, plan.NO_BOUND, 1, settings.Settings(tile, 1, wanted, True))
        assert table[: first[-1]].tolist() == [list(row) for row in items.items(seq_lens, wanted, tile)]


# Predictions


def share_idle(cut: int) -> str:
    idle = schedule.run(schedule.cut_at(schedule.one_long(), cut)).idle
    if idle > 0.9:
        return "over nine tenths"
    return "about three tenths" if 0.25 < idle < 0.35 else str(idle)


def stale() -> str:
    """A table of a step ago names no token that has come since."""
    lengths = schedule.chats()[:5]
    read = sum(end - first for _, _, first, end in items.items(lengths, 12, 32))
    left_out = sum(length + 1 for length in lengths) - read
    return "the newest tokens are not read, and nobody says so" if left_out == len(lengths) else str(left_out)


COMPUTED = {
    "4.6-uncut": partial(share_idle, schedule.LONG),
    "4.6-blind": partial(share_idle, 1024),
    "4.6-stale": stale,
    "4.6-one-more": lambda: 100 * schedule.run(schedule.cut_evenly([8192] * 100, 8192)).idle,
}

test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


# The card on paper


def test_each_place_has_one_item_at_a_time_and_none_is_free_while_one_waits():
    rows = schedule.cut_evenly([300, 0, 90, 700, 40, 40, 210], 128)
    run = schedule.run(rows, places=3)
    assert [bar.end - bar.start for bar in run.bars] == [end - first for _, _, first, end in rows]
    for place in range(3):
        mine = sorted(bar for bar in run.bars if bar.place == place)
        assert all(bar.end <= later.start for bar, later in zip(mine, mine[1:], strict=False))
    starts = [bar.start for bar in run.bars]
    assert starts == sorted(starts)
    ends = sorted(max(bar.end for bar in run.bars if bar.place == place) for place in range(3))
    assert ends[0] >= starts[-1] and run.time == ends[-1]
    assert run.idle == pytest.approx(1 - sum(end - first for _, _, first, end in rows) / 3 / run.time)


def test_a_cut_gives_equal_parts_of_at_most_as_many_tokens():
    rows = schedule.cut_evenly([1000, 0, 31], 400)
    assert rows == [(0, 0, 0, 352), (0, 1, 352, 704), (0, 2, 704, 1000), (1, -1, 0, 0), (2, -1, 0, 31)]
    assert schedule.partial_bytes(rows) == 3 * 32 * 129 * 4
    assert schedule.cut_evenly(schedule.one_long(), 608) == items.items(schedule.one_long(), 198, 32)


def test_a_cut_without_a_plan_is_after_every_so_many_tokens():
    rows = schedule.cut_at([1000, 0, 400, 31], 400)
    assert rows[:3] == [(0, 0, 0, 400), (0, 1, 400, 800), (0, 2, 800, 1000)]
    assert rows[3:] == [(1, -1, 0, 0), (2, -1, 0, 400), (3, -1, 0, 31)]
    if find_spec("triton"):
        from pagedkv.attention.triton.launch import decode_launch

        launch = decode_launch(256, schedule.KV_HEADS, 64, schedule.LONG, schedule.MULTIPROCESSORS)
        assert launch.split_tokens == 1024  # as the lesson says of its batch


def test_a_small_card_lasts_as_long_as_it_is_asked_for():
    pytest.importorskip("torch")
    if find_spec("triton") is None:
        pytest.skip("needs Triton")
    from pagedkv.attention.triton import plan

    real = plan.multiprocessors
    with pytest.raises(ZeroDivisionError), schedule.card_of(3):
        assert plan.multiprocessors(-1) == 3
        raise ZeroDivisionError
    assert plan.multiprocessors is real


# Pictures


def test_bars_are_as_long_as_their_items():
    rows = schedule.cut_evenly([6000, 900, 640, 320, 0, 300], 1024)
    canvas, words = pictures.over_time("A few", rows, places=4)
    assert_legible(canvas.svg(words))
    run = schedule.run(rows, 4)
    long = [bar.end - bar.start for bar in run.bars if rows[bar.item][0] == 0]
    assert_to_scale([width + 1 for width in widths(canvas, pictures.LONGEST)], long)
    assert f"{100 * run.idle:.0f} % of the time is idle" in words and f"{run.time:,} tokens" in texts(canvas)
    assert "sequence 0: 6,000 tokens" in " ".join(texts(canvas))


def test_where_no_sequence_stands_out_none_is_named():
    canvas, words = pictures.over_time("Equal", schedule.cut_evenly([500] * 3, 500), places=2)
    assert widths(canvas, pictures.LONGEST) == [] and "to merge: none" in words


SETTINGS = {
    "cut": [
        {"batch": "63 chats and a long one", "cut": 16384},
        {"batch": "63 chats", "cut": 256},
        {"batch": "110 of 8,192 tokens", "cut": 1664},
    ]
}
test_widget_pictures, test_widget_moves, test_widget_controls = widget_tests(widgets, SETTINGS)
