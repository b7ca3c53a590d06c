"""Lesson 6.1: what its checks accept and refuse, what its predictions rest on, and what its pictures show."""

from itertools import accumulate

import pytest

torch = pytest.importorskip("torch")

from exercise_rules import exercise_tests, unheard  # noqa: E402
from picture_rules import assert_legible, strokes, texts  # noqa: E402
from prediction_rules import prediction_test  # noqa: E402
from widget_rules import widget_tests  # noqa: E402

from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402
from pagedkv.attention.reference import attention  # noqa: E402
from pagedkv.block_pool import BlockPool  # noqa: E402
from pagedkv.block_table import BlockTable  # noqa: E402
from pagedkv.course.draw import style  # noqa: E402
from pagedkv.course.lesson_6_1 import attending, exercises, pictures, predictions, widgets  # noqa: E402
from pagedkv.device_tables import DeviceBlockTables  # noqa: E402
from pagedkv.engine.batch import pack, paged  # noqa: E402
from pagedkv.engine.model import Llama, ModelShape, dense  # noqa: E402
from pagedkv.engine.request import Generation, Sampling, Step  # noqa: E402
from pagedkv.kv_cache import PagedKVCache  # noqa: E402

# Exercises


def flatten_by_comprehension(sequences):
    return (
        [token for tokens, stored, n in sequences for token in tokens[stored:][:n]],
        [stored + i for _, stored, n in sequences for i in range(n)],
        [0, *accumulate(n for *_, n in sequences)],
    )


def flatten_with_tensors(sequences):
    tokens = torch.cat([torch.tensor(tokens[stored : stored + n]) for tokens, stored, n in sequences])
    positions = torch.cat([torch.arange(stored, stored + n) for _, stored, n in sequences])
    starts = torch.tensor([0, *(n for *_, n in sequences)]).cumsum(0)
    return tokens, positions, starts


def attend_by_the_package(cache, batch, layer, q, k, v):
    write_kv(k, v, cache.k[layer], cache.v[layer], batch.slots)
    places = cache.k[layer], cache.v[layer], batch.block_tables, batch.seq_lens
    return paged_attention(q, *places, query_start_loc=batch.query_start_loc)


def attend_slot_by_slot(cache, batch, layer, q, k, v):
    keys, values = cache.k[layer].flatten(0, 1), cache.v[layer].flatten(0, 1)
    for row, slot in enumerate(batch.slots.tolist()):
        keys[slot], values[slot] = k[row], v[row]
    out, row = torch.empty_like(q), 0
    ends = batch.query_start_loc.tolist()[1:] if batch.query_start_loc is not None else range(1, len(q) + 1)
    for i, end in enumerate(ends):
        length, size = int(batch.seq_lens[i]), cache.block_size
        slots = [int(batch.block_tables[i, p // size]) * size + p % size for p in range(length)]
        for r in range(row, end):
            seen = slots[: length - (end - 1 - r)]
            out[r] = attention(q[r : r + 1], keys[seen], values[seen])[0]
        row = end
    return out


def same_by_sorting(reference, other, tolerance):
    if float((reference - other).abs().max().nan_to_num(torch.inf)) > tolerance:
        return False
    second, first = sorted(reference.tolist())[-2:]
    return True if first - second > 2 * tolerance else None


def same_by_allclose(reference, other, tolerance):
    if not torch.allclose(reference, other, rtol=0, atol=tolerance):
        return False
    rest = reference.clone()
    rest[reference.argmax()] = -torch.inf
    return None if reference.max() - rest.max() <= tolerance + tolerance else True


RIGHT = {
    "6.1-flatten": [exercises.flatten, flatten_by_comprehension, flatten_with_tensors],
    "6.1-attend": [attending.attend, attend_by_the_package, attend_slot_by_slot],
    "6.1-same": [exercises.same_token, same_by_sorting, same_by_allclose],
}

# By exercise: mutants that gain every point, and why they are right answers too.
EQUIVALENT = {"6.1-attend": {"1 → 2": "range(len(q) + 2): the start behind the last sequence is never read"}}


def restarts(sequences):
    return flatten_by_comprehension(sequences)[0], [i for *_, n in sequences for i in range(n)], [
        0, *accumulate(n for *_, n in sequences)]  # fmt: skip


def changed(index, new):
    """`flatten` with one of its three lists replaced by `new(sequences, list)`."""

    def wrong(sequences):
        lists = list(flatten_by_comprehension(sequences))
        lists[index] = new(sequences, lists[index])
        return tuple(lists)

    return wrong


def runs_everything(sequences):
    tokens = [token for tokens, stored, _ in sequences for token in tokens[stored:]]
    positions = [p for tokens, stored, _ in sequences for p in range(stored, len(tokens))]
    return tokens, positions, [0, *accumulate(len(tokens) - stored for tokens, stored, _ in sequences)]


def runs_again(sequences):
    return flatten_by_comprehension([(tokens, 0, stored + n) for tokens, stored, n in sequences])


def takes_from_the_argument(sequences):
    found = flatten_by_comprehension(sequences)
    sequences.clear()
    return found


def changed_attention(**mistake):
    return lambda cache, batch, layer, q, k, v: attending.attend(cache, batch, layer, q, k, v, **mistake)


def reads_first(cache, batch, layer, q, k, v):
    out = attention_over(cache, batch, layer, q)
    write_kv(k, v, cache.k[layer], cache.v[layer], batch.slots)
    return out


def attention_over(cache, batch, layer, q, **other):
    given = {"seq_lens": batch.seq_lens, "query_start_loc": batch.query_start_loc} | other
    return paged_attention(q, cache.k[layer], cache.v[layer], batch.block_tables, **given)


def writes_nothing(cache, batch, layer, q, k, v):
    return attention_over(cache, batch, layer, q)


def one_layer_for_all(cache, batch, layer, q, k, v):
    return attend_by_the_package(cache, batch, 0, q, k, v)


def writes_at_positions(cache, batch, layer, q, k, v):
    write_kv(k, v, cache.k[layer], cache.v[layer], batch.positions)
    return attention_over(cache, batch, layer, q)


def spoils_the_cache(cache, batch, layer, q, k, v):
    out = attend_by_the_package(cache, batch, layer, q, k, v)
    cache.k[layer][batch.slots // 4, batch.slots % 4] = 0
    return out


def decodes_only(cache, batch, layer, q, k, v):
    return attend_by_the_package(cache, batch._replace(query_start_loc=None), layer, q, k, v)


SAME = exercises.same_token
WRONG = {
    "6.1-flatten": [
        (restarts, "they go on after what is stored"),
        (changed(1, lambda s, p: list(range(len(p)))), "these positions are rows of the batch"),
        (changed(1, lambda s, p: [x + 1 for x in p]), "positions count from 0"),
        (changed(0, lambda s, t: [x for tokens, _, n in s for x in tokens[-n:]]), "these are the last n tokens"),
        (changed(0, lambda s, t: [x for tokens, _, n in s for x in tokens[:n]]), "these tokens are stored already"),
        (runs_everything, "this step runs n tokens of it"),
        (runs_again, "what is stored is run again"),
        (changed(2, lambda s, starts: starts[1:]), "it begins with 0"),
        (changed(2, lambda s, starts: starts[:-1]), "it ends with the number of tokens"),
        (changed(2, lambda s, starts: [n for *_, n in s]), "add them up"),
        (changed(2, lambda s, starts: [0, *(n for *_, n in s)]), "add them up"),
        (
            changed(2, lambda s, starts: [0, *accumulate(stored + n for _, stored, n in s)]),
            "what is stored has no row in it",
        ),
        (
            lambda s: tuple(map(list, zip(*map(flatten_by_comprehension, [[one] for one in s]), strict=True))),
            "the batch is flat",
        ),
        (takes_from_the_argument, "changes its input"),
        (lambda s: flatten_by_comprehension(s)[:2], "the tuple is too short"),
        (changed(1, lambda s, p: p[::-1]), "should return ("),
    ],
    "6.1-attend": [
        (reads_first, "before k and v are written"),
        (writes_nothing, "k and v are not written"),
        (changed_attention(write_to=0), "every layer writes to layer 0"),
        (changed_attention(read_from=0), "every layer reads from layer 0"),
        (one_layer_for_all, "every layer uses the cache of layer 0"),
        (writes_at_positions, "written at their positions"),
        (lambda cache, b, layer, q, k, v: attend_by_the_package(cache, b, layer, q, v, k), "k is written where v"),
        (
            changed_attention(
                lens=lambda lens, s: [n - b + a for n, a, b in zip(lens, s, list(s)[1:], strict=False)]
            ),
            "seq_lens counts this step's tokens already",
        ),
        (
            changed_attention(
                lens=lambda lens, s: [n + b - a for n, a, b in zip(lens, s, list(s)[1:], strict=False)]
            ),
            "not to be added again",
        ),
        (
            changed_attention(tables=lambda t, i: t.new_tensor([(int(t[i, 0]) + j) for j in range(14)]) % 14),
            "need not follow one another",
        ),
        (changed_attention(tables=lambda t, i: t[0].clamp(min=0).repeat(4)), "read by the first row"),
        (changed_attention(whole=True), "read whole"),
        (changed_attention(ahead=0), "aligned at the top left"),
        (changed_attention(ahead=99), "sees the tokens behind it"),
        (changed_attention(one_head=True), "all query heads read KV head 0"),
        (changed_attention(rows=lambda s, count: [*range(count), s[-1]]), "query_start_loc says where"),
        (spoils_the_cache, "the cache does not hold k and v"),
        (decodes_only, "raises ValueError|raises"),
        (lambda *inputs: attend_by_the_package(*inputs).flatten(1), "the shape is not the right one"),
        (lambda *inputs: attend_by_the_package(*inputs)[:1], "the shape is not the right one"),
    ],
    "6.1-same": [
        (lambda a, b, t: SAME(a, b, t) if torch.equal(a, b) else False, "equality to the last bit"),
        (lambda a, b, t: bool(a.argmax() == b.argmax()), "only the likeliest token is compared"),
        (lambda a, b, t: torch.allclose(a, b, rtol=0, atol=t), "None is missing"),
        (lambda a, b, t: SAME(a, b, t, twice=1), "twice the tolerance is needed"),
        (lambda a, b, t: SAME(a, b, t, apart=lambda a, b, t: not bool((a - b <= t).all())), "absolute value"),
        (
            lambda a, b, t: SAME(a, b, t, apart=lambda a, b, t: not bool((a - b).abs().mean() <= t)),
            "the mean of the differences",
        ),
        (lambda a, b, t: SAME(a, b, t, apart=lambda a, b, t: bool(((a - b).abs() > t).any())), "NaN is taken for"),
        (
            lambda a, b, t: SAME(a, b, t, apart=lambda a, b, t: bool(b.isnan().any() or ((a - b).abs() > t).any())),
            "the opposite of the right one",  # NaN in the reference
        ),
        (lambda a, b, t: SAME(a, b, t, apart=lambda a, b, t: not bool(((a - b).abs() < t).all())), "exactly the tol"),
        (
            lambda a, b, t: SAME(a, b, t, apart=lambda a, b, t: not torch.allclose(a, b, atol=t)),
            "unless it is told rtol=0",
        ),
        (lambda a, b, t: SAME(a, b, t, close_first=True), "look at that first"),
        (lambda a, b, t: SAME(a, b, t, margin_of=lambda a, b: b), "the margin is that of the reference"),
        (lambda a, b, t: SAME(a, b, t, margin_of=lambda a, b: a.softmax(-1)), "probabilities are another scale"),
        (
            lambda a, b, t: SAME(a, b, t) or (True if float(a.topk(2).values.diff()) == -2 * t else None)
            if SAME(a, b, t) is None else SAME(a, b, t),
            "can still become a tie",
        ),
        (lambda a, b, t: SAME(a, b, t * 0.999), "exactly the tolerance is allowed, and a margin"),
        (lambda a, b, t: not SAME(a, b, t), "opposite|expected|False"),
    ],
}  # fmt: skip

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_the_commonest_mistakes_are_all_made_here():
    assert unheard(exercises, WRONG) == [] and unheard(attending, WRONG) == []


# Predictions

SHAPE = ModelShape(50, 2, 16, 32, 2, 1, 16)


@torch.no_grad()
def rows_that_change():
    torch.manual_seed(0)
    model, tokens = Llama(SHAPE), torch.arange(12)
    positions, other = torch.arange(12), torch.tensor([40, *range(1, 12)])

    def silent(layer, q, k, v):
        return torch.zeros_like(q)

    changes = [model(tokens, positions, a) - model(other, positions, a) for a in (silent, dense())]
    rows = [int((change.abs().amax(1) > 1e-6).sum()) for change in changes]
    assert rows[1] == 12
    return rows[0]


def step_of_three():
    pool, requests = BlockPool(8, 4), [Generation(i, [1] * n, Sampling()) for i, n in enumerate((10, 11, 3))]
    for request, stored in zip(requests, (9, 4, 0), strict=True):
        request.table = BlockTable(pool)
        request.table.append(stored)
    step = Step()
    for request, n in zip(requests, (1, 5, 3), strict=True):
        step.work.append((request, n))
        step.slots += request.table.append(n).slots
        step.ready += [request] if request.num_pending == 0 else []
    return step


def who_gets_a_token():
    step = step_of_three()
    batch = pack(step, DeviceBlockTables(3, 8))
    owners = torch.searchsorted(batch.query_start_loc[1:].long(), batch.last, right=True)
    return " and ".join("ABC"[owner] for owner in owners)


@torch.no_grad()
def equal_bits():
    from pagedkv.engine import plays

    pytest.importorskip("safetensors")
    model, tokenizer = plays.load()
    text = tokenizer.encode("**HAMLET**\nGood night, good night. To be, or not to be.").ids
    cache, table, rows = PagedKVCache(model.shape.kv_shape(4), 20, 4, dtype=torch.float32), None, []
    request = Generation(0, text, Sampling())
    request.table = table = BlockTable(BlockPool(20, 4))
    while request.num_pending:
        step = Step([(request, 1)], table.append(1).slots)
        batch = pack(step, DeviceBlockTables(1, 20))
        rows.append(model(batch.tokens, batch.positions, paged(cache, batch)))
    right = model(torch.tensor(text), torch.arange(len(text)), dense())
    assert (torch.cat(rows) - right).abs().max() < 1e-3
    share = (torch.cat(rows) == right).all(1).double().mean()
    return "fewer than one in ten" if share < 0.1 else "about half" if share < 0.9 else "all of them"


test_answers = prediction_test(
    predictions.PREDICTIONS,
    {"6.1-meet": rows_that_change, "6.1-ready": who_gets_a_token, "6.1-bits": equal_bits},
)

# Pictures and widget


def test_the_hole_is_the_one_thing_in_colour():
    canvas, words = pictures.layer_flow(128, 4, 2, 32)
    assert_legible(canvas.svg(words))
    assert [kind for kind, shape in canvas.shapes if shape.get("fill") == style.HIGHLIGHT] == ["polygon"]
    assert {"q [n, 4, 32]", "k [n, 2, 32]", "v [n, 2, 32]", "x [n, 128]"} <= set(texts(canvas))


def test_each_token_of_a_step_leads_to_its_slot():
    step = step_of_three()
    canvas, words = pictures.flat_batch(pictures.shares_of(step), 4, 8)
    assert_legible(canvas.svg(words))
    assert sum(count for colour, count in strokes(canvas).items() if colour != style.INK) == 9
    seen = texts(canvas)
    assert ["slot", *map(str, step.slots)] == [
        s["text"] for kind, s in canvas.shapes if kind == "text" and s["y"] == 154
    ]
    assert "9 tokens in one row; A and C will get a next token" in seen
    assert "query_start_loc is [0, 1, 6, 9]" in words


def test_the_margins_say_only_what_is_the_same_everywhere():
    figure, words = pictures.margins([3e-6, 4e-5], [0.02, 7.0])
    assert "less than 0.0001 everywhere" in words and "at least 0.01." in words
    assert [len(axes.patches) for axes in figure.axes] == [120]
    assert pictures.bound(0.02, up=True) == 0.1 and pictures.bound(0.02, up=False) == 0.01


test_widget, test_moves, test_controls = widget_tests(
    widgets,
    {"flat": [{}, dict(stored=1, done=0, chunk=12, prompt=8), dict(stored=11, done=11, chunk=1, prompt=0),
              dict(stored=11, done=0, chunk=12, prompt=8)]},
)  # fmt: skip


def test_the_widgets_step_is_a_step_of_distinct_slots():
    blocks = [block for some in widgets.BLOCKS.values() for block in some]
    assert sorted(blocks) == list(range(widgets.NUM_BLOCKS))
