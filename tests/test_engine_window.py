"""A model whose layers see a window: what it has left behind is given back, and every token stays right."""

import pytest

from pagedkv.block_pool import BlockPool
from pagedkv.engine.engine import Engine
from pagedkv.engine.request import Sampling
from pagedkv.engine.scheduler import Scheduler
from pagedkv.prefix_cache import PrefixCache


def engine(num_blocks=6, block_size=4, window=8, reuse=False, **options):
    pool = BlockPool(num_blocks, block_size)
    prefix = PrefixCache(pool) if reuse else None
    scheduler = Scheduler(pool, prefix=prefix, window=window, **dict(max_blocks=1000) | options)
    return Engine(scheduler, lambda step: [7] * len(step.ready))


def test_a_cache_stops_growing():
    served = engine()
    served.generate([[1] * 10], Sampling(500))
    used = [row.blocks_used for row in served.usage]
    assert set(used) == {2, 3}  # 8 tokens in a row touch two or three blocks of 4
    assert served.usage[-1].tokens_stored == 509 and served.scheduler.pool.num_free == 6


def test_a_prompt_longer_than_the_pool_is_run_in_chunks_that_fit():
    served = engine()
    served.generate([[1] * 100], Sampling(1))
    assert [row.prefill_tokens for row in served.usage] == [14] * 7 + [2]  # 7 behind, 14 new: 21 touch all 6 blocks
    assert max(row.blocks_used for row in served.usage) <= 6


@pytest.mark.parametrize("window", [1, 2, 3, 7, 8, 9])
def test_whatever_the_window_a_request_alone_runs_to_its_end(window):
    for num_blocks in (1, 2, 3, 5):
        served = engine(num_blocks, window=window, reuse=True)
        if served.scheduler.window is None:  # as long as the pool
            assert window > 4 * (num_blocks - 1) + 1
            with pytest.raises(ValueError, match="need .* blocks, and a request can have"):
                served.add([1] * 10, Sampling(100))
        else:
            assert len(served.generate([list(range(9)), [1] * 30], Sampling(50))[1]) == 50
            assert served.scheduler.pool.num_free == num_blocks


def test_more_requests_run_at_a_time():
    most = []
    for window in (None, 8):
        served = engine(num_blocks=30, window=window, max_blocks=30)
        served.generate([[1] * 12 for _ in range(10)], Sampling(60))
        most.append(served.usage[40].running)
    assert most[0] < 4 and most[1] == 10


def test_a_table_is_no_longer_than_the_runners():
    with pytest.raises(ValueError, match="need 26 blocks, and a request can have 25"):
        engine(max_blocks=25).add([1] * 100, Sampling(2))
    with pytest.raises(ValueError, match="need 26 blocks, and a request can have 6"):
        engine(max_blocks=None).add([1] * 100, Sampling(2))
    with pytest.raises(ValueError, match="window must be a whole number of at least 1, not 0"):
        engine(window=0)


def test_a_prefix_is_found_from_its_beginning_while_it_lasts():
    served = engine(num_blocks=12, reuse=True)
    prompt = [*range(21)]
    served.generate([prompt], Sampling(4))
    served.generate([prompt], Sampling(4))
    assert [row.reused for row in served.usage] == [0] * 4 + [20] + [
        0
    ] * 3  # the blocks that were dropped first are still there
    served.generate([[9] * 21], Sampling(60))  # takes them, the oldest first
    served.generate([prompt], Sampling(4))
    assert served.usage[-4].reused == 0 and served.scheduler.pool.num_free == 12


@pytest.mark.parametrize("host_blocks", [0, 100])
def test_a_real_model_writes_what_it_writes_without_a_cache(host_blocks):
    torch = pytest.importorskip("torch")
    from torch.nn.functional import scaled_dot_product_attention

    from pagedkv.engine.engine import build
    from pagedkv.engine.model import Llama, ModelShape

    window = 9

    def windowed(layer, q, k, v):
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        sees = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril().triu(1 - window)
        return scaled_dot_product_attention(q, k, v, attn_mask=sees, enable_gqa=True)[0].transpose(0, 1)

    torch.manual_seed(0)
    model = Llama(ModelShape(61, 2, 32, 64, 4, 2, 16), torch.float64).requires_grad_(False)
    prompts = [[(7 * i + 3 * j) % 61 for j in range(3 + 4 * (i % 2))] for i in range(5)]
    right = []
    for prompt in prompts:
        tokens = list(prompt)
        for _ in range(30):
            ids = torch.tensor(tokens)
            tokens.append(int(model(ids, torch.arange(len(ids)), windowed)[-1].argmax()))
        right.append(tokens[len(prompt) :])
    options = dict(block_size=4, max_blocks=30, window=window, watermark=0.0, host_blocks=host_blocks)
    for num_blocks, reuse in ((200, False), (6, False), (6, True)):
        served = build(model, num_blocks, reuse=reuse, backend="torch", **options)
        assert served.generate(prompts, Sampling(30)) == right
        assert served.scheduler.pool.num_free == num_blocks
    assert sum(row.preempted for row in served.usage) > 0
