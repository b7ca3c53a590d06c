"""The exercise in which ragged lengths are cut into items, judged by what a table has to be, not by how it is made."""

from random import Random

from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, is_tensor, kind
from pagedkv.course.judge.exercise import Exercise, Part, hidden
from pagedkv.sizing import ceil_div


def items(seq_lens, wanted, tile):
    """Rows (sequence, part, first, end); the part is -1 where it is the only one."""
    cut = smallest_cut(seq_lens, wanted, tile)
    rows = []
    for seq, length in enumerate(seq_lens):
        parts = _parts(length, cut, tile)
        size = ceil_div(length, parts * tile) * tile
        for part in range(parts):
            rows.append((seq, part if parts > 1 else -1, part * size, min(length, (part + 1) * size)))
    return rows


def smallest_cut(seq_lens, wanted, tile) -> int:
    """In tiles: the longest item of the best table."""
    low, high = 1, max(1, ceil_div(max(seq_lens), tile))
    while low < high:
        middle = (low + high) // 2
        if sum(_parts(length, middle, tile) for length in seq_lens) <= max(wanted, len(seq_lens)):
            high = middle
        else:
            low = middle + 1
    return low


def _parts(length, cut, tile) -> int:
    return max(1, ceil_div(length, cut * tile))


def _rows(answer, seq_lens, wanted, tile) -> list[tuple[int, ...]]:
    found = call(answer, seq_lens, wanted, tile)
    if found is None:
        raise Wrong("it returns nothing; is the return missing?")
    if is_tensor(found) or hasattr(found, "dtype"):
        found = found.tolist()
    if not isinstance(found, (list, tuple)):
        raise Wrong(f"a list of rows is expected, not {kind(found)}")
    rows = []
    for row in found:
        row = row.tolist() if hasattr(row, "dtype") else row
        if not isinstance(row, (list, tuple)) or len(row) != 4:
            raise Wrong("each row must be (sequence, part, first, end)")
        row = [x.item() if hasattr(x, "dtype") and getattr(x, "ndim", 1) == 0 else x for x in row]
        for x in row:
            if type(x) is not int:
                raise Wrong(f"whole numbers are expected in a row, not {kind(x)}; use // where tokens are divided")
        rows.append(tuple(row))
    return rows


def _by_sequence(rows, seq_lens) -> list[list[tuple[int, ...]]]:
    """The rows of each sequence; Wrong where there are none, or they are not in order."""
    if any(not 0 <= seq < len(seq_lens) for seq, *_ in rows):
        raise Wrong("a row names a sequence that there is not: they are numbered from 0, in the order of seq_lens")
    places = [(seq, first) for seq, _, first, _ in rows]
    if places != sorted(places):
        raise Wrong("rows must stand in order: by sequence, and within one from its first token on")
    found = [[row for row in rows if row[0] == seq] for seq in range(len(seq_lens))]
    for length, mine in zip(seq_lens, found, strict=True):
        if not mine and length == 0:
            raise Wrong("a sequence of no tokens has no item: it needs one, whose program writes zeros")
        if not mine:
            raise Wrong("a sequence has no item: nobody reads its tokens")
    return found


def _cover(length, mine, tile) -> None:
    """Each token in one item, and no item without one."""
    ends = [0, *(end for *_, end in mine)]
    firsts = [*(first for _, _, first, _ in mine), length]
    if firsts[0] != 0:
        raise Wrong("the first item of a sequence must begin at token 0: tokens are numbered within their sequence")
    for end, first in zip(ends[1:], firsts[1:], strict=True):
        if first == end + 1:
            raise Wrong("`end` is the token after the last one, as in range: the next part begins with it")
        if end < first:
            raise Wrong("tokens are left out: nobody reads them")
        if end > length:
            raise Wrong("an item ends past the last token of its sequence: the last part may be shorter")
        if end > first:
            raise Wrong("tokens are read twice: a part must begin where the one before it ends")
    if length and any(first == end for _, _, first, end in mine):
        raise Wrong("an item has no tokens, though its sequence has: leave it out")
    if any(first % tile for first in firsts[:-1]):
        raise Wrong("a part begins inside a tile: cut at multiples of `tile`")


def _numbers(mine) -> None:
    parts = [part for _, part, _, _ in mine]
    if len(mine) == 1 and parts != [-1]:
        raise Wrong("the part of a sequence that is not cut is -1: its program finishes it, and nothing is merged")
    if len(mine) > 1 and -1 in parts:
        raise Wrong("-1 is for the only part of a sequence; those of a cut one are 0, 1, 2, …")
    if len(mine) > 1 and parts != list(range(len(mine))):
        raise Wrong("the parts of a cut sequence are numbered 0, 1, 2, …, anew in each sequence")


def _few(rows, seq_lens, wanted, tile) -> None:
    if len(rows) <= max(wanted, len(seq_lens)):
        return
    if wanted <= len(seq_lens):
        raise Wrong("no more items than sequences are wanted: then none is cut")
    raise Wrong("there are more items than wanted: the last part of each sequence is not full, so count them")


def _short(rows, seq_lens, wanted, tile) -> None:
    longest = max(ceil_div(end - first, tile) for _, _, first, end in rows)
    if longest <= smallest_cut(seq_lens, wanted, tile):
        return
    if len(rows) == len(seq_lens):
        raise Wrong("no sequence is cut, though more items are wanted")
    parts = [sum(row[0] == seq for row in rows) for seq in range(len(seq_lens))]
    if parts == [max(1, min(max(parts), ceil_div(length, tile))) for length in seq_lens]:
        raise Wrong("all sequences are cut into as many parts: the short ones take items that the longest one needs")
    raise Wrong("the longest item could be shorter: a smaller cut gives no more items than wanted either")


def _no_more(rows, seq_lens, wanted, tile) -> None:
    cut = smallest_cut(seq_lens, wanted, tile)
    for seq, length in enumerate(seq_lens):
        if sum(row[0] == seq for row in rows) > _parts(length, cut, tile):
            raise Wrong(
                "a sequence has more parts than the longest item asks for: each part is written, read and merged"
            )


def _equal(rows, seq_lens, wanted, tile) -> None:
    for seq, length in enumerate(seq_lens):
        mine = [ceil_div(end - first, tile) for number, _, first, end in rows if number == seq]
        if max(mine) > ceil_div(ceil_div(length, tile), len(mine)):
            raise Wrong("the parts of a sequence are not equal: t tiles in p parts are at most ceil(t / p) in each")


RULES = (_few, _short, _no_more, _equal)


def _part(title: str, rules: int):
    """The rules of coverage and the first `rules` of RULES, on cases drawn for this part."""

    def test(answer):
        for seq_lens, wanted, tile in _cases(hidden(title)):
            rows = _rows(answer, seq_lens, wanted, tile)
            for length, mine in zip(seq_lens, _by_sequence(rows, seq_lens), strict=True):
                _cover(length, mine, tile)
                _numbers(mine)
            for rule in RULES[:rules]:
                rule(rows, seq_lens, wanted, tile)

    return Part(title, test)


def _cases(random: Random):
    yield [2000, 90, 90, 90], 12, 32
    yield [70, 20, 0], 4, 16
    yield [48], 3, 16
    yield [0, 0], 6, 16
    yield [160, 160, 160], 3, 32
    yield [300, 33, 5], 1, 16
    yield [144, 16], 4, 16
    yield [64, 64], 50, 16
    yield [17], 1, 16
    yield [1, 15, 17, 31], 6, 16
    for _ in range(14):
        many = random.randint(1, 12)
        lengths = [int(random.lognormvariate(5.5, 1.3)) for _ in range(many)]
        lengths[random.randrange(many)] *= random.choice((0, 1, 1, 5))
        wanted = random.choice((many - 1 or 1, many + 1, 2 * many, 3 * many + 1, 5 * many))
        yield lengths, wanted, random.choice((16, 32))


ITEMS = Exercise(
    "4.6-items",
    "cut ragged lengths into items",
    (
        _part("every token in one item", 0),
        _part("no more items than wanted", 1),
        _part("the longest item as short as it can be", 2),
        _part("no part too many", 3),
        _part("parts of a sequence equal", 4),
    ),
    in_order=True,
)
