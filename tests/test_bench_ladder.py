"""The rungs of lesson 4.4, and the ceilings' kernels, in the interpreter (on a GPU where there is one): plain, but
right.
"""

from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    pytest.skip("needs Triton", allow_module_level=True)

from pagedkv.attention.triton import decode, ladder  # noqa: E402
from pagedkv.bench import ceilings  # noqa: E402
from pagedkv.bench import ladder as settings  # noqa: E402
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


def test_a_changed_setting_reaches_the_kernel_and_leaves_its_result(monkeypatch):
    data = make(Case("x", (700, 40), q_heads=4, kv_heads=2, head_dim=16, cache="fp32"), DEVICE, copies=1)
    expected, seen, ready = reference(data, 0), [], decode.launch_decode.ready
    monkeypatch.setattr(
        decode.launch_decode,
        "ready",
        lambda *inputs, **options: seen.append((inputs, options)) or ready(*inputs, **options),
    )
    for name, prepare in settings.ladder().items():
        assert error(prepare(data)(0), expected) < 1e-6, name
    grids, tiles, stages = (
        [inputs[1] for inputs, _ in seen],
        [inputs[4][5] for inputs, _ in seen],
        [o["num_stages"] for _, o in seen],
    )
    assert len(seen) == len(settings.SETTINGS)
    assert grids[0][1] == 1 < grids[1][1] and tiles[1] == 16 < tiles[0] and stages[2:] == [2, 3]
