"""Which backend runs, what happens where Triton or a GPU is missing, addresses past 2^31, and torch.compile."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from attention_reference import random_batch  # noqa: E402
from private_names import argument_names  # noqa: E402

from pagedkv.attention import dispatch, torch_backend  # noqa: E402
from pagedkv.attention.options import Options  # noqa: E402
from pagedkv.attention.paged import paged_attention, write_kv  # noqa: E402

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

CALL = """
import torch
from pagedkv.attention.paged import paged_attention
ids, lens = torch.zeros(1, 1, dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
cache = torch.ones(1, 4, 1, 16)
def call(backend):
    return paged_attention(torch.ones(1, 1, 16), cache, cache, ids, lens, backend=backend)
"""


def python(code, **environment):
    """Run `code` in a fresh interpreter without a GPU and return what it printed."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**clean, "CUDA_VISIBLE_DEVICES": "", **environment},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


@pytest.fixture(scope="module")
def interpreter():
    """Triton 3.6's, for one, does not run with NumPy 2.5. Lesson 1 tells a learner; here it leaves nothing to test."""
    variables = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    if subprocess.run(
        [sys.executable, "-m", "pagedkv.course.lesson_1.tiny_kernel", "cpu"], env=variables, capture_output=True
    ).returncode:
        pytest.skip("Triton's interpreter does not work with this NumPy")


def test_auto_is_torch_on_a_cpu_and_imports_no_triton():
    assert dispatch.pick_backend("auto", torch.ones(1), torch.ones(1)) is torch_backend
    assert python(
        CALL
        + "import sys; names = ('triton', 'pagedkv.attention.triton'); "
        + "print(call('auto').mean().item(), *(name in sys.modules for name in names))"
    ) == ("1.0 False False")


@needs_triton
@pytest.mark.thorough
def test_the_interpreter_may_be_chosen_after_pagedkv_was_imported(interpreter):
    assert (
        python(
            "import pagedkv, os\nos.environ['TRITON_INTERPRET'] = '1'\n" + CALL + "print(call('triton').mean().item())"
        )
        == "1.0"
    )
    assert python(CALL + "print(call('triton').mean().item())") == "1.0"


REFUSED = (
    CALL
    + """
try:
    call("triton")
except (ImportError, RuntimeError) as error:
    print(error)
"""
)


AUTO_ON_A_GPU = """
from types import SimpleNamespace
from pagedkv.attention import dispatch, torch_backend
on_gpu = SimpleNamespace(is_cuda=True, is_cpu=False, dtype=torch.float16, device="cuda:0")
print(dispatch.pick_backend("auto", on_gpu, on_gpu) is torch_backend)
"""


INTERPRETER_ONLY = (
    "backend 'triton' runs on CPU tensors only in Triton's interpreter: set TRITON_INTERPRET=1 before the "
    "kernels are imported"
)


@needs_triton
@pytest.mark.parametrize(
    "before",
    ["", "import pagedkv.attention.triton, os; os.environ['TRITON_INTERPRET'] = '1'"],
    ids=["never", "too late"],
)
@pytest.mark.thorough
def test_compiled_kernels_refuse_cpu_tensors_in_one_line(before):
    assert python(before + REFUSED, TRITON_INTERPRET="0") == INTERPRETER_ONLY


@needs_triton
@pytest.mark.parametrize(
    "earlier",
    [
        "import triton",
        "import triton.language, os; os.environ['TRITON_INTERPRET'] = '1'",
        "import torch; torch.use_deterministic_algorithms(True)",
        "import torch._inductor.runtime.triton_helpers",
    ],
)
@pytest.mark.thorough
def test_a_triton_that_was_imported_to_compile_interprets_all_the_same(earlier, interpreter):
    """Its own functions, such as tl.zeros, are decorated when it is imported. Seen with Triton 3.9, PyTorch 2.13."""
    assert python(earlier + "\n" + CALL + "print(call('triton').mean().item())") == "1.0"


VALUES = """
import importlib, os
from pagedkv.attention import triton
for value in ("0", "false", "off", "", "1", "true", "True", "on", "YES", "y"):
    os.environ["TRITON_INTERPRET"] = value
    print(int(importlib.reload(triton).INTERPRETED), end="")
"""


@needs_triton
@pytest.mark.thorough
def test_the_interpreter_is_on_where_triton_says_so(interpreter):
    assert python(VALUES) == "0000111111"
    code = CALL + "print(call('triton').mean().item())\n" + AUTO_ON_A_GPU
    assert python(code, TRITON_INTERPRET="true") == "1.0\nTrue"
    assert python(REFUSED + AUTO_ON_A_GPU, TRITON_INTERPRET="off") == INTERPRETER_ONLY + "\nFalse"


def test_everything_but_the_kernels_works_without_triton():
    without = "import sys; sys.modules['triton'] = None\n"
    assert python(without + CALL + "print(call('auto').mean().item(), call('torch').mean().item())") == "1.0 1.0"
    assert python(without + REFUSED).startswith(
        "backend 'triton' needs Triton, which is not installed here (pip install triton"
    )


def test_float64_is_for_torch_only():
    with pytest.raises(TypeError, match="float64; backend='torch' does"):
        random_batch([3]).run(paged_attention, backend="triton")


def test_addresses_past_two_billion_elements():
    """The untouched part of the cache costs no memory: pages are committed when they are written."""
    assert (
        python("""
import torch
from pagedkv.attention.paged import paged_attention, write_kv
big = torch.empty(2**31 + 64, dtype=torch.float16)
cache = big.as_strided((3, 1, 1, 64), (2**30, 64, 64, 1))
new = torch.full((1, 1, 64), 3.0, dtype=torch.float16)
write_kv(new, new, cache, cache, torch.tensor([2]), backend="torch")
tables, lens = torch.tensor([[2]], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
out = paged_attention(torch.ones_like(new), cache, cache, tables, lens, backend="torch")
print(big[2**31].item(), out.mean().item())
""")
        == "3.0 3.0"
    )


def arguments(batch, return_lse, sinks=None):
    options = [None] * 6 + [sinks, return_lse, "torch", False]
    return batch.q, batch.k_cache, batch.v_cache, batch.block_tables, batch.seq_lens, batch.query_start_loc, *options


@pytest.mark.parametrize("return_lse", [False, True])
def test_paged_attention_is_a_sound_operator(return_lse):
    batch = random_batch([5, 0, 20], num_queries=[1, 0, 3], dtype=torch.float32, poison=0.0)
    torch.library.opcheck(torch.ops.pagedkv.paged_attention, arguments(batch, return_lse))
    sinks = torch.tensor([0.5, -2.0, 3.0, -torch.inf])
    plain, sunk = (torch.ops.pagedkv.paged_attention(*arguments(batch, True, some)) for some in (None, sinks))
    torch.testing.assert_close(sunk[0], plain[0] * torch.sigmoid(plain[1] - sinks)[..., None].nan_to_num())


def test_write_kv_is_a_sound_operator():
    cache = torch.zeros(3, 4, 2, 16)
    new = torch.ones(2, 2, 16)
    torch.library.opcheck(
        torch.ops.pagedkv.write_kv, (new, new, cache, cache.clone(), torch.tensor([3, -1]), None, None, "torch")
    )


def test_a_decode_step_compiles_into_one_graph():
    def step(q, k, v, k_cache, v_cache, block_tables, seq_lens, slots, out):
        write_kv(k * 2, v * 2, k_cache, v_cache, slots)
        result, lse = paged_attention(q + 1, k_cache, v_cache, block_tables, seq_lens, return_lse=True, window=7)
        return result * 3, lse, paged_attention(q, k_cache, v_cache, block_tables, seq_lens, out=out)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for lengths in ([5, 9], [20, 1], [3, 4, 17]):
        results = []
        for function in (step, compiled):
            batch = random_batch(lengths, dtype=torch.float32, poison=0.0)
            slots = [
                table[(n - 1) // 16] * 16 + (n - 1) % 16
                for table, n in zip(batch.block_tables.tolist(), lengths, strict=True)
            ]
            k, v = (torch.stack([x[-1] for x in part]) for part in (batch.keys, batch.values))
            out = torch.zeros_like(batch.q)
            result, lse, same = function(
                batch.q,
                k,
                v,
                batch.k_cache,
                batch.v_cache,
                batch.block_tables,
                batch.seq_lens,
                torch.tensor(slots),
                out,
            )
            assert torch.equal(same, out)
            results.append((result, lse, out, batch.k_cache, batch.v_cache))
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_the_operators_schema_has_the_options_in_their_order():
    names = argument_names(torch.ops.pagedkv.paged_attention.default)
    assert names[6:-3] == list(Options._fields) and names[-3:] == ["return_lse", "backend", "validate"]


def test_options_are_capped_by_the_tables_and_filled_by_the_shape():
    assert Options().resolved(capacity=64, head_dim=16) == (64, 0.25, None, None, None, None, None)
    assert Options(100, 2, 100, 5.0, 0.5, 0.25, "sinks").resolved(64, 16) == (64, 2.0, 64, 5.0, 0.5, 0.25, "sinks")
    assert Options(max_seq_len=3, window=1).resolved(0, 16)[::2] == (0, 1, None, None)
