"""Random prefills, chunks and mixed batches: `python -m pagedkv.bench --prefill --sweep SEED`.

A shape: batch 1 to 64, lengths 128 to 32,768, both log-uniform; lengths equal or ragged; heads and head_dim of models
in use. The queries are whole prompts; or chunks, the last 16 or more tokens of their sequences; or chunks in some
sequences and one query, a decode, in the others. Both products together take 1 GFLOP to 5 TFLOP, K and V at most 4 GB.
"""

from random import Random

from pagedkv.bench import report
from pagedkv.bench.cases import Case, shrunk
from pagedkv.bench.sweep import HEADS, line, log_uniform, spread

FEWEST, MOST, LARGEST = 1e9, 5e12, 4 << 30  # operations; bytes of K and V
KINDS = ("prompts", "prompts", "chunks", "chunks", "mixed")
FA2 = "FlashInfer, FA2"


def random_prefills(seed: int | str, count: int = 50) -> list[Case]:
    """`count` cases, the same for a seed every time; a name ends in its kind."""
    draw = Random(f"prefill {seed}")
    cases = []
    while len(cases) < count:
        batch, longest = (log_uniform(draw, *bounds) for bounds in ((1, 64), (128, 32_768)))
        equal = draw.random() < 0.5
        lengths = tuple(longest if equal else draw.randint(128, longest) for _ in range(batch))
        kind, chunk = draw.choice(KINDS), log_uniform(draw, 16, 8192)
        chunks = tuple(min(length, chunk) for length in lengths)
        mixed = tuple(new if draw.random() < 0.3 else 1 for new in chunks)
        q_heads, kv_heads = draw.choice(HEADS)
        case = Case(
            f"{seed}.{len(cases)} {kind}",
            lengths,
            q_heads=q_heads,
            kv_heads=kv_heads,
            head_dim=draw.choice((64, 128)),
            block_size=draw.choice((16, 32)),
            queries={"prompts": lengths, "chunks": chunks, "mixed": mixed}[kind],
        )
        if FEWEST <= case.flops <= MOST and case.bytes <= LARGEST and not case.is_decode:
            cases.append(case)
    return cases


def measure_prefills(seed: str, count: int, device, runs: int) -> list[dict]:
    """Each of the random cases: ours and the peers; on a CPU small versions of them. Prints a line a case."""
    from pagedkv.bench.peers import PEERS, ours, sdpa
    from pagedkv.bench.run import measure_case

    gpu = device.type == "cuda"
    everyone = {report.OURS: ours("triton")} | PEERS if gpu else {report.OURS: ours("torch"), report.SDPA: sdpa}
    records = []
    for case in random_prefills(seed, count):
        records.append(measure_case(case if gpu else shrunk(case, tokens=64), everyone, device, runs, host=()))
        print(line(records[-1]), flush=True)
    return records


def factors(records: list[dict], peer: str) -> dict[str, float]:
    """That peer's time over ours, by case, where both were timed; above 1 ours is faster."""
    both = [record for record in records if {peer, report.OURS} <= set(record["results"])]
    return {record["case"]: record["results"][peer]["us"] / record["results"][report.OURS]["us"] for record in both}


def summary(records: list[dict]) -> dict:
    """Against each peer, over all shapes and each kind: how often ours is at least `GOOD` of it, and by how much."""
    found = {"cases": len(records), "wrong": [record["case"] for record in records if report.OURS in record["failed"]]}
    for peer in sorted({name for record in records for name in record["results"]} - {report.OURS}):
        for kind in ("", *dict.fromkeys(KINDS)):
            values = [factor for case, factor in factors(records, peer).items() if case.endswith(kind)]
            if values:
                found[f"against {peer}" + f", {kind}" * bool(kind)] = spread(values)
    return found
