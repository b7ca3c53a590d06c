"""Exercises of lesson 2.2: the mean fill of a reservation, best fit and the merging of holes, the price of growing by
copies.
"""

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_2_2.own_policy import POLICY

# The mean over a request's life


def mean_tokens(prompt, output, asked):
    return (prompt + output / 2) / asked


def mean_reserved(prompt, output, asked):
    return output / 2 / asked


def _life_cases(random):
    yield from ((60, 140, 2048), (161, 338, 499), (10, 1, 11), (5, 9, 64))
    for _ in range(6):
        prompt, output = random.randrange(1, 500), random.randrange(2, 500)
        yield prompt, output, prompt + output + random.randrange(0, 1000)


FILL = Exercise("2.2-fill", "a reservation over its life", (
    calls("share of token states", mean_tokens, _life_cases, mistakes=(
        (lambda p, o, a: (p + o) / a, "that is the fill in the last step; the mean over all steps is asked for"),
        (lambda p, o, a: o / 2 / a, "the prompt's tokens are there from the first step on"),
        (lambda p, o, a: (p + (o + 1) / 2) / a,
         "step 0, in which only the prompt is stored, counts too: there are output + 1 steps"),
        (lambda p, o, a: (p + (o - 1) / 2) / a,
         "the last step, in which all of the output is stored, counts too: output + 1 steps"),
        (lambda p, o, a: (p + o / 2) / (p + o),
         "the whole reservation counts, not only the part that is used in the end"),
        (lambda p, o, a: (p + o // 2) / a, "a mean of whole numbers need not be whole: output / 2, not output // 2"),
        (lambda p, o, a: (p + o / 2) * (o + 1) / o / a, "the steps are output + 1, not output: divide by their number"),
        (lambda p, o, a: p + o / 2, "a share of the reservation is asked for, between 0 and 1, not a number of slots"),
    ), of=0),
    calls("share of reserved slots", mean_reserved, _life_cases, mistakes=(
        (lambda p, o, a: (a - p - o / 2) / a,
         "slots that are never used are internal; reserved are those that this request fills later"),
        (lambda p, o, a: o // 2 / a, "a mean of whole numbers need not be whole: output / 2, not output // 2"),
        (lambda p, o, a: o / 2 / (p + o), "the whole reservation counts, not only the part that is used in the end"),
        (lambda p, o, a: (a - p - o) / a, "these are the slots that are never used: internal"),
        (lambda p, o, a: o / a, "that is the first step; the reserved part shrinks by one slot in each step"),
        (lambda p, o, a: (o - 1) / 2 / a,
         "step 0, in which all of the output is still to come, counts too: there are output + 1 steps"),
        (lambda p, o, a: (o + 1) / 2 / a,
         "the last step, in which nothing is reserved any more, counts too: output + 1 steps"),
    ), of=1),
))  # fmt: skip

# Holes


def best_fit(holes, n):
    fitting = [(size, start) for start, size in holes if size >= n]
    return min(fitting)[1] if fitting else None


def give_back(holes, start, size):
    merged = []
    for hole in sorted([*map(tuple, holes), (start, size)]):
        if merged and sum(merged[-1]) == hole[0]:
            merged[-1] = (merged[-1][0], merged[-1][1] + hole[1])
        else:
            merged.append(hole)
    return merged


def _first_fit(holes, n):
    return next((start for start, size in holes if size >= n), None)


def _worst_fit(holes, n):
    fitting = [(-size, start) for start, size in holes if size >= n]
    return min(fitting)[1] if fitting else None


def _highest_best_fit(holes, n):
    fitting = [(size, -start) for start, size in holes if size >= n]
    return -min(fitting)[1] if fitting else None


def _nearest(holes, n):
    return min(holes, key=lambda hole: (abs(hole[1] - n), hole))[0] if holes else None


def _upper_end(holes, n):
    start = best_fit(holes, n)
    return None if start is None else start + dict(holes)[start] - n


def _place_in_list(holes, n):
    start = best_fit(holes, n)
    return None if start is None else [first for first, _ in holes].index(start)


def _arena(random):
    """Random holes, by address and never touching, and the spans between them."""
    at, holes, held = random.randrange(0, 3), [], []
    for _ in range(random.randrange(3, 8)):
        holes.append((at, random.randrange(1, 9)))
        at += holes[-1][1]
        held.append((at, random.randrange(1, 9)))
        at += held[-1][1]
    return holes, held


def _fit_cases(random):
    yield from (
        ([(0, 5), (8, 3)], 3),
        ([(0, 3), (4, 3)], 2),
        ([(0, 2), (4, 2)], 4),
        ([], 1),
        ([(2, 8), (20, 4), (30, 6)], 5),
    )
    for _ in range(12):
        yield _arena(random)[0], random.randrange(1, 9)


def _free_cases(random):
    yield from (
        ([(0, 3), (7, 3)], 3, 4),
        ([(0, 3), (9, 3)], 3, 4),
        ([(0, 2), (9, 3)], 5, 4),
        ([(0, 2), (9, 3)], 4, 2),
        ([], 0, 10),
    )
    for _ in range(12):
        holes, held = _arena(random)
        start, size = random.choice(held)
        first = random.randrange(size)
        yield holes, start + first, random.randrange(1, size - first + 1)


def _unmerged(holes, start, size):
    return sorted([*holes, (start, size)])


def _merged_upwards(holes, start, size):
    """Joins the hole above, not the one below."""
    above = next((hole for hole in holes if hole[0] == start + size), (0, 0))
    return sorted([hole for hole in holes if hole != above] + [(start, size + above[1])])


def _merged_with_one(holes, start, size):
    """Joins the hole below, and the one above only where there is none below."""
    below = any(sum(hole) == start for hole in holes)
    return _merged_downwards(holes, start, size) if below else _merged_upwards(holes, start, size)


def _merged_and_lost(holes, start, size):
    """Where a hole below is joined, only the span's own slots are counted."""
    return [
        (first, size) if first != start and first <= start < first + length else (first, length)
        for first, length in give_back(holes, start, size)
    ]


def _merged_over_one(holes, start, size):
    merged = []
    for hole in sorted([*map(tuple, holes), (start, size)]):
        if merged and hole[0] - sum(merged[-1]) <= 1:
            merged[-1] = (merged[-1][0], sum(hole) - merged[-1][0])
        else:
            merged.append(hole)
    return merged


def _merged_downwards(holes, start, size):
    below = next((hole for hole in holes if sum(hole) == start), (start, 0))
    return sorted([hole for hole in holes if hole != below] + [(below[0], below[1] + size)])


HOLES = Exercise("2.2-holes", "best fit, and holes that merge", (
    calls("the smallest hole that fits", best_fit, _fit_cases, mistakes=(
        (_first_fit, "that is first fit: the lowest hole that is large enough; best fit takes the smallest that is"),
        (_worst_fit, "that is the largest hole; best fit takes the smallest that is large enough"),
        (lambda holes, n: best_fit(holes, n + 1), "a hole of exactly n slots fits too"),
        (lambda holes, n: best_fit(holes, 1), "the hole has to have at least n slots"),
        (_highest_best_fit, "of several smallest holes, take the lowest"),
        (_nearest, "a hole that is smaller than n slots does not hold them, however little is missing"),
        (_upper_end, "return the hole's first slot, not the place at its end"),
        (_place_in_list, "return the hole's first slot, not its place in the list"),
    ), of=0),
    calls("a span comes back", give_back, _free_cases, mistakes=(
        (_unmerged, "holes that touch have to become one, or a request that fits in both together will be refused"),
        (_merged_upwards, "the hole that ends where the span starts has to be merged as well"),
        (_merged_downwards, "the hole that starts where the span ends has to be merged as well"),
        (_merged_with_one, "where the span touches a hole on either side, all three become one"),
        (_merged_and_lost, "the merged hole is as large as its parts together; here slots are lost"),
        (_merged_over_one, "only what touches is merged: the slots between two holes are still held"),
        (lambda holes, start, size: give_back(holes, start, size)[::-1], "the holes are to be in order of address"),
    ), of=1),
))  # fmt: skip

# Growth by copies


def copied_tokens(initial, total):
    copied, size = 0, initial
    while size < total:
        copied += size
        size *= 2
    return copied


def _growth_cases(random):
    yield from ((4, 4), (4, 5), (4, 9), (1, 64), (64, 950), (16, 3))
    for _ in range(8):
        yield random.randrange(1, 40), random.randrange(1, 3000)


def _copied_until(initial, total, last):
    """The same with another condition to go on."""
    copied, size = 0, initial
    while last(size, total):
        copied, size = copied + size, 2 * size
    return copied


COPIES = Exercise("2.2-copies", "the price of growing by copies", (
    calls("tokens copied in all", copied_tokens, _growth_cases, mistakes=(
        (lambda i, t: _copied_until(i, t, lambda size, total: size <= total),
         "a full extent is left only when one more token comes"),
        (lambda i, t: 2 * copied_tokens(i, t),
         "what is copied are the tokens of the old extent, not the slots of the new one"),
        (lambda i, t: sum(range(i, t)),
         "each move copies only what is there at that moment, and doubling makes moves rare"),
        (lambda i, t: max(t - i, 0), "all tokens that are there at that moment are copied, and at each move again"),
        (lambda i, t: i * ((t - 1) // i * ((t - 1) // i + 1)) // 2 if t > i else 0,
         "the extent doubles; here it grows by `initial` slots"),
        (lambda i, t: max(((t - 1) // i).bit_length(), 0) if t > i else 0,
         "that is how many moves there are; the tokens that they copy are asked for"),
        (lambda i, t: copied_tokens(i, t) and (copied_tokens(i, t) + i) // 2,
         "that is the last move alone; the earlier ones copied too"),
        (lambda i, t: copied_tokens(1, t), "the first extent has `initial` slots, not one"),
    )),
))  # fmt: skip

EXERCISES = (FILL, HOLES, COPIES, POLICY)
