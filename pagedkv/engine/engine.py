"""The loop of an engine: schedule, run, take the tokens, let go of who is done.

It knows neither model nor tensor: `run` is a `runner.Runner`, or any function from a Step to one token for each of
`step.ready`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from pagedkv.arguments import listed, whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.engine.request import GREEDY, Event, Generation, Sampling, Step, Token, Usage, usage_of
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache
from pagedkv.sizing import BLOCK_SIZE


class Engine:
    """Serves token ids with continuous batching (Yu et al., OSDI 2022). `usage` has a row for every step, `events` say
    who came and went.

    Raises ValueError or TypeError that names what is wrong with a prompt or its sampling; then nothing was added.
    """

    def __init__(self, scheduler: Scheduler, run: Callable[[Step], Sequence[int]], vocab_size: int | None = None):
        self.scheduler, self.run, self.vocab_size = scheduler, run, vocab_size
        self.usage: list[Usage] = []
        self.events: list[Event] = []
        self._live: dict[int, Generation] = {}
        self._next_id = 0

    @property
    def busy(self) -> bool:
        return bool(self._live)

    def add(self, prompt: Iterable[int], sampling: Sampling = GREEDY, identity: Hashable = None) -> int:
        """Queue a prompt of token ids; returns the request's id. Requests with different identities share no blocks."""
        return self._queue(self._checked(prompt, sampling, identity))

    def step(self) -> list[Token]:
        """Run every request that has room by one token, or by what is left of its prompt. If `run` raises, the step
        counts as not run, and may be tried again.
        """
        step = self.scheduler.schedule()
        try:
            tokens = self.run(step) if step.work else []
            if len(tokens) != len(step.ready):
                raise ValueError(
                    f"run must give a token for each of {len(step.ready)} in step.ready, not {len(tokens)}"
                )
        except BaseException:
            self.scheduler.undo(step)
            raise
        finally:
            for request in step.preempted:  # they have lost their blocks, whether the step was run or not
                self._note("preempted", request)
        for request in step.admitted:
            self._note("admitted", request)
        self.usage.append(usage_of(self.scheduler, step))
        return [self._take(request, token) for request, token in zip(step.ready, tokens, strict=True)]

    def stream(self) -> Iterator[Token]:
        """Tokens as they come, until nobody is left. More requests may be added meanwhile."""
        while self._live:
            yield from self.step()

    def generate(self, prompts: Iterable[Iterable[int]], sampling: Sampling | Sequence[Sampling] = GREEDY):
        """The new tokens of each prompt. All prompts are checked before the first is added."""
        prompts = listed("prompts", prompts, "lists of token ids")
        each = [sampling] * len(prompts) if isinstance(sampling, Sampling) else listed("sampling", sampling, "Sampling")
        if len(each) != len(prompts):
            raise ValueError(f"sampling must be one, or one for each of {len(prompts)} prompts, not {len(each)}")
        requests = [self._checked(*both) for both in zip(prompts, each, strict=True)]
        for request in requests:
            self._queue(request)
        try:
            while any(request.finish_reason is None for request in requests):
                self.step()
        finally:  # an error or an interrupt leaves nothing behind
            for request in requests:
                if request.finish_reason is None:
                    self._leave(request, "abort")
        return [request.output for request in requests]

    def abort(self, request_id: int) -> None:
        """Let go of a request, waiting or running. Raises ValueError if it is unknown or has finished."""
        if request_id not in self._live:
            raise ValueError(f"request_id must be of a request that waits or runs, not {request_id!r}")
        self._leave(self._live[request_id], "abort")

    def _checked(self, prompt, sampling, identity=None) -> Generation:
        if isinstance(prompt, str):
            raise TypeError("prompt must be token ids, not a string: encode it first")
        if not isinstance(sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling, not {sampling!r}")
        most = None if self.vocab_size is None else self.vocab_size - 1
        tokens = [whole_number("prompt", token, 0, most) for token in listed("prompt", prompt, "token ids")]
        if not tokens:
            raise ValueError("prompt must have at least one token")
        hash(identity)
        request = Generation(-1, tokens, sampling, identity)
        self.scheduler.check(request)
        return request

    def _queue(self, request: Generation) -> int:
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
        elif len(request.tokens) == request.num_prompt + sampling.max_new_tokens:
            reason = "length"
        if reason:
            self._leave(request, reason)
        return Token(request.request_id, token, reason)

    def _note(self, what: str, request: Generation) -> None:
        self.events.append(Event(len(self.usage), what, request.request_id, len(request.tokens), request.max_stored))

    def _leave(self, request: Generation, reason: str) -> None:
        self.scheduler.finish(request, reason)
        self._note(reason, request)
        del self._live[request.request_id]


def build(
    model, num_blocks: int, block_size: int = BLOCK_SIZE, *, token_budget: int | None = None, max_running: int = 64,
    max_blocks: int | None = None, window: int | None = None, watermark: float = 0.01, reuse: bool = False,
    host_blocks: int = 0, device="cpu", backend: str = "auto", cuda_graphs: bool = True,
) -> Engine:  # fmt: skip
    """An engine over a `model.Llama` with a pool of `num_blocks`; with `reuse`, full blocks are found again by content;
    `host_blocks` hold the K and V of preempted requests. max_blocks: the longest table, the whole pool if left out.
    window: how many tokens every layer sees, the current one included; the blocks behind it are given back, so that a
    sequence may be longer than the pool, up to max_blocks.
    """
    from pagedkv.engine.runner import Runner
    from pagedkv.engine.swap import HostPool

    runner = Runner(
        model, num_blocks, block_size, max_running=max_running, max_blocks=max_blocks, device=device, backend=backend,
        cuda_graphs=cuda_graphs, window=window,
    )  # fmt: skip
    pool = BlockPool(num_blocks, block_size)
    scheduler = Scheduler(
        pool, token_budget=token_budget, max_running=max_running, watermark=watermark, max_blocks=max_blocks,
        window=window,
        prefix=PrefixCache(pool) if reuse else None, host=HostPool(runner.cache, host_blocks) if host_blocks else None,
    )  # fmt: skip
    return Engine(scheduler, runner, model.shape.vocab_size)
