"""The loop of an engine: schedule, run, take the tokens, let go of who is done.

It knows neither model nor tensor: `run` is a `runner.Runner`, or any function from a Step to one token for each of
`step.ready`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from pagedkv.arguments import hashable, having, listed, shown, whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.engine.interrupt import held
from pagedkv.engine.request import GREEDY, Event, Generation, Sampling, Step, Token, Usage, usage_of
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache
from pagedkv.sizing import BLOCK_SIZE


class Engine:
    """Serves token ids with continuous batching (Yu et al., OSDI 2022). `usage` has a row for every step, `events` say
    who came and went; both grow until somebody clears them.

    Raises ValueError or TypeError that names what is wrong with a prompt or its sampling; then nothing was added.
    """

    def __init__(self, scheduler: Scheduler, run: Callable[[Step], Sequence[int]], vocab_size: int = 2**63):
        self.scheduler = having("scheduler", scheduler, "a Scheduler", "schedule", "finish", "live")
        self.run = having("run", run, "a Runner, or a function from a Step to tokens", "__call__")
        self.last_token = whole_number("vocab_size", vocab_size, 1, 2**63) - 1  # reuse names blocks by 64 bits a token
        self.usage: list[Usage] = []
        self.events: list[Event] = []
        self._next_id, self._stepping = 0, False
        self._told: list[Token] = []  # sampled, and not yet handed out
        if hasattr(run, "join"):
            run.join(scheduler)

    @property
    def busy(self) -> bool:
        return bool(self.scheduler.live or self._told)

    def add(self, prompt: Iterable[int], sampling: Sampling = GREEDY, identity: Hashable = None) -> int:
        """Queue a prompt of token ids; returns the request's id. Requests with different identities share no blocks."""
        return self._queue(self._checked(prompt, sampling, identity))

    def step(self) -> list[Token]:
        """Run every request that has room by one token, or by what is left of its prompt. If `run` raises, the step
        counts as not run, and may be tried again.
        """
        self._between_steps("step")
        with held() as interrupts:
            step = self.scheduler.schedule()
            self._stepping = True
            try:
                tokens = self._checked_tokens(interrupts.let_through(self._run, step), step) if step.work else []
            except BaseException:
                self.scheduler.undo(step)
                raise
            finally:
                self._stepping = False
                self._note("preempted", *step.preempted)  # they have lost their blocks, whether the step was run or not
            self._note("admitted", *step.admitted)
            self.usage.append(usage_of(self.scheduler, step))
            self._told += [self._take(*both) for both in zip(step.ready, tokens, strict=True)]
        told, self._told = self._told, []  # after an interrupt the next step tells them
        return told

    def stream(self) -> Iterator[Token]:
        """Tokens as they come, until nobody is left. More requests may be added meanwhile. Whoever stops listening
        leaves them as they are: another stream goes on, and `abort` lets go.
        """
        while self.busy:
            self._told = self._told or self._advance()
            while self._told:
                token = self._told[0]
                del self._told[0]  # no call from here to the listener: it is where an interrupt would lose the token
                yield token

    def generate(self, prompts: Iterable[Iterable[int]], sampling: Sampling | Sequence[Sampling] = GREEDY):
        """The new tokens of each prompt. All prompts are checked before the first is added."""
        prompts = listed("prompts", prompts, "lists of token ids")
        each = [sampling] * len(prompts) if isinstance(sampling, Sampling) else listed("sampling", sampling, "Sampling")
        if len(each) != len(prompts):
            raise ValueError(f"sampling must be one, or one for each of {len(prompts)} prompts, not {len(each)}")
        requests = [self._checked(*both) for both in zip(prompts, each, strict=True)]
        try:
            for request in requests:
                self._queue(request)
            while any(request.finish_reason is None for request in requests):
                self._told = self._advance()  # those of others too, who listen later
        finally:  # an error or an interrupt leaves nothing behind
            self._let_go(requests)
        return [request.output for request in requests]

    def abort(self, request_id: int) -> None:
        """Let go of a request, waiting or running. Raises ValueError if it is unknown or has finished."""
        if not isinstance(request_id, Hashable) or request_id not in self.scheduler.live:
            raise ValueError(f"request_id must be of a request that waits or runs, not {shown(request_id)}")
        self._between_steps("abort")
        self._let_go([self.scheduler.live[request_id]])

    def _let_go(self, requests: list[Generation]) -> None:
        """None of their tokens is told any more, and those that are not done never will be."""
        theirs = {request.request_id for request in requests}
        self._told = [token for token in self._told if token.request_id not in theirs]
        for request in requests:
            if request.request_id in self.scheduler.live:
                self._leave(request, "abort")

    def _advance(self) -> list[Token]:
        """A step, and RuntimeError where it and all to come can do nothing."""
        tokens, pool, waiting = self.step(), self.scheduler.pool, self.scheduler.waiting
        if waiting and not self.usage[-1].running:
            free = f"{pool.num_free} of {pool.num_blocks} are free: others hold the pool's"
            raise RuntimeError(f"request {waiting[0].request_id} waits for blocks while nothing runs, and {free}")
        return tokens

    def _between_steps(self, what: str) -> None:
        if self._stepping:
            raise RuntimeError(f"{what} must be called between steps, not while one runs")

    def _run(self, step: Step) -> list:
        return listed("what run gives", self.run(step), "tokens")

    def _checked_tokens(self, tokens: list, step: Step) -> list[int]:
        if len(tokens) != len(step.ready):
            raise ValueError(f"run must give a token for each of {len(step.ready)} in step.ready, not {len(tokens)}")
        return [whole_number("a token of run", token, 0, self.last_token) for token in tokens]

    def _checked(self, prompt, sampling, identity=None) -> Generation:
        if isinstance(prompt, str | bytes):
            raise TypeError("prompt must be token ids, not a string: encode it first")
        if not isinstance(sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling, not {shown(sampling)}")
        prompt = [whole_number("prompt", token, 0, self.last_token) for token in listed("prompt", prompt, "token ids")]
        if not prompt:
            raise ValueError("prompt must have at least one token")
        hashable("identity", identity)
        self.scheduler.check(request := Generation(-1, prompt, sampling, identity))
        return request

    def _queue(self, request: Generation) -> int:
        with held():
            request.request_id = self._next_id
            self.scheduler.add(request)
            self._note("arrived", request)
            self._next_id += 1
        return request.request_id

    def _take(self, request: Generation, token: int) -> Token:
        request.tokens.append(token)
        reason = "length" if len(request.tokens) > request.max_stored else None
        if token == request.sampling.stop_token:
            reason = "stop"
        if reason:
            self._leave(request, reason)
        return Token(request.request_id, token, reason)

    def _leave(self, request: Generation, reason: str) -> None:
        with held():
            self.scheduler.finish(request, reason)
            self._note(reason, request)

    def _note(self, what: str, *requests: Generation) -> None:
        for one in requests:
            self.events.append(Event(len(self.usage), what, one.request_id, len(one.tokens), one.max_stored))


def build(
    model, num_blocks: int, block_size: int = BLOCK_SIZE, *, token_budget: int | None = None, max_running: int = 64,
    max_blocks: int | None = None, window: int | None = None, watermark: float = 0.01, reuse: bool = False,
    host_blocks: int = 0, **hardware,
) -> Engine:  # fmt: skip
    """An engine over a `model.Llama` with a pool of `num_blocks`.

    - `reuse`: full blocks are found again by content. `host_blocks` hold the K and V of preempted requests.
    - `max_blocks`: the longest table, the whole pool if left out.
    - `window`: how many tokens every layer sees, the current one included; the blocks behind it are given back, so that
      a sequence may be longer than the pool, up to `max_blocks`.
    - `hardware`: the runner's device="cpu", backend="auto", cuda_graphs=True.
    """
    from pagedkv.engine.runner import Runner
    from pagedkv.engine.swap import HostPool

    both = dict(max_running=max_running, max_blocks=max_blocks, window=window)
    runner = Runner(model, num_blocks, block_size, **both, **hardware)
    pool = BlockPool(num_blocks, block_size)
    prefix = PrefixCache(pool) if reuse else None
    host = HostPool(runner.cache, host_blocks) if whole_number("host_blocks", host_blocks) else None
    scheduler = Scheduler(pool, token_budget=token_budget, watermark=watermark, prefix=prefix, host=host, **both)
    return Engine(scheduler, runner, model.shape.vocab_size)
