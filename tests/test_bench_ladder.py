"""The rungs of lesson 4.3, and the ceilings' kernels, in the interpreter (on a GPU where there is one): plain, but right."""

from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    pytest.skip("needs Triton", allow_module_level=True)

from pagedkv.attention.triton import ladder  # noqa: E402
from pagedkv.bench import ceilings  # noqa: E402
from pagedkv.bench.cases import Case  # noqa: E402
from pagedkv.bench.data import error, make, reference  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNGS = (ladder.rung0, ladder.rung1, ladder.rung2)
CASES = [
    Case("grouped, ragged", (5, 70, 64), q_heads=6, kv_heads=2, head_dim=16, block_size=4, cache="fp32"),
    Case("one head each", (17, 65), q_heads=3, kv_heads=3, head_dim=32, cache="fp16"),
    Case("all share one head", (20,), q_heads=17, kv_heads=1, head_dim=64, block_size=1, cache="bf16"),
    Case("blocks larger than a tile", (300, 3), q_heads=8, kv_heads=2, head_dim=16, block_size=128, cache="fp32"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_equals_float64_with_poison_everywhere_else(rung, case):
    data = make(case, DEVICE, copies=1)
    expected = reference(data, 0)
    for pool in (data.k_cache[0], data.v_cache[0]):
        used = torch.zeros(pool.shape[:2], dtype=torch.bool, device=DEVICE)
        for table, length in zip(data.block_tables.long(), case.lengths, strict=True):
            position = torch.arange(length, device=DEVICE)
            used[table[position // case.block_size], position % case.block_size] = True
        pool[~used] = torch.nan
    out = rung(data.q[0], data.k_cache[0], data.v_cache[0], data.block_tables, data.seq_lens)
    assert error(out, expected) < {"fp32": 1e-6, "fp16": 1e-3, "bf16": 5e-3}[case.cache]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_sequence_without_tokens_gives_zeros(rung):
    q, cache = torch.ones(2, 4, 16, device=DEVICE), torch.ones(2, 4, 2, 16, device=DEVICE)
    tables = torch.tensor([[-1], [1]], dtype=torch.int32, device=DEVICE)
    out = rung(q, cache, cache, tables, torch.tensor([0, 3], dtype=torch.int32, device=DEVICE))
    assert out[0].eq(0).all() and torch.allclose(out[1], torch.ones_like(out[1]))


@pytest.mark.parametrize("words", [1, 1000, 4096])
def test_the_ceilings_kernels_read_and_copy_every_word_once(words):
    source = torch.randint(-1000, 1000, (words,), dtype=torch.int32, device=DEVICE)
    programs = -(-words // (256 * 2))
    sums = torch.zeros(programs, dtype=torch.int32, device=DEVICE)
    ceilings._read[(programs,)](source, sums, words, TILE=256, TILES=2)
    assert sums.sum() == source.sum()
    target = torch.full((words + 1,), 7777, dtype=torch.int32, device=DEVICE)
    ceilings._copy[(-(-words // 256),)](source, target, words, TILE=256)
    assert torch.equal(target[:-1], source) and target[-1] == 7777
