"""The engine on a GPU: graphs replayed with other lengths, products and plans in them, and ranks that talk by NCCL."""

import pytest

torch = pytest.importorskip("torch")

from pagedkv.engine.batch import Batch, paged  # noqa: E402
from pagedkv.engine.engine import build  # noqa: E402
from pagedkv.engine.graphs import Graph  # noqa: E402
from pagedkv.engine.model import Llama, ModelShape  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402
from pagedkv.engine.runner import Runner  # noqa: E402

pytestmark = pytest.mark.gpu
RAGGED, EVEN = [1000, 3, 0, 700], [900] * 4
CLOSE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def a_model(dtype):
    torch.manual_seed(0)
    return Llama(ModelShape(300, 2, 512, 1024, 8, 2, 64), dtype, "cuda").requires_grad_(False)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("captured", [RAGGED, EVEN], ids=["table", "grid"])
@pytest.mark.parametrize("window", [None, 600])
@torch.no_grad()
def test_a_graph_is_replayed_with_other_lengths(dtype, captured, window):
    model = a_model(dtype)
    runner = Runner(model, 256, 16, max_running=4, max_blocks=64, device="cuda", window=window)
    for side in (runner.cache.k, runner.cache.v):
        side.normal_()
    tables = torch.randperm(256, device="cuda", dtype=torch.int32).view(4, 64)
    graph = Graph(runner, captured, 64, tables)
    for lengths in (EVEN, RAGGED, [1, 1024, 513, 0], [1024] * 4, [700, 701, 702]):
        count = len(lengths)
        numbers = [[7, 8, 9, 10][:count], [max(n - 1, 0) for n in lengths], [-1] * count, [*range(count)], lengths]
        tokens, positions, slots, rows, lens = torch.tensor(numbers, device="cuda")
        batch = Batch(tokens, positions, slots, None, lens.int(), None, tables[rows], 1024)
        right = model(tokens, positions, paged(runner.cache, batch, "torch", window)).double()
        logits, best = graph.replay(numbers)
        assert float((logits - right).norm() / right.norm()) < CLOSE[dtype]
        assert torch.equal(best, logits.argmax(-1))


@pytest.mark.parametrize("swap", [0, 400])
def test_tokens_are_those_of_a_cpu_after_recompute_and_swap(swap):
    torch.manual_seed(0)
    model = Llama(ModelShape(61, 3, 32, 64, 4, 2, 16)).requires_grad_(False)
    prompts = [torch.randint(61, (9 + 3 * i,)).tolist() for i in range(8)]
    right = build(model, 200, 4).generate(prompts, Sampling(24))
    served = build(model.cuda(), 24, 4, watermark=0.0, host_blocks=swap, device="cuda")
    assert served.generate(prompts, Sampling(24)) == right and served.run.graphs
    assert sum(row.preempted for row in served.usage) >= 5
    assert swap == 0 or sum(row.restored for row in served.usage)


def test_two_ranks_on_two_gpus_write_what_one_process_writes():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    from pagedkv.course.lesson_6_4.ranks import meeting, on_ranks
    from pagedkv.engine import plays

    model, tokenizer = plays.load()
    prompts = [tokenizer.encode(f"**{name}**\nGood night, good night").ids for name in ("HAMLET", "ROMEO", "PUCK")]
    right = build(model, 20, 4, watermark=0.0).generate(prompts, [Sampling(24, 0.8, seed) for seed in range(3)])
    assert meeting(1, 2) == ("nccl", "cuda:1")
    one, other = on_ranks(2, prompts)
    assert one["tokens"] == other["tokens"] == right and one["tables"] == other["tables"]


@pytest.mark.usefixtures("nothing_kept")
def test_the_kernel_of_a_learner_writes_the_same_tokens():
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    from pagedkv.course.lesson_6_5 import exercises, own_engine
    from pagedkv.engine import plays

    model, prompts = plays.load()[0], [list(range(40, 49)), [40, 41]]
    hole = own_engine.in_one_launch(own_engine.collect()[0]["kernel"], exercises.as_decodes)
    right = build(model, 20, 4).generate(prompts, Sampling(8))
    assert own_engine.engine(model, 20, attend=hole).generate(prompts, Sampling(8)) == right
