"""The engine on a real model: every request gets the tokens that the model gives it without a cache, whatever else
runs.
"""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from pagedkv.engine import plays  # noqa: E402
from pagedkv.engine.engine import build  # noqa: E402
from pagedkv.engine.model import Llama, ModelShape, dense  # noqa: E402
from pagedkv.engine.request import Sampling  # noqa: E402
from pagedkv.engine.sampler import draw, noise  # noqa: E402

NAMES = ["HAMLET", "KING LEAR", "ROMEO", "FALSTAFF", "LADY MACBETH", "PUCK", "OTHELLO", "PROSPERO"]
COUNT = 40
# Logits of one request, computed in another order, differ by less than this; the largest are about 20.
CLOSE = {torch.float32: 1e-3, torch.float64: 1e-10}


@pytest.fixture(
    scope="module", params=[torch.float32, pytest.param(torch.float64, marks=pytest.mark.thorough)], ids=str
)
def case(request):
    """(model, prompts, how each is sampled, the tokens that are right, whether each is told apart)."""
    model, tokenizer = plays.load(request.param)
    prompts = [tokenizer.encode(f"**{name}**\n{'Good night. ' * (i % 3)}").ids for i, name in enumerate(NAMES)]
    how = [Sampling(COUNT, temperature=0.8 * (i % 2), seed=10**i) for i in range(len(NAMES))]
    return model, prompts, how, [written(model, *both, CLOSE[request.param]) for both in zip(prompts, how, strict=True)]


@torch.no_grad()
def written(model, prompt, how, close):
    """The tokens after a prompt without a cache; each is ahead of the next by more than twice what order may change."""
    tokens = list(prompt)
    for _ in range(how.max_new_tokens):
        ids = torch.tensor(tokens)
        scores = model(ids, torch.arange(len(ids)), dense(), torch.tensor([len(ids) - 1]))[0].double()
        if how.temperature:
            scores = scores / how.temperature + torch.from_numpy(noise(how.seed, len(tokens), len(scores)))
        first, second = scores.topk(2).values.tolist()
        assert first - second > 2 * close / (how.temperature or 1), "too close to call: choose another prompt"
        tokens.append(int(scores.argmax()))
    return tokens[len(prompt) :]


SMALL = dict(num_blocks=24, block_size=4, watermark=0.0)  # slots for less than two of the eight
MODES = {
    "alone": dict(max_running=1),
    "batched": dict(),
    "budget 1": dict(token_budget=1),
    "budget 7": dict(token_budget=7),
    "budget 64": dict(token_budget=64),
    "recompute": SMALL,
    "swap": SMALL | dict(host_blocks=400),
    "mixed": SMALL | dict(host_blocks=20),
    "reuse": SMALL | dict(reuse=True),
    "reuse and swap and a budget": SMALL | dict(reuse=True, host_blocks=30, token_budget=16),
    "blocks of 1": dict(block_size=1, num_blocks=900),
}


SLOW = ("alone", "budget 1", "budget 7", "mixed", "blocks of 1", "recompute", "reuse")


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=pytest.mark.thorough) if mode in SLOW else mode for mode in MODES]
)
def test_tokens_are_those_of_the_model_without_a_cache(case, mode):
    model, prompts, how, right = case
    served = build(model, **dict(num_blocks=300, block_size=16) | MODES[mode], backend="torch")
    assert served.generate(prompts, how) == right
    if "num_blocks" in MODES[mode] and mode != "blocks of 1":
        assert sum(row.preempted for row in served.usage) >= (1 if "budget" in mode else 10)
    assert served.scheduler.pool.num_free == served.scheduler.pool.num_blocks


def test_the_triton_kernels_write_the_same_tokens(case):
    pytest.importorskip("triton")
    model, prompts, how, right = case
    if model.dtype != torch.float32:
        pytest.skip("the Triton backend takes no float64")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    few = [Sampling(3, one.temperature, one.seed) for one in how[:2]]
    served = build(model.to(device), 64, 16, device=device, backend="triton")
    assert served.generate(prompts[:2], few) == [tokens[:3] for tokens in right[:2]]
    model.to("cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, SMALL, MODES["swap"], dict(token_budget=5), dict(token_budget=1)], ids=str)
def test_graphs_replay_the_same_tokens(case, options):
    model, prompts, how, right = case
    if model.dtype != torch.float32:
        pytest.skip("the Triton backend takes no float64")
    served = build(model.to("cuda"), **dict(num_blocks=300, block_size=16) | options, device="cuda")
    assert served.generate(prompts, how) == right and served.run.graphs
    model.to("cpu")


class Replayed:
    """Stands for a captured graph."""

    def replay(self):
        pass


def test_of_a_replay_only_the_rows_that_are_ready_count():
    from pagedkv.engine.graphs import Graph

    graph = Graph.__new__(Graph)
    graph.graph, graph.numbers = Replayed(), torch.full((5, 4), 99)
    graph.logits, graph.best = torch.eye(4), torch.arange(4)
    served = build(plays.load()[0], 20, 4, token_budget=2)
    served.run.graphs = {(2, 1, even): graph for even in (True, False)}
    served.add([7, 8], Sampling(3))
    served.add([1, 2, 3], Sampling(3))
    [(_, token, _)] = served.step()
    assert served.step() == [(0, 0, None)]  # with a chunk of one token of the second prompt
    assert graph.numbers.tolist() == [[token, 1, 0, 0], [2, 0, 0, 0], [2, 4, -1, -1], [0, 1, 0, 0], [3, 1, 0, 0]]


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, *(pytest.param(dtype, marks=pytest.mark.thorough) for dtype in (torch.float16, torch.bfloat16))],
    ids=str,
)
@pytest.mark.parametrize("shape", [ModelShape(50, 2, 48, 40, 6, 2, 16), ModelShape(60, 1, 64, 96, 4, 4, 24)], ids=str)
@torch.no_grad()
def test_fused_it_is_the_same_model(dtype, shape):
    pytest.importorskip("triton")
    import pagedkv.attention.triton  # noqa: F401 on a CPU, chooses the interpreter
    from pagedkv.engine.fused import FusedLlama

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = Llama(shape, dtype, device)
    for norm in (model.attention_norm, model.ffn_norm, model.norm):
        norm.uniform_(0.5, 1.5)
    tokens, positions, last = torch.randint(50, (9,)), torch.arange(9) + 1000, torch.tensor([3, 8])
    call = tokens.to(device), positions.to(device), dense()
    right = model(*call)
    fused = FusedLlama(model)
    close = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 0.15}[dtype]
    assert float((fused(*call) - right).abs().max()) < close
    assert float((fused(*call, last.to(device)) - right[last]).abs().max()) < close
    assert torch.equal(model(*call), right) and model.q[0].data_ptr() == fused.qkv.data_ptr()


@pytest.mark.parametrize("num_tokens", [1, 33])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_product_of_few_tokens_is_the_product(dtype, num_tokens):
    pytest.importorskip("triton")
    import pagedkv.attention.triton  # noqa: F401 on a CPU, chooses the interpreter
    from pagedkv.engine.product import fits, product

    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, 512, generator=draw).to(device, dtype) for n in (num_tokens, 72))
    weight /= 22
    right = x.float() @ weight.float().T
    gate, up = right.chunk(2, 1)
    close = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    assert fits(x) and not fits(x[:, :500]) and not fits(x.float()) and not fits(x.repeat(65, 1))
    assert float((product(x, weight) - right).abs().max()) < close
    assert float((product(x, weight, parts=4).sum(0) - right).abs().max()) < 1e-5
    assert float((product(x, weight, gated=True) - torch.nn.functional.silu(gate) * up).abs().max()) < 2 * close


def test_logits_of_a_batch_are_close_to_those_alone(case):
    model, prompts, how, right = case
    rows = {}
    served = build(model, 300, 16, backend="torch")
    logits = served.run.logits

    def noted(batch):
        result = logits(batch)
        for row, length in zip(result, batch.seq_lens.tolist(), strict=True):
            rows[length] = rows.get(length, []) + [row]
        return result

    served.run.logits = noted
    served.generate(prompts[:4], how[:4])
    ids = torch.tensor(prompts[1] + right[1][:5])
    alone = model(ids, torch.arange(len(ids)), dense())
    for length in range(len(prompts[1]), len(ids) + 1):
        assert min(float((row - alone[length - 1]).abs().max()) for row in rows[length]) < CLOSE[model.dtype]


def test_in_bfloat16_logits_are_only_close():
    model, tokenizer = plays.load(torch.bfloat16)
    ids = torch.tensor(tokenizer.encode("**HAMLET**\nTo be, or not to be: that is the question").ids)
    served = build(model, 64, 16, backend="torch", token_budget=7)
    kept = []
    logits = served.run.logits
    served.run.logits = lambda batch: kept.append(logits(batch)) or kept[-1]
    served.generate([ids.tolist()], Sampling(1))
    right = model(ids, torch.arange(len(ids)), dense())[-1]
    assert 0 < float((kept[-1][-1].float() - right.float()).abs().max()) < 0.5


def test_the_stored_model_is_what_its_record_says():
    record = json.loads(plays.RECORD.read_text(encoding="utf-8"))
    model, tokenizer = plays.load()
    assert sum(weight.numel() for weight in model.parameters()) == record["parameters"]
    assert plays.WEIGHTS.stat().st_size <= 2_500_000 and tokenizer.get_vocab_size() == model.shape.vocab_size == 512
    assert record["held_out_loss_per_token"] <= 2.6 and record["curve"][-1][0] == record["steps"]
    text = "ROMEO — 雪, naïve\n"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_step_of_training_lowers_the_loss():
    torch.manual_seed(0)
    model = Llama(ModelShape(32, 2, 16, 32, 2, 1, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tokens, losses = torch.randint(32, (4 * 8,)), []
    for _ in range(5):
        logits = model(tokens, torch.arange(8).repeat(4), dense(4))
        losses.append(torch.nn.functional.cross_entropy(logits, tokens.roll(1)))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]


def test_a_draw_depends_on_seed_and_position_alone():
    logits = torch.randn(50, generator=torch.Generator().manual_seed(0))
    drawn = [draw(logits, 1.0, seed, position) for seed in (0, 1, -1, 2**80) for position in range(200)]
    assert drawn == [draw(logits, 1.0, seed, position) for seed in (0, 1, -1, 2**80) for position in range(200)]
    assert len({tuple(drawn[i : i + 200]) for i in range(0, 800, 200)}) == 4
    share = torch.bincount(torch.tensor([draw(logits, 1.0, 3, i) for i in range(4000)]), minlength=50) / 4000
    assert float((share - logits.softmax(-1)).abs().max()) < 0.03
