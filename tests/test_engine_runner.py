"""What a runner refuses to serve, and logits and temperatures at their ends."""

import math

import pytest

torch = pytest.importorskip("torch")

from test_attention_ambient import STATES  # noqa: E402

from pagedkv.block_pool import BlockPool  # noqa: E402
from pagedkv.engine.engine import Engine, build  # noqa: E402
from pagedkv.engine.model import Llama, ModelShape  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402
from pagedkv.engine.runner import Runner  # noqa: E402
from pagedkv.engine.scheduler import Scheduler  # noqa: E402
from pagedkv.engine.swap import HostPool  # noqa: E402
from pagedkv.prefix_cache import PrefixCache  # noqa: E402

PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [6, 7, 8]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Llama(ModelShape(61, 2, 32, 64, 4, 2, 16), torch.float64).requires_grad_(False)


@pytest.mark.parametrize(
    ("pool", "options", "words"),
    [
        ((20, 4), {}, "the scheduler's pool has 20 blocks of 4 tokens, and the runner's cache 10 of 4"),
        ((10, 2), {}, "the scheduler's pool has 10 blocks of 2 tokens, and the runner's cache 10 of 4"),
        ((10, 4), dict(window=8), "the scheduler's window is 8, and the runner's None"),
    ],
)
def test_a_runner_refuses_a_scheduler_that_is_not_of_its_cache(model, pool, options, words):
    with pytest.raises(ValueError, match=words):
        Engine(Scheduler(BlockPool(*pool), **options), Runner(model, 10, 4))


def test_no_more_run_than_the_runner_has_rows_and_no_longer_tables(model):
    engine = Engine(Scheduler(BlockPool(20, 4)), Runner(model, 20, 4, max_running=2, max_blocks=3))
    right = build(model, 50, 4).generate(PROMPTS * 3, Sampling(4))
    assert engine.generate(PROMPTS * 3, Sampling(4)) == right
    assert max(row.running for row in engine.usage) == 2
    with pytest.raises(ValueError, match="need 4 blocks, and a request can have 3"):
        engine.add([1] * 13, Sampling(4))


def test_what_is_named_in_one_cache_is_not_found_in_another(model):
    pool = BlockPool(50, 4)
    prefix, runner = PrefixCache(pool), Runner(model, 50, 4)
    a, b = (Engine(Scheduler(pool, prefix=prefix), runner) for _ in range(2))
    with pytest.raises(ValueError, match="prefix cache names blocks of another runner's cache"):
        Engine(Scheduler(pool, prefix=prefix), Runner(model, 50, 4))
    right = build(model, 50, 4).generate(PROMPTS, Sampling(6))
    assert a.generate(PROMPTS, Sampling(6)) == b.generate(PROMPTS, Sampling(6)) == right  # two engines on one runner
    assert b.usage[0].reused == 8 and pool.num_free == 50


@pytest.mark.parametrize("state", ["autocast to bfloat16", "default device", "default dtype", "inference mode"])
def test_the_settings_of_the_process_reach_no_token(state):
    def tokens():
        torch.manual_seed(0)
        model = Llama(ModelShape(61, 2, 32, 64, 4, 2, 16), torch.float32).requires_grad_(False)
        how = dict(token_budget=7, host_blocks=5, reuse=True, watermark=0.0)
        engine = build(model, 7, 4, **how)
        return engine.generate(PROMPTS * 2, Sampling(12, 0.8)), sum(row.parked for row in engine.usage)

    right = tokens()
    assert right[1] > 0
    with STATES[state]():
        assert tokens() == right


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (dict(block_size="4"), TypeError, "block_size must be a whole number of at least 1, not '4'"),
        (dict(device="nonsense"), ValueError, "device must name one of this machine's, not 'nonsense'"),
        (dict(block_size=3), ValueError, "block_size must be a power of two from 1 to 256, not 3"),
        (dict(block_size=512), ValueError, "block_size must be a power of two from 1 to 256, not 512"),
        (dict(host_blocks=-1), ValueError, "host_blocks must be a whole number of at least 0, not -1"),
        (dict(host_blocks=True), TypeError, "host_blocks must be a whole number of at least 0, not True"),
        (dict(window=0), ValueError, "window must be a whole number of at least 1, not 0"),
        (dict(max_running=0), ValueError, "max_running must be a whole number of at least 1, not 0"),
    ],
)
def test_what_no_engine_is_built_with(model, options, error, words):
    with pytest.raises(error, match=words):
        build(model, 10, **options)


def test_what_is_no_model_and_no_cache():
    with pytest.raises(TypeError, match="model must be a model.Llama, not 3, which has no shape"):
        build(3, 10)
    with pytest.raises(TypeError, match="cache must be a PagedKVCache, not 3, which has no copy_blocks"):
        HostPool(3, 10)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_told_and_nothing_is_lost(model, bad):
    broken = Llama(model.shape, torch.float64).requires_grad_(False)
    broken.load_state_dict(model.state_dict())
    broken.norm.data[3] = bad
    engine = build(broken, 10, 4, reuse=True)
    request = engine.add([1, 2, 3, 4, 5], Sampling(3))
    for _ in range(2):
        with pytest.raises(ValueError, match="the model's logits for request 0 are not finite"):
            engine.step()
    broken.norm.data[3] = model.norm[3]
    assert len(list(engine.stream())) == 3
    assert request == 0 and engine.scheduler.pool.num_free == 10


@pytest.mark.parametrize("temperature", [5e-324, 1e-30, 1e-9])
def test_the_colder_the_likelier(model, temperature):
    greedy = build(model, 50, 4).generate(PROMPTS, Sampling(8))
    assert build(model, 50, 4).generate(PROMPTS, Sampling(8, temperature=temperature)) == greedy


def test_very_hot_all_are_as_likely():
    from pagedkv.engine.sampler import draw

    logits = torch.linspace(-50, 50, 10)
    for temperature in (1e12, 1e300, 1.7e308):
        drawn = {draw(logits, temperature, seed, 0) for seed in range(100)}
        assert drawn == set(range(10))
