"""The open task of lesson 6.5: a policy of the learner's own, measured beside the five on lengths of a real trace.

A policy here decides over a pool of equal blocks: who may come in, and when somebody has to go. What it costs is said
in tokens' worth of work, as in lesson 6.2: a step costs STEP, and each token that is run one more.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from pagedkv.block_pool import OutOfBlocks
from pagedkv.course.judge.calling import call
from pagedkv.course.judge.compare import Wrong, kind
from pagedkv.course.judge.exercise import Exercise, Part, hidden
from pagedkv.course.judge.stub import is_stub
from pagedkv.simulation.arena import Arena
from pagedkv.simulation.policies import GrowByCopy, MaxLength, Oracle, Paged, Policy, PowerOfTwo
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import Request, sample_requests
from pagedkv.sizing import ceil_div

BLOCK, BLOCKS, LONGEST = 16, 64, 512
SLOTS = BLOCK * BLOCKS
STEP = 64  # what a step costs beside its tokens, in tokens: reading the weights, launching
FIVE: dict[str, Callable[[], Policy]] = {
    "max length": lambda: MaxLength(Arena(SLOTS), LONGEST),
    "power of two": lambda: PowerOfTwo(Arena(SLOTS), LONGEST),
    "oracle": lambda: Oracle(Arena(SLOTS)),
    "grow by copy": lambda: GrowByCopy(Arena(SLOTS), initial=32),
    "paged": lambda: Paged(BLOCKS, BLOCK, watermark=0.0),
}


class Bill(NamedTuple):
    """What it took to serve all requests."""

    steps: int
    lost: int  # tokens of requests that were preempted: run again
    cost: float  # per token of prompts and answers


class Asked(NamedTuple):
    """A request as a policy of the learner's sees it."""

    request_id: int
    prompt_tokens: int

    @property
    def output_tokens(self):
        raise Wrong("output_tokens is read; nobody knows how long an answer gets")

    total_tokens = output_tokens


@cache
def requests_of(seed: int, count: int = 150) -> tuple[Request, ...]:
    """Lengths of the Azure conversation trace, an eighth as long, up to LONGEST in all; everybody waits at once."""
    drawn = [
        replace(one, prompt_tokens=max(1, one.prompt_tokens // 8), output_tokens=max(1, one.output_tokens // 8))
        for one in sample_requests("azure-conv", 2 * count, seed=seed)
    ]
    return tuple(one for one in drawn if one.total_tokens <= LONGEST)[:count]


class Watched(Policy):
    """Hands all on to a policy, and counts the tokens that preempted requests lose."""

    def __init__(self, policy):
        self.policy, self.slots, self.block_size = policy, policy.slots, policy.block_size
        self.stored, self.lost = {}, 0

    held = property(lambda self: self.policy.held)
    copied_tokens = property(lambda self: self.policy.copied_tokens)
    arena = property(lambda self: self.policy.arena)

    def refusal(self, request):
        return self.policy.refusal(request)

    def admit(self, request):
        self.policy.admit(request)
        self.stored[request.request_id] = request.prompt_tokens

    def grow(self, request):
        self.policy.grow(request)
        self.stored[request.request_id] += 1

    def grow_all(self, steps):
        steps = self.policy.grow_all(steps)
        for request_id in self.stored:
            self.stored[request_id] += steps
        return steps

    def release(self, request):
        self.policy.release(request)
        stored = self.stored.pop(request.request_id)
        self.lost += stored if stored < request.total_tokens else 0


class Own(Policy):
    """A policy that a learner wrote, of three verbs, as the simulator asks for one. It sees no output lengths."""

    def __init__(self, cls, blocks: int = BLOCKS, size: int = BLOCK):
        self.policy, self.slots, self.block_size = cls(blocks, size), blocks * size, size

    def admit(self, request):
        self.policy.admit(Asked(request.request_id, request.prompt_tokens))
        self.held[request.request_id] = None

    def grow(self, request):
        self.policy.grow(Asked(request.request_id, request.prompt_tokens))

    def release(self, request):
        self.policy.release(Asked(request.request_id, request.prompt_tokens))
        del self.held[request.request_id]


def bill(policy: Policy, requests) -> Bill:
    """Serve the requests; everyone has to end."""
    watched = Watched(policy)
    watched.__class__ = type(type(policy).__name__, (Watched,), {})
    timeline = simulate(requests, watched, policy.slots)
    if timeline.refused:
        raise Wrong("a request that has the pool to itself is not let in, and so never")
    asked, steps = sum(request.total_tokens for request in requests), int(timeline.duration.sum())
    return Bill(steps, watched.lost, (STEP * steps + asked + watched.lost) / asked)


@cache
def bill_of(name: str, seed: int = 0) -> Bill:
    """One of the five."""
    return bill(FIVE[name](), requests_of(seed))


def race(cls=None, seed: int = 0) -> dict[str, Bill]:
    """The five, and one's own once it is written."""
    bills = {name: bill_of(name, seed) for name in FIVE}
    return bills if cls is None or is_stub(cls) else bills | {"yours": bill(Own(cls), requests_of(seed))}


# The check

BROKEN = {  # words of the simulator's error -> what is said
    "must hold no more than": "more blocks are handed out than there are: raise OutOfBlocks where too few are free, "
    "and change nothing then",
    "must let requests progress": "a request that has the pool to itself is preempted before it has stored a token; "
    "does `release` give back every block, those of `grow` too?",
    "does not fit an idle pool": "a request that has the pool to itself is not let in, and so never",
}


def _served(cls, requests, blocks=BLOCKS, size=BLOCK) -> Bill:
    def run():
        try:
            return bill(Own(cls, blocks, size), requests)
        except KeyError:
            return Wrong("a request that runs is unknown: admit notes its tokens, or raises OutOfBlocks to keep it out")
        except ValueError as error:
            for words, sentence in BROKEN.items():
                if words in str(error):
                    return Wrong(sentence)
            raise
        except Wrong as wrong:
            return wrong

    found = call(run, answer=cls)
    if isinstance(found, Wrong):
        raise found
    return found


def _promises(cls) -> None:
    if not isinstance(cls, type):
        raise Wrong(f"the class is expected, not {kind(cls)}; hand over the class itself, without calling it")
    if any(base.__module__.startswith("pagedkv.") for base in cls.__mro__):
        raise Wrong("this class stands on the package's; write one of your own")
    for verb in ("admit", "grow", "release"):
        if not callable(getattr(cls, verb, None)):
            raise Wrong(f"there is no method {verb}")
    draw = hidden("promises")
    for blocks, size in ((4, 4), (9, 2), (16, 4), (5, 1)):
        lengths = [(draw.randint(1, blocks * size // 2), draw.randint(1, blocks * size // 2)) for _ in range(12)]
        requests = [Request(i, 0.0, prompt, new) for i, (prompt, new) in enumerate(lengths)]
        for prompt in (1, blocks * size - 1):  # it grows until the pool is full, or fills it at once
            alone = _served(cls, [Request(0, 0.0, prompt, blocks * size - prompt)], blocks, size)
            if alone.lost:
                raise Wrong("a request that needs the whole pool is preempted, though it has it to itself")
        _served(cls, requests, blocks, size)


SEEDS = range(100, 104)  # for every class: under other loads less than a hundredth may be won


def _cost(served: Callable[[int], Bill]) -> tuple[float, int, int]:
    """(cost, steps, tokens lost), the sums over SEEDS."""
    bills = [served(seed) for seed in SEEDS]
    return sum(one.cost for one in bills), sum(one.steps for one in bills), sum(one.lost for one in bills)


def _beats(other: str, share: float) -> Callable:
    def test(cls):
        cost, steps, lost = _cost(lambda seed: _served(cls, requests_of(seed)))
        right, _, _ = _cost(lambda seed: bill_of(other, seed))
        _, paged_steps, paged_lost = _cost(lambda seed: bill_of("paged", seed))
        if cost <= share * right:
            return
        if lost > 0.6 * paged_lost:
            raise Wrong(
                "its victims lose about as much as under plain paging, or more: let fewer in, so that who runs can grow"
            )
        raise Wrong(
            f"it loses {'little' if lost else 'nothing'}, and takes more steps than that saves: requests wait though "
            "there is room for them"
        )

    return test


POLICY = Exercise(
    "6.5-policy",
    "a policy of your own",
    (
        Part("keeps its promises", _promises),
        Part("no dearer than the oracle", _beats("oracle", 1.0)),
        Part("a hundredth cheaper than plain paging", _beats("paged", 0.99), points=2),
    ),
    in_order=True,
)


class KeepFree:
    """Blocks on demand; an admission leaves `each` blocks free for everyone who runs, and `always` besides."""

    each, always = 0.5, 0

    def __init__(self, num_blocks, block_size):
        self.free, self.size, self.tokens = num_blocks, block_size, {}

    def admit(self, request):
        needed = ceil_div(request.prompt_tokens, self.size)
        if needed + (self.each * len(self.tokens) + self.always if self.tokens else 0) > self.free:
            raise OutOfBlocks(needed, self.free)
        self.free -= needed
        self.tokens[request.request_id] = request.prompt_tokens

    def grow(self, request):
        if self.tokens[request.request_id] % self.size == 0:
            if not self.free:
                raise OutOfBlocks(1, 0)
            self.free -= 1
        self.tokens[request.request_id] += 1

    def release(self, request):
        self.free += ceil_div(self.tokens.pop(request.request_id), self.size)


@cache
def kept_free(each: float, always: int, seed: int = 0) -> Bill:
    """The bill of a policy that keeps so much free."""
    return bill(Own(type("KeepFree", (KeepFree,), {"each": each, "always": always})), requests_of(seed))
