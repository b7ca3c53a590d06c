"""The smallest paged attention kernel, with a known answer: what `environment.self_test` runs to see that Triton can be
trusted.

One query reads 20 tokens through the table [2, 0]. Token p has weight p + 1 and value p, so the answer is the sum of p
(p + 1) over the sum of p + 1, which is 38/3. Slots without a token are NaN. Run as a command with a device, it fails
where the answer is wrong.
"""

import sys

import torch
import triton
import triton.language as tl

ANSWER = 38 / 3
TOKENS, BLOCK, DIM = 20, 16, 16
SCALE = DIM**-0.5


@triton.jit
def tiny_attention(q, k, v, table, out, tokens, scale, BLOCK: tl.constexpr, DIM: tl.constexpr):
    rows, slots, dims = tl.arange(0, 16), tl.arange(0, BLOCK), tl.arange(0, DIM)
    query = tl.load(q + dims[None, :] + 0 * rows[:, None]).to(tl.float32)  # [16, DIM]: the query 16 times
    m = tl.full([16], float("-inf"), tl.float32)
    l = tl.zeros([16], tl.float32)  # noqa: E741
    o = tl.zeros([16, DIM], tl.float32)
    for j in range(tl.cdiv(tokens, BLOCK)):
        block = tl.load(table + j).to(tl.int64)
        visible = j * BLOCK + slots < tokens
        tile = block * BLOCK * DIM + slots[:, None] * DIM + dims[None, :]  # [BLOCK, DIM]
        keys = tl.load(k + tile, mask=visible[:, None], other=0.0).to(tl.float32)
        values = tl.load(v + tile, mask=visible[:, None], other=0.0).to(tl.float32)
        scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale  # [16, BLOCK]
        scores = tl.where(visible[None, :], scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, 1))
        weights = tl.exp(scores - m_new[:, None])
        l = l * tl.exp(m - m_new) + tl.sum(weights, 1)  # noqa: E741
        o = o * tl.exp(m - m_new)[:, None] + tl.dot(weights, values, input_precision="ieee")
        m = m_new
    tl.store(out + rows[:, None] * DIM + dims[None, :], o / l[:, None])


def run(device: str) -> torch.Tensor:
    """The kernel's output [16, DIM], in which every element should be ANSWER."""
    k = torch.full((3, BLOCK, DIM), float("nan"), dtype=torch.float16)
    v = k.clone()
    table = torch.tensor([2, 0], dtype=torch.int32)
    for p in range(TOKENS):
        address = int(table[p // BLOCK]), p % BLOCK
        k[address] = torch.tensor(p + 1.0).log() / (DIM * SCALE)  # the score of a query of ones is then log(p + 1)
        v[address] = p
    q, out = torch.ones(DIM, dtype=torch.float16), torch.zeros(16, DIM)
    q, k, v, table, out = (tensor.to(device) for tensor in (q, k, v, table, out))
    tiny_attention[(1,)](q, k, v, table, out, TOKENS, SCALE, BLOCK, DIM)
    return out.cpu()


if __name__ == "__main__":
    sys.exit(not torch.allclose(run(sys.argv[1]), torch.tensor(ANSWER), rtol=1e-3))
