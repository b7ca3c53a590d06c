"""The exercise of lesson 2.2 in which the learner writes a policy: a reservation with a guess of their own.

It is judged by what it does: served under load beside a bookkeeper, and asked the same with other outputs.
"""

from functools import partial

from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.judge.calling import NotAttempted, call
from pagedkv.course.judge.compare import Wrong
from pagedkv.course.judge.exercise import Exercise, Part, hidden_number
from pagedkv.course.judge.stub import is_stub
from pagedkv.course.lesson_2_2.pictures import shares_by_allocator
from pagedkv.simulation.arena import Arena, Extent, OutOfMemory
from pagedkv.simulation.experiment import CAPACITY, POLICIES
from pagedkv.simulation.policies import Policy
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import Request, sample_requests

MOST = 1000  # tokens of a guess
OUTPUTS = (0, 1, 2, 10, 50, 100, 128, 300, 512, 899, 900, 901, 2000)  # a guess must be the same before them all
VERBS = ("admit", "grow", "release")
FIVE = ("max length, first fit", "power of two, buddy", "oracle, first fit", "grow by copy, first fit", "paged")


class _Watched(Policy):
    """A learner's policy beside a bookkeeper, who notes the first fault of each kind."""

    def __init__(self, policy, arena: Arena):
        self.policy, self.arena, self.slots = policy, arena, arena.capacity
        self.stored: dict[int, int] = {}
        self.refused: set[int] = set()  # requests that could not grow
        self.faults: dict[str, str] = {}

    @property
    def held(self):
        return self.policy.held

    def admit(self, request):
        self._do("admit", request)
        self.refused.discard(request.request_id)
        self._store(request, request.prompt_tokens)

    def grow(self, request):
        old, tokens = self.held.get(request.request_id), self.stored[request.request_id]
        try:
            self._do("grow", request)
        except OutOfMemory:
            self.refused.add(request.request_id)
            raise
        if isinstance(old, Extent) and tokens < old.requested and self.held.get(request.request_id) != old:
            said = (
                "a request is moved though its extent has room for the token; `grow` takes a larger one when it is full"
            )
            if request.request_id in self.refused:
                said += ", and counts no token for which `allocate` raises"
            self.faults.setdefault("books", said)
        self._store(request, tokens + 1)

    def release(self, request):
        self._do("release", request)

    def _do(self, verb: str, request: Request) -> None:
        before = dict(self.held), self.arena.total_free
        try:
            getattr(self.policy, verb)(request)
        except OutOfMemory:
            if (self.held, self.arena.total_free) != before:
                said = (
                    f"`{verb}` has changed something when it raises OutOfMemory; allocate first, give back afterwards"
                )
                self.faults.setdefault("books", said)
            raise
        if verb == "release" and request.request_id in self.held:
            self.faults.setdefault("books", "`release` has to take the request out of `held`")
        elif not all(isinstance(extent, Extent) for extent in self.held.values()):
            self.faults.setdefault("books", "`held` maps the id of each request to the extent that `allocate` returned")
        elif sum(extent.size for extent in self.held.values()) != self.slots - self.arena.total_free:
            said = (
                "the arena has given out other slots than `held` names: an extent is lost, or was given back too early"
            )
            self.faults.setdefault("books", said)

    def _store(self, request: Request, tokens: int) -> None:
        extent = self.held.get(request.request_id)
        if not isinstance(extent, Extent):
            self.faults.setdefault("books", "after `admit`, `held` has no extent for the request")
        elif tokens > extent.requested:
            said = (
                "a request stores more tokens than it holds slots: when its extent is full, `grow` needs a larger one"
            )
            self.faults.setdefault("served", said)
        self.stored[request.request_id] = tokens


def _requests() -> list[Request]:
    """Some of them longer than any guess."""
    sampled = sample_requests("paper-sharegpt", 60, seed=hidden_number(3))
    drawn = [request for request in sampled if request.total_tokens < 1200]
    return [*drawn[:40], Request(100, 0.0, 30, 1500), *drawn[40:], Request(101, 0.0, 700, 1200)]


def _fault(kind: str, cls) -> str | None:
    """The sentence about the first fault of this kind in a run under load, or None."""
    arena, requests = Arena(6000), _requests()
    watched = _Watched(cls(arena), arena)
    try:
        run = simulate(requests, watched, arena.capacity)
    except ValueError as error:
        if "must let requests progress" in str(error):
            watched.faults.setdefault("served", "a request that runs alone is preempted before it has stored a token")
        if not watched.faults:
            raise
    except Exception:
        if not watched.faults:
            raise
    else:
        if len(run.finished) < len(requests):
            said = "a request is refused, though it fits an empty arena: are all slots given back at its end or move?"
            watched.faults.setdefault("served", said)
    return watched.faults.get(kind)


def _extents(cls, prompt: int, output: int) -> list[int]:
    """The sizes that a request alone asks for, from its prompt to the end of its output, or as far as there is room."""
    arena = Arena(16_384)
    policy, request = cls(arena), Request(0, 0.0, prompt, output)
    policy.admit(request)
    asked = [policy.held[0].requested]
    try:
        for _ in range(output):
            policy.grow(request)
            asked.append(policy.held[0].requested)
    except OutOfMemory:
        pass
    return asked


def _guesses(cls) -> str | None:
    for prompt in (1, 60, 700):
        asked = _extents(cls, prompt, OUTPUTS[-1])
        for output in OUTPUTS:
            known = _extents(cls, prompt, output)
            if known != asked[: len(known)]:
                return "it looks at the length of the output, which no engine knows beforehand; use the prompt only"
        if asked[0] <= prompt:
            return "there is no room for the first token of the output: guess at least one"
        if asked[0] > prompt + MOST:
            return f"a guess of more than {MOST:,} tokens is a max-length reservation again"


def _untouched(cls) -> bool:
    return all(is_stub(getattr(cls, verb, None)) for verb in VERBS)


def _part(title: str, judge) -> Part:
    """`judge(cls)` returns a sentence about what is wrong, or None."""

    def test(cls):
        if not isinstance(cls, type):
            raise Wrong("the class is expected, not an object of it")
        if _untouched(cls):
            raise NotAttempted
        if not issubclass(cls, Policy):
            raise Wrong("the class has to inherit from Policy, as in the cell above")
        for verb in VERBS:
            if str(getattr(getattr(cls, verb, None), "__module__", "")).startswith("pagedkv"):
                raise Wrong(f"its `{verb}` is that of a policy of the package; write your own")
        problem = call(partial(judge, cls))
        if problem:
            raise Wrong(problem)

    return Part(title, test)


SERVED, BOOKS, GUESS = "every request is served", "what is held, and given back", "a guess from the prompt alone"
POLICY = Exercise(
    "2.2-policy",
    "a policy of your own",
    (_part(SERVED, partial(_fault, "served")), _part(BOOKS, partial(_fault, "books")), _part(GUESS, _guesses)),
    only_with={BOOKS: SERVED, GUESS: SERVED},
)


def beside_the_five(cls) -> tuple[Canvas, str]:
    """The shares of a learner's policy under those of the five, on the lesson's pool and requests.

    Returns the picture and its words.
    """
    requests = sample_requests("paper-sharegpt", 300)
    runs = {name: simulate(requests, POLICIES[name](CAPACITY), CAPACITY) for name in FIVE}
    title = "The five policies; yours is not written yet"
    if not _untouched(cls):
        try:
            runs["yours"], title = simulate(requests, cls(Arena(CAPACITY)), CAPACITY), "Your policy beside the five"
        except Exception as error:
            title = f"The five policies; yours raises {type(error).__name__}"
    return shares_by_allocator(runs, title)
