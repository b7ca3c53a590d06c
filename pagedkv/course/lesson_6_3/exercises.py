"""Exercises of lesson 6.3: how many have to go, what comes back, and what the copies cost."""

from functools import partial
from operator import truediv

from pagedkv.course.judge.exercise import Exercise, calls
from pagedkv.course.lesson_6_3.costs import swap_seconds
from pagedkv.sizing import MODELS, KVShape, ceil_div

# victims


def victims(free, held, needs):
    """How many of the last admitted have to go, so that all others get the blocks that they need."""
    kept = len(held)
    while sum(needs[:kept]) > free + sum(held[kept:]):
        kept -= 1
    return len(held) - kept


def _going(
    free, held, needs, *, back=lambda held, i: held[i], wants=lambda needs, kept: sum(needs[:kept]), reach=0, last=1
):
    """`last`: how many stay where it goes on to the end."""
    kept, room = len(held), free
    while kept > last and wants(needs, kept) > room + reach:
        kept -= 1
        room += back(held, kept)
    return len(held) - kept


def _oldest(free, held, needs, last=1):
    gone = 0
    while gone < len(held) - last and sum(needs[gone:]) > free + sum(held[:gone]):
        gone += 1
    return gone


def _largest(free, held, needs):
    order = sorted(range(len(held)), key=lambda i: held[i])
    return victims(free, [held[i] for i in order], [needs[i] for i in order])


VICTIMS_MISTAKES = [
    (partial(slip, last=last), sentence)
    for slip, sentence in (
        (
            partial(_going, wants=lambda needs, kept: sum(needs)),
            "a request that has to go no longer needs a block",
        ),
        (partial(_going, back=lambda held, i: 1), "a victim gives back all of its blocks, not one"),
        (partial(_going, back=lambda held, i: 0), "a victim gives back all of its blocks: they are free then"),
        (_oldest, "the last admitted goes first, at the end of the lists"),
        (partial(_going, reach=-1), "it is enough when as many blocks are free as are needed, not one more"),
    )
    for last in (1, 0)
] + [
    (lambda f, h, n: max(0, sum(n) - f), "a victim gives back all of its blocks, not one"),
    (lambda f, h, n: len(h) - victims(f, h, n), "that is how many stay"),
    (_largest, "the last admitted goes, however much it holds"),
    (lambda f, h, n: int(sum(n) > f), "one victim may not be enough"),
    (lambda f, h, n: _going(0, h, n), "blocks that are free already count too"),
]


def _fits_alone(free, held, needs) -> bool:
    return needs[0] <= free + sum(held[1:])


def _victims_cases(random):
    yield from ((0, [1, 1], [1, 1]), (0, [1, 2, 3], [1, 1, 1]), (2, [4, 4], [1, 1]), (0, [2, 1, 1, 1], [1, 1, 1, 0]))
    yield from ((0, [5], [0]), (1, [3, 3, 3], [1, 0, 1]), (0, [1] * 11, [1] * 11))
    for _ in range(60):
        count = random.randint(1, 7)
        case = (
            random.randint(0, 2),
            [random.randint(1, 4) for _ in range(count)],
            [random.choice((0, 1, 1, 1, 2)) for _ in range(count)],
        )
        if _fits_alone(*case):
            yield case


def _none_cases(random):
    for _ in range(12):
        needs = [random.randint(0, 1) for _ in range(random.randint(1, 6))]
        yield sum(needs) + random.randint(0, 1), [random.randint(1, 5) for _ in needs], needs
    yield from ((1, [2], [1]), (0, [2, 2], [0, 0]), (2, [1, 1], [1, 1]))


# requeue


def requeue(prompt, max_new, stored, sampled):
    """(tokens that its first step runs when it is back, tokens that it may still sample)."""
    return prompt + sampled, max_new - sampled


REQUEUE_MISTAKES = [
    (
        lambda p, m, s, n: (s, m - n),
        "more is known than was stored: the token that was sampled last, or the rest of the prompt, runs too",
    ),
    (lambda p, m, s, n: (s + 1, m - n), "in a prompt that is stored in part, more than one token is left to run"),
    (
        lambda p, m, s, n: (p, m),
        "the tokens it has sampled were streamed already: they are kept, and run with the prompt",
    ),
    (lambda p, m, s, n: (p, m - n), "K and V of the tokens it has sampled are gone too, so they run with the prompt"),
    (lambda p, m, s, n: (p + n, m), "of the new tokens that it may sample, some are sampled already"),
    (lambda p, m, s, n: (p + n - s, m - n), "nothing is stored any more: all that is known runs again"),
    (lambda p, m, s, n: (p + n + 1, m - n), "the prompt and what was sampled is all that is known; nothing more runs"),
    (lambda p, m, s, n: (p + n, m - n - 1), "it has sampled what it has sampled: the next token is not among them"),
    (lambda p, m, s, n: (1, m - n), "its K and V are gone: one token is not enough"),
]


def _decoding(random):
    yield from ((2, 6, 6, 5), (1, 4, 3, 3), (14, 60, 28, 15))
    for _ in range(20):
        prompt, max_new = random.randint(1, 40), random.randint(2, 40)
        sampled = random.randint(1, max_new - 1)
        yield prompt, max_new, prompt + sampled - 1, sampled


def _prefilling(random):
    yield from ((10, 5, 4, 0), (100, 8, 64, 0))
    for _ in range(20):
        prompt = random.randint(3, 200)
        yield prompt, random.randint(1, 40), random.randint(1, prompt - 2), 0


# swap


def _swap(copies=None, moved=None, ways=2, waits=True, in_blocks=ceil_div):
    def wrong(tokens, block_size, shape, bandwidth, latency, gathered):
        blocks = in_blocks(tokens, block_size)
        count = (copies or (lambda blocks, shape: blocks * shape.num_layers * 2))(blocks, shape)
        count = 1 if gathered else count
        moving = (moved or (lambda tokens, blocks, size, shape: blocks * size * shape.bytes_per_token))(
            tokens, blocks, block_size, shape
        )
        return ways * (count * latency * waits + moving / bandwidth)

    return wrong


def _layer_by_layer(tokens, block_size, shape, bandwidth, latency, gathered):
    seconds = swap_seconds(tokens, block_size, shape, bandwidth, latency, gathered)
    return seconds + gathered * 2 * (2 * shape.num_layers - 1) * latency


def _rounded_down(tokens, block_size, *others):
    return swap_seconds(tokens // block_size * block_size, block_size, *others)


def _latency_once(tokens, block_size, shape, bandwidth, latency, gathered):
    copies = 1 if gathered else ceil_div(tokens, block_size) * shape.num_layers * 2
    return swap_seconds(tokens, block_size, shape, bandwidth, latency, gathered) - copies * latency


SWAP_MISTAKES = [
    (_swap(ways=1), "that is one way: the K and V also come back"),
    (_swap(copies=lambda blocks, shape: blocks), "each layer's K, and V, of a block is a copy of its own"),
    (
        _swap(copies=lambda blocks, shape: blocks * shape.num_layers),
        "half of the copies are missing: K and V are copied apart, and both ways",
    ),
    (_swap(copies=lambda blocks, shape: blocks * 2), "each layer has tensors of its own, so copies of its own"),
    (
        _swap(moved=lambda tokens, blocks, size, shape: tokens * shape.bytes_per_token),
        "blocks move whole, the last one too",
    ),
    (_swap(in_blocks=truediv), "blocks move whole, the last one too"),
    (
        _swap(moved=lambda tokens, blocks, size, shape: tokens // size * size * shape.bytes_per_token),
        "the last block, partly filled, moves too",
    ),
    (_rounded_down, "the last block, partly filled, moves too, in copies of its own"),
    (lambda *case: 1e3 * swap_seconds(*case), "seconds are asked for, not milliseconds"),
    (_swap(waits=False), "every copy costs `latency`, beside its bytes"),
    (_layer_by_layer, "gathered, everything goes in one copy each way, all layers together"),
    (_latency_once, "`latency` is paid on the way back too"),
    (
        _swap(moved=lambda tokens, blocks, size, shape: blocks * size * shape.bytes_per_token * 2),
        "`bytes_per_token` has both K and V already",
    ),
    (
        _swap(moved=lambda tokens, blocks, size, shape: blocks * size * shape.bytes_per_token * 2 * shape.num_layers),
        "`block_bytes` has all layers already, K and V",
    ),
    (
        _swap(copies=lambda blocks, shape: blocks * shape.num_layers * 2 * shape.num_kv_heads),
        "all heads of a layer's K lie side by side in a block: one copy, not one for each head",
    ),
    (lambda *case: _swap()(*case[:5], False), "gathered, there is one copy each way"),
]

SHAPES = (MODELS["opt-13b"], MODELS["llama-3-8b"], KVShape(3, 2, 8), KVShape(1, 1, 4, 1))


def _swap_cases(gathered):
    def cases(random):
        for shape in SHAPES:
            for size in (1, 4, 16, 64):
                tokens = random.randint(1, 40) * size - random.randrange(size)
                yield (
                    tokens,
                    size,
                    shape,
                    random.choice((12e9, 25e9, 50e9)),
                    random.choice((1e-6, 5e-6, 8e-6)),
                    gathered,
                )

    return cases


EXERCISES = [
    Exercise(
        "6.3-victims",
        "how many have to go",
        (
            calls("nobody has to go", victims, _none_cases, mistakes=VICTIMS_MISTAKES),
            calls("some have to go", victims, _victims_cases, mistakes=VICTIMS_MISTAKES, points=2),
        ),
        only_with={"nobody has to go": "some have to go"},
    ),
    Exercise(
        "6.3-requeue",
        "what a request takes back to the queue",
        (
            calls("it was generating", requeue, _decoding, mistakes=REQUEUE_MISTAKES),
            calls("its prompt was stored in part", requeue, _prefilling, mistakes=REQUEUE_MISTAKES),
        ),
    ),
    Exercise(
        "6.3-swap",
        "the seconds of a swap",
        (
            calls("one copy for each block", swap_seconds, _swap_cases(False), mistakes=SWAP_MISTAKES, points=2),
            calls("gathered", swap_seconds, _swap_cases(True), mistakes=SWAP_MISTAKES),
        ),
    ),
]
