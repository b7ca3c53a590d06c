"""The loop of an engine: schedule, run, take the tokens, let go of who is done.

It knows neither model nor tensor: `run` is a `runner.Runner`, or any function from a Step to one token for each of
`step.ready`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from pagedkv.arguments import hashable, listed, shown, whole_number
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

    def __init__(self, scheduler: Scheduler, run: Callable[[Step], Sequence[int]], vocab_size: int | None = None):
        self.scheduler, self.run, self.vocab_size = scheduler, run, vocab_size
        self.usage: list[Usage] = []
        self.events: list[Event] = []
        self._live: dict[int, Generation] = {}
        self._next_id = 0
        if hasattr(run, "join"):
            run.join(scheduler)
        self._stepping = False
        self._told: list[Token] = []  # sampled, and not yet handed out

    @property
    def busy(self) -> bool:
        return bool(self._live or self._told)

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
                interrupts.let_through()
                tokens = self._tokens(self.run(step), len(step.ready)) if step.work else []
                interrupts.hold()
            except BaseException:
                interrupts.hold()
                self.scheduler.undo(step)
                raise
            finally:
                self._stepping = False
                for request in step.preempted:  # they have lost their blocks, whether the step was run or not
                    self._note("preempted", request)
            for request in step.admitted:
                self._note("admitted", request)
            self.usage.append(usage_of(self.scheduler, step))
            self._told += [self._take(request, token) for request, token in zip(step.ready, tokens, strict=True)]
        told, self._told = self._told, []  # after an interrupt the next step tells them
        return told

    def stream(self) -> Iterator[Token]:
        """Tokens as they come, until nobody is left. More requests may be added meanwhile. Whoever stops listening
        leaves them as they are: another stream goes on, and `abort` lets go.
        """
        while self.busy:
            self._told = self._told or self._advance()
            while self._told:
                yield self._told.pop(0)

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
                self._told = self._but(self._advance(), requests)
        finally:  # an error or an interrupt leaves nothing behind
            for request in requests:
                if request.finish_reason is None and request.request_id in self._live:
                    self._leave(request, "abort")
            self._told = self._but(self._told, requests)
        return [request.output for request in requests]

    def abort(self, request_id: int) -> None:
        """Let go of a request, waiting or running. Raises ValueError if it is unknown or has finished."""
        if request_id not in self._live:
            raise ValueError(f"request_id must be of a request that waits or runs, not {shown(request_id)}")
        self._between_steps("abort")
        self._told = self._but(self._told, [self._live[request_id]])
        self._leave(self._live[request_id], "abort")

    @staticmethod
    def _but(tokens: list[Token], requests: list[Generation]) -> list[Token]:
        """The tokens of all others."""
        theirs = {request.request_id for request in requests}
        return [token for token in tokens if token.request_id not in theirs]

    def _advance(self) -> list[Token]:
        """A step, and RuntimeError where it and all to come can do nothing."""
        tokens = self.step()
        if not self.scheduler.running and not tokens and self.scheduler.waiting:
            raise RuntimeError(
                f"request {self.scheduler.waiting[0].request_id} waits for blocks while nothing runs, and "
                f"{self.scheduler.pool.num_free} of {self.scheduler.pool.num_blocks} are free: others hold the pool's"
            )
        return tokens

    def _between_steps(self, what: str) -> None:
        if self._stepping:
            raise RuntimeError(f"{what} must be called between steps, not while one runs")

    def _tokens(self, tokens, count: int) -> list[int]:
        """What `run` gave, checked."""
        tokens = listed("what run gives", tokens, "tokens")
        if len(tokens) != count:
            raise ValueError(f"run must give a token for each of {count} in step.ready, not {len(tokens)}")
        most = None if self.vocab_size is None else self.vocab_size - 1
        return [whole_number("a token of run", token, 0, most) for token in tokens]

    def _checked(self, prompt, sampling, identity=None) -> Generation:
        if isinstance(prompt, str | bytes):
            raise TypeError("prompt must be token ids, not a string: encode it first")
        if not isinstance(sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling, not {shown(sampling)}")
        most = None if self.vocab_size is None else self.vocab_size - 1
        tokens = [whole_number("prompt", token, 0, most) for token in listed("prompt", prompt, "token ids")]
        if not tokens:
            raise ValueError("prompt must have at least one token")
        hashable("identity", identity)
        request = Generation(-1, tokens, sampling, identity)
        self.scheduler.check(request)
        return request

    def _queue(self, request: Generation) -> int:
        with held():
            request.request_id = self._next_id
            self.scheduler.add(request)
            self._live[request.request_id] = request
            self._note("arrived", request)
            self._next_id += 1
        return request.request_id

    def _take(self, request: Generation, token: int) -> Token:
        request.tokens.append(token)
        reason, sampling = None, request.sampling
        if token == sampling.stop_token:
            reason = "stop"
        elif len(request.tokens) >= request.num_prompt + sampling.max_new_tokens:
            reason = "length"
        if reason:
            self._leave(request, reason)
        return Token(request.request_id, token, reason)

    def _note(self, what: str, request: Generation) -> None:
        self.events.append(Event(len(self.usage), what, request.request_id, len(request.tokens), request.max_stored))

    def _leave(self, request: Generation, reason: str) -> None:
        with held():
            self.scheduler.finish(request, reason)
            self._note(reason, request)
            del self._live[request.request_id]


def build(
    model, num_blocks: int, block_size: int = BLOCK_SIZE, *, token_budget: int | None = None, max_running: int = 64,
    max_blocks: int | None = None, window: int | None = None, watermark: float = 0.01, reuse: bool = False,
    host_blocks: int = 0, device="cpu", backend: str = "auto", cuda_graphs: bool = True,
) -> Engine:  # fmt: skip
    """An engine over a `model.Llama` with a pool of `num_blocks`.

    - `reuse`: full blocks are found again by content. `host_blocks` hold the K and V of preempted requests.
    - `max_blocks`: the longest table, the whole pool if left out.
    - `window`: how many tokens every layer sees, the current one included; the blocks behind it are given back, so that
      a sequence may be longer than the pool, up to `max_blocks`.
    """
    from pagedkv.engine.runner import Runner
    from pagedkv.engine.swap import HostPool

    runner = Runner(
        model, num_blocks, block_size, max_running=max_running, max_blocks=max_blocks, device=device, backend=backend,
        cuda_graphs=cuda_graphs, window=window,
    )  # fmt: skip
    pool = BlockPool(num_blocks, block_size)
    host = HostPool(runner.cache, host_blocks) if whole_number("host_blocks", host_blocks) else None
    scheduler = Scheduler(
        pool, token_budget=token_budget, max_running=max_running, watermark=watermark, max_blocks=max_blocks,
        window=window,
        prefix=PrefixCache(pool) if reuse else None, host=host,
    )  # fmt: skip
    return Engine(scheduler, runner, model.shape.vocab_size)
