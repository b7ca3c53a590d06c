"""Exercises of lesson 2.3: read in order through a table, decide on an admission, and say who is preempted."""

from pagedkv.course.judge.exercise import Exercise, calls

# Read


def read_in_order(memory, table, num_tokens, block_size):
    return [memory[table[i // block_size] * block_size + i % block_size] for i in range(num_tokens)]


def _read_cases(random):
    yield [10, 11, 12, 13, 14, 15, 16, 17, 18], [2, 0], 5, 3
    for block_size, num_tokens in ((4, 11), (4, 8), (4, 3), (16, 50), (1, 5), (3, 7), (2, 1)):
        memory = random.sample(range(1000, 2000), 12 * block_size)
        yield memory, random.sample(range(12), -(-num_tokens // block_size)), num_tokens, block_size


READ = Exercise("2.3-read", "read in order", (
    calls("the tokens of one request", read_in_order, _read_cases, mistakes=(
        (lambda memory, table, n, b: memory[:n],
         "that is the start of the memory; the table says where the blocks are"),
        (lambda memory, table, n, b: read_in_order(memory, sorted(table), n, b),
         "read in the order of the table, not of the block ids"),
        (lambda memory, table, n, b: read_in_order(memory, table, len(table) * b, b),
         "the last block is only partly filled: stop in time"),
        (lambda memory, table, n, b: read_in_order(memory, table, n // b * b, b),
         "the last block counts too, as far as it is filled"),
        (lambda memory, table, n, b: read_in_order(memory, table, n - b if n % b == 0 else n, b),
         "n % block_size is 0 where the last block is full, and all of it counts"),
        (lambda memory, table, n, b: memory[table[0] * b : table[0] * b + n],
         "the next block is where the table says, not behind the first one"),
        (lambda memory, table, n, b: read_in_order(memory, table[:1] + table[1:][-1:], min(n, 2 * b), b),
         "only the first and the last block are read; the table has an entry for each"),
        (lambda memory, table, n, b: [memory[block] for block in table],
         "a block id is no slot: block id * block_size is its first slot"),
    )),
))  # fmt: skip

# Admission


def can_admit(prompt, num_free, num_blocks, block_size, watermark):
    return num_free - -(-prompt // block_size) >= int(watermark * num_blocks)


def _admit_cases(random):
    yield from (
        (17, 2, 100, 16, 0.0),
        (16, 1, 100, 16, 0.0),
        (17, 1, 100, 16, 0.0),
        (32, 12, 100, 16, 0.1),
        (32, 11, 100, 16, 0.1),
        (33, 12, 100, 16, 0.1),
        (1, 50, 100, 1, 0.49),
        (8, 10, 100, 1, 0.49),
        (160, 20, 1000, 16, 0.01),
        (161, 20, 1000, 16, 0.01),
    )
    yield 16, 16, 155, 16, 0.1
    yield from ((prompt, free, 20, 3, 0.1) for prompt in range(1, 8) for free in range(1, 7))
    for _ in range(12):
        block_size, num_blocks = random.choice((1, 8, 16)), random.randrange(50, 1000)
        prompt, watermark = random.randrange(1, 400), random.choice((0.0, 0.01, 0.05, 0.1))
        edge = -(-prompt // block_size) + int(watermark * num_blocks)
        num_free = min(max(edge + random.randrange(-2, 3), 0), num_blocks - 1)  # somebody runs
        yield prompt, num_free, num_blocks, block_size, watermark


ADMIT = Exercise("2.3-admit", "admission with a watermark", (
    calls("may this request start?", can_admit, _admit_cases, mistakes=(
        (lambda p, f, n, b, w: can_admit(p, f, n, b, 0),
         "what must stay free is missing: int(watermark * num_blocks) blocks"),
        (lambda p, f, n, b, w: f - p // b >= int(w * n),
         "a block that is filled in part is needed as a whole: round up"),
        (lambda p, f, n, b, w: f - -(-p // b) >= int(w * f),
         "the watermark is a share of all blocks, not of the free ones"),
        (lambda p, f, n, b, w: f - -(-p // b) >= w * n,
         "blocks are whole: int(watermark * num_blocks) rounds down first"),
        (lambda p, f, n, b, w: f - -(-p // b) > int(w * n), "if exactly that many blocks stay free, it may start"),
        (lambda p, f, n, b, w: f - p >= int(w * n), "the prompt is counted in tokens, the pool in blocks"),
        (lambda p, f, n, b, w: can_admit(p + 1, f, n, b, w),
         "the prompt alone is counted: the block of the first output token is taken when that comes"),
        (lambda p, f, n, b, w: f - -(-p // b) >= int(w * (n - -(-p // b))),
         "the watermark is a share of all blocks, not of those that the prompt leaves"),
        (lambda p, f, n, b, w: f - -(-p // b) >= int(w * n) + 1, "if exactly that many blocks stay free, it may start"),
        (lambda p, f, n, b, w: f >= int(w * n), "the blocks that the prompt will take are no longer free afterwards"),
        (lambda p, f, n, b, w: f >= max(int(w * n), -(-p // b)),
         "both at once: what the prompt takes and what has to stay free have to be there together"),
    )),
))  # fmt: skip

# Preemption


def preempted(
    lengths,
    num_free,
    block_size,
    freed=True,
    needs=lambda n, b: n % b == 0,
    latest=True,
    rounded=lambda n, b: -(-n // b),
):
    """The keyword arguments make the usual mistakes."""
    order = list(lengths) if latest else list(reversed(lengths))
    for victims in range(len(order) + 1):
        kept, gone = order[: len(order) - victims], order[len(order) - victims :]
        blocks = sum(rounded(tokens, block_size) for tokens in gone) if freed else 0
        if sum(needs(tokens, block_size) for tokens in kept) <= num_free + blocks:
            return victims
    return len(order)


def _still_wants(lengths, num_free, block_size):
    """The need is counted once, with those that go."""
    need, free, victims = sum(tokens % block_size == 0 for tokens in lengths), num_free, 0
    while free < need and victims < len(lengths):
        victims += 1
        free += -(-lengths[-victims] // block_size)
    return victims


def _preemption_cases(random):
    yield from (
        ([16, 32, 48], 3, 16),
        ([16, 32, 48], 0, 16),
        ([15, 31, 47], 0, 16),
        ([16] * 6, 2, 16),
        ([4, 8, 3, 3], 1, 4),
    )
    yield from (([1, 1, 4], 0, 4), ([8, 8, 8, 1], 2, 8), ([64, 16, 16, 16, 16], 1, 16), ([], 0, 16), ([32], 0, 16))
    for _ in range(12):
        block_size = random.choice((2, 4, 8))
        lengths = [random.choice((1, 1, 2, 3)) * random.choice((1, block_size)) for _ in range(random.randrange(2, 12))]
        yield lengths, random.randrange(0, 4), block_size


PREEMPT = Exercise("2.3-preempt", "who has to go", (
    calls("requests that are preempted", preempted, _preemption_cases, mistakes=(
        (lambda n, f, b: preempted(n, f, b, freed=False),
         "a preempted request gives its blocks back, and others may take them"),
        (lambda n, f, b: preempted(n, f, b, needs=lambda n, b: True),
         "only a request whose last block is full needs another one"),
        (lambda n, f, b: preempted(n, f, b, needs=lambda n, b: (n + 1) % b == 0),
         "`lengths` does not count the token that is to come"),
        (lambda n, f, b: preempted(n, f, b, rounded=lambda n, b: n // b),
         "the last block of a preempted request comes back too, where it is filled in part"),
        (lambda n, f, b: preempted(n, f, b, rounded=lambda n, b: 1),
         "a preempted request gives back all its blocks, not one"),
        (lambda n, f, b: preempted(n, f, b, rounded=lambda n, b: n // b + 1),
         "a request whose last block is full has n // block_size blocks, none more"),
        (_still_wants, "a preempted request wants no block any more: count the others only"),
        (lambda n, f, b: min(preempted(n, f, b), 1), "one may not be enough: count again after each"),
        (lambda n, f, b: preempted(n, f, b, latest=False), "the latest request goes first, the earliest last"),
        (lambda n, f, b: max(sum(x % b == 0 for x in n) - f, 0),
         "that is how many blocks are missing; a request may free several"),
    )),
))  # fmt: skip

EXERCISES = (READ, ADMIT, PREEMPT)
