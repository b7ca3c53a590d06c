"""The next token from its logits. Nothing is remembered from draw to draw: seed and position decide, so that a request
that was preempted, batched otherwise or begun again gets the same tokens.
"""

from collections.abc import Sequence

import numpy as np
import torch

from pagedkv.engine.request import Generation


def sample(logits: torch.Tensor, requests: Sequence[Generation], best: torch.Tensor | None = None) -> list[int]:
    """One token for each request, from logits [num_requests, vocab_size]. best: where the largest of each row is.

    Raises ValueError where that is NaN or infinite, which is looked at on a CPU only.
    """
    best = logits.argmax(-1) if best is None else best
    if logits.is_cpu and not (told := logits.gather(1, best[:, None]).isfinite()).all():
        request = requests[int(told.int().argmin())]
        raise ValueError(f"the model's logits for request {request.request_id} are not finite")
    tokens = best.tolist()
    drawn = [row for row, request in enumerate(requests) if request.sampling.temperature]
    scores = logits[drawn].double().cpu() if drawn else ()  # one way to the host for all
    for row, of_row in zip(drawn, scores, strict=True):
        how = requests[row].sampling
        tokens[row] = draw(of_row, how.temperature, how.seed, len(requests[row].tokens))
    return tokens


def draw(logits: torch.Tensor, temperature: float, seed: int, position: int) -> int:
    """A token with probability softmax(logits / temperature): the largest after Gumbel noise is added (Gumbel, 1954).

    logits [vocab_size]; `seed` is any whole number, `position` that of the new token in its sequence.
    """
    scores, drawn = logits.double().cpu().numpy(), noise(seed, position, len(logits))
    # The same either way, but for overflow.
    return int(np.argmax(scores / temperature + drawn if temperature > 1 else scores + temperature * drawn))


def noise(seed: int, position: int, size: int) -> np.ndarray:
    """Gumbel noise, float64 [size], that depends on nothing but these."""
    return np.random.default_rng([abs(seed), int(seed < 0), position]).gumbel(size=size)
