"""Lesson 6.4: what its checks accept and refuse, that its predictions are computed, and that two ranks write what one
does."""

from functools import cache

import pytest
from exercise_rules import exercise_tests, unheard
from picture_rules import assert_legible, boxes, texts
from prediction_rules import prediction_test
from widget_rules import widget_tests

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.lesson_6_4 import exercises, pictures, predictions, widgets
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Generation, Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache
from pagedkv.simulation.workload import sample_requests

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

# Exercises


def reusable_in_a_loop(num_tokens, block_size, known_blocks):
    end = 0
    while known_blocks and end + block_size < num_tokens:
        end, known_blocks = end + block_size, known_blocks - 1
    return end


def reusable_by_the_cache(num_tokens, block_size, known_blocks):
    pool = BlockPool(200, block_size)
    prefix, table = PrefixCache(pool), BlockTable(pool)
    table.append(known_blocks * block_size)
    prefix.insert(list(range(known_blocks * block_size)), table.blocks)
    return len(prefix.match(list(range(num_tokens)))) * block_size


def admits_in_steps(tokens, block_size, in_use, idle, free, watermark, running):
    free -= idle
    blocks = (tokens + block_size - 1) // block_size
    free -= blocks - in_use - idle
    return free >= watermark if running else free >= 0


def admits_in_one(tokens, block_size, in_use, idle, free, watermark, running):
    return -(-tokens // block_size) - in_use + bool(running) * watermark <= free


def drops_token_by_token(blocks, num_tokens, window, block_size):
    gone = []
    for position in range(len(blocks) * block_size):
        column = position // block_size
        if position % block_size == block_size - 1 and position < num_tokens - window + 1 and blocks[column] >= 0:
            gone += [blocks[column]]
            blocks[column] = -1
    return gone


def drops_by_slices(blocks, num_tokens, window, block_size):
    end = max(num_tokens + 1 - window, 0) // block_size
    gone = [block for block in blocks[:end] if block != -1]
    blocks[:end] = [-1] * end
    return tuple(gone)


RIGHT = {
    "6.4-reusable": [exercises.reusable_tokens, reusable_in_a_loop, reusable_by_the_cache],
    "6.4-admit": [exercises.can_admit, admits_in_steps, admits_in_one],
    "6.4-drop": [exercises.drop_left, drops_token_by_token, drops_by_slices],
}
WRONG = {
    "6.4-reusable": [
        *exercises.REUSABLE_MISTAKES,
        (lambda n, b, k: exercises.reusable_tokens(n, b, k) + 1, "should return"),
    ],
    "6.4-admit": [*exercises.ADMIT_MISTAKES, (lambda *case: not exercises.can_admit(*case), "opposite")],
    "6.4-drop": [
        *exercises.DROP_MISTAKES,
        (lambda blocks, *rest: exercises.drop_left(list(blocks), *rest), "in place"),
        (lambda blocks, *rest: exercises.drop_left(blocks, *rest)[::-1], "list of blocks given back is not"),
        (lambda blocks, *rest: exercises.drop_left(blocks, *rest) and None, "it returns nothing"),
        (lambda blocks, *rest: exercises.drop_left(blocks, *rest)[::-1], "list of blocks given back is not"),
    ],
}

test_right, test_stubs, test_nonsense, test_wrong = exercise_tests(exercises.EXERCISES, RIGHT, WRONG)


def test_each_sentence_is_told_somebody():
    assert unheard(exercises, WRONG) == []


def test_the_scheduler_admits_as_the_exercise_says():
    for held, kept, tokens in ((5, 3, 27), (5, 3, 19), (2, 3, 30), (9, 0, 4), (0, 4, 17)):
        pool = BlockPool(10, 4)
        prefix, table, others = PrefixCache(pool), BlockTable(pool), BlockTable(pool)
        table.append(4 * kept)
        prefix.insert(list(range(4 * kept)), table.blocks)
        table.free()
        others.append(4 * held)
        scheduler = Scheduler(pool, watermark=0.2, prefix=prefix)
        scheduler.running = dict.fromkeys(range(bool(held)))
        request = Generation(0, list(range(tokens)), Sampling(1))
        found = min(kept, (tokens - 1) // 4)
        expected = exercises.can_admit(tokens, 4, 0, found, pool.num_free, scheduler.watermark_blocks, held)
        assert scheduler._fits(request) is expected, (held, kept, tokens)


def test_a_table_drops_as_the_exercise_says():
    for window in (1, 4, 5, 9, 40):
        table, plain = BlockTable(BlockPool(20, 4)), []
        for length in range(1, 40):
            table.append(1)
            plain = plain + table.blocks[len(plain) :]
            exercises.drop_left(plain, length, window, 4)
            table.drop_before(max(0, length - window + 1))
            assert plain == table.blocks


def test_a_window_of_48_holds_four_blocks_of_16():
    assert max(widgets.grown(400, 48, 16)[1]) == 4


# Predictions


@cache
def plays():
    from pagedkv.engine import plays

    return plays.load()


def encoded(text):
    return plays()[1].encode(text).ids


SPEECH = """**HAMLET**
To be, or not to be: that is the question:
Whether 'tis nobler in the mind to suffer
The slings and arrows of outrageous fortune,
Or to take arms against a sea of troubles,
And by opposing end them. To die: to sleep;
No more; and by a sleep to say we end
The heart-ache and the thousand natural shocks
That flesh is heir to"""
NAMES = ("OPHELIA", "HORATIO", "CLAUDIUS", "GERTRUDE", "POLONIUS", "LAERTES")


def first_step():
    pool = BlockPool(200, 4)
    engine = Engine(Scheduler(pool, prefix=PrefixCache(pool)), lambda step: [0] * len(step.ready))
    engine.generate([encoded(SPEECH)[:72] + encoded(f"\n**{name}**\n") for name in NAMES], Sampling(3))
    return str(engine.usage[0].prefill_tokens)


def admission():
    assert not exercises.can_admit(27, 4, 0, 3, 5, 0, 1)
    return f"no, {7 - 3 - (5 - 3)} too few"


def found_again():
    pool = BlockPool(80, 16)
    scheduler = Scheduler(pool, watermark=0.0, prefix=PrefixCache(pool))
    engine = Engine(scheduler, lambda step: [7 + one.request_id for one in step.ready])
    for i, one in enumerate(sample_requests("azure-conv", 100)):
        engine.add([1000 + i] * max(1, one.prompt_tokens // 8), Sampling(max(1, one.output_tokens // 8)))
    for _ in engine.stream():
        pass
    lost = sum(row.lost for row in engine.usage)
    assert lost == 2344
    return 100 * sum(row.reused for row in engine.usage) / lost


@torch.no_grad()
def same_under_fp8():
    """The whole speech at once, its K and V rounded as an FP8 cache with scale 0.1 rounds them."""
    from pagedkv.engine.model import dense

    model, ids = plays()[0], torch.tensor(encoded(SPEECH))

    def rounded(x):
        return (x / 0.1).to(torch.float8_e4m3fn).float() * 0.1

    def attend(layer, q, k, v):
        return dense()(layer, q, rounded(k), rounded(v))

    right, other = (model(ids, torch.arange(len(ids)), how) for how in (dense(), attend))
    return 100 * (right.argmax(-1) == other.argmax(-1)).float().mean()


@cache
def on_two_ranks():
    from pagedkv.course.lesson_6_4.ranks import on_ranks

    prompts = [encoded(f"**{name}**\nGood night, good night") for name in NAMES[:4]]
    return prompts, on_ranks(2, prompts)


def tables_of_ranks():
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch comes without torch.distributed")
    one, other = on_two_ranks()[1]
    return "they are equal" if one["tables"] == other["tables"] else "they differ"


COMPUTED = {
    "6.4-burst": first_step,
    "6.4-idle": admission,
    "6.4-found": found_again,
    "6.4-fp8": same_under_fp8,
    "6.4-tables": tables_of_ranks,
}

test_predictions = prediction_test(predictions.PREDICTIONS, COMPUTED)


# Ranks


def test_two_ranks_write_what_one_process_writes():
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch comes without torch.distributed")
    from pagedkv.engine.engine import build

    prompts, ranks = on_two_ranks()
    engine = build(plays()[0], num_blocks=20, block_size=4, watermark=0.0)
    right = engine.generate(prompts, [Sampling(24, 0.8, seed) for seed in range(4)])
    assert [rank["tokens"] for rank in ranks] == [right, right]
    assert [2 * rank["bytes_per_token"] for rank in ranks] == [engine.run.cache.shape.bytes_per_token] * 2
    assert ranks[0]["preempted"] == sum(row.preempted for row in engine.usage) > 0


@pytest.mark.parametrize(("gpus", "nccl", "expected"), [(0, True, 0), (1, True, 0), (2, True, 1), (2, False, 0)])
def test_ranks_meet_through_nccl_where_each_has_a_gpu(gpus, nccl, expected, monkeypatch):
    from pagedkv.course.lesson_6_4 import ranks

    monkeypatch.setattr(ranks.torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(ranks.dist, "is_nccl_available", lambda: nccl)
    assert ranks.meeting(1, 2) == [("gloo", "cpu"), ("nccl", "cuda:1")][expected]


def test_ranks_that_would_break_a_head_are_refused():
    from pagedkv.course.lesson_6_4.ranks import shard

    with pytest.raises(ValueError, match="ranks must divide 2 KV heads"):
        shard(plays()[0], 0, 4)


# Pictures


PICTURES = {
    "admission": lambda: pictures.admission("Free, and wanted", used=5, found=3, blank=2, new=4),
    "admission, room": lambda: pictures.admission("Free, and wanted", used=1, found=0, blank=9, new=2),
    "held": lambda: pictures.held("Held", {"kept": [1, 1, 2, 2, 3], "dropped": [1, 1, 2, 2, 2]}),
    "behind": lambda: pictures.behind("Behind", [-1, -1, 5, 2], 14, 5, 4, ["a fact"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_legible(name):
    canvas, alt = PICTURES[name]()
    assert_legible(canvas.svg(alt))


def test_what_is_missing_for_an_admission_is_marked():
    canvas, alt = PICTURES["admission"]()
    assert texts(canvas).count("?") == 2 and texts(canvas).count("new") == 2 and "It lacks 2." in alt
    assert len(boxes(canvas, pictures.USED)) == 5 and "It fits." in PICTURES["admission, room"]()[1]


def test_a_table_behind_a_window_shows_what_is_gone():
    canvas, alt = PICTURES["behind"]()
    assert texts(canvas).count("-1") == 2 and "the table -1 -1 5 2; the newest query sees tokens 9 to 13" in alt
    assert "kept, at most 3, 3 at the end; dropped, at most 2" in PICTURES["held"]()[1]


EQUIVALENT = {
    "6.4-admit": {
        "-tokens // block_size → -tokens / block_size": "a fraction fits under a whole number as its ceiling does"
    },
    "6.4-drop": {"0 → -1": "-1 // block_size is -1, and range(-1) is as empty as range(0)"},
}


# Widgets

SETTINGS = {
    "window": [
        {"num_tokens": tokens, "window": window, "block_size": size}
        for tokens, window, size in ((1, 1, 4), (200, 1, 4), (200, 200, 4), (200, 48, 32), (1, 200, 32), (100, 48, 16))
    ],
}

test_pictures, test_moves, test_controls = widget_tests(widgets, SETTINGS)
