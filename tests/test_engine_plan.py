"""A decode step is planned once, at the first layer, and the plan changes no token."""

from functools import partial
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from pagedkv.attention.paged import paged_attention, plan_attention  # noqa: E402
from pagedkv.attention.plan import about_equal  # noqa: E402
from pagedkv.engine import batch as batches  # noqa: E402
from pagedkv.engine.batch import Batch, paged  # noqa: E402
from pagedkv.engine.engine import build  # noqa: E402
from pagedkv.engine.model import Llama, ModelShape  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402
from pagedkv.kv_cache import PagedKVCache  # noqa: E402
from pagedkv.sizing import KVShape  # noqa: E402

PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [6, 7, 8], [4] * 5]


@pytest.fixture
def seen(monkeypatch):
    """("plan", it) and ("layer", its plan), in order."""
    seen = []

    def plans(*arguments, **options):
        seen.append(("plan", plan_attention(*arguments, **options)))
        return seen[-1][1]

    def attends(*arguments, plan, **options):
        seen.append(("layer", plan))
        return paged_attention(*arguments, plan=plan, **options)

    monkeypatch.setattr(batches, "plan_attention", plans)
    monkeypatch.setattr(batches, "paged_attention", attends)
    return seen


def model(dtype=torch.float32):
    torch.manual_seed(0)
    return Llama(ModelShape(61, 3, 32, 64, 4, 2, 16), dtype).requires_grad_(False)


@pytest.mark.parametrize("window", [None, 4])
def test_a_decode_step_makes_one_plan_for_all_layers_and_a_prefill_none(seen, window):
    served = build(model(), 50, 4, token_budget=6, window=window)
    served.generate(PROMPTS, Sampling(5))
    decodes = [row.prefill_tokens == 0 for row in served.usage]
    assert {True, False} == set(decodes)
    for decode in decodes:
        if decode:
            (what, plan), seen[:] = seen[0], seen[1:]
            assert what == "plan" and plan.window == window
        layers, seen[:] = seen[:3], seen[3:]
        assert layers == [("layer", plan if decode else None)] * 3
    assert not seen


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_lengths_are_about_equal_down_to_a_mean_of_nine_tenths():
    assert about_equal([10, 8]) and about_equal([7]) and about_equal([0, 0])
    assert not about_equal([10, 7]) and not about_equal([5, 5, 0])


def test_ragged_sequences_are_shared_out_by_a_table_with_the_same_result(seen, monkeypatch):
    import pagedkv.attention.triton  # noqa: F401 on a CPU, chooses the interpreter

    device, lengths = "cuda" if torch.cuda.is_available() else "cpu", [600, 0, 5]
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    cache = PagedKVCache(KVShape(2, 1, 16, 4), 45, 16, device, torch.float32)
    for part in (cache.k, cache.v):
        part.copy_(draw(part.shape))
    tables = torch.full((3, 38), -1, dtype=torch.int32)
    tables[0], tables[2, 0] = torch.randperm(38), 40
    longs = [torch.tensor(numbers, device=device) for numbers in ([1, 0, 2], [599, 0, 4], [-1, -1, -1])]
    lens = torch.tensor(lengths, dtype=torch.int32, device=device)
    step = Batch(*longs, None, lens, None, tables.to(device), max(lengths))
    q, k, v = draw(3, 2, 16).to(device), draw(3, 1, 16).to(device), draw(3, 1, 16).to(device)
    attend = paged(cache, step, "triton")
    planned = [attend(layer, q, k, v) for layer in range(2)]
    assert [what for what, _ in seen] == ["plan", "layer", "layer"] and seen[0][1].items is not None
    monkeypatch.setattr(batches, "plan_attention", lambda *arguments, **options: None)
    attend = paged(cache, step, "triton")
    for layer in range(2):
        torch.testing.assert_close(attend(layer, q, k, v), planned[layer])
    assert seen[-1] == ("layer", None)


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_tokens_are_the_same_with_plans_and_without(monkeypatch):
    import pagedkv.attention.triton  # noqa: F401 on a CPU, chooses the interpreter

    device = "cuda" if torch.cuda.is_available() else "cpu"
    outputs = []
    for _ in range(2):
        served = build(model().to(device), 50, 4, device=device, backend="triton", token_budget=6, cuda_graphs=False)
        outputs.append(served.generate(PROMPTS, Sampling(5)))
        monkeypatch.setattr(batches, "plan_attention", lambda *arguments, **options: None)
    assert outputs[0] == outputs[1] == build(model(), 50, 4, backend="torch").generate(PROMPTS, Sampling(5))
