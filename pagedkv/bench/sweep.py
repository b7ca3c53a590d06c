"""Random shapes, so that the kernel is not only fast where it was tuned: `python -m pagedkv.bench --sweep SEED`.

A shape: batch 1 to 256, lengths 16 to 131,072, both log-uniform; lengths equal, or ragged, uniform up to the longest or
log-uniform; heads and head_dim of models in use. K and V together take 4 MB to 8 GB.
"""

from collections import Counter
from collections.abc import Collection
from io import BytesIO
from math import exp, log
from random import Random

from pagedkv.bench import report
from pagedkv.bench.cases import Case, shrunk
from pagedkv.files import replace

HEADS = (
    (32, 32), (32, 8), (32, 4), (28, 4), (40, 8), (48, 8), (64, 8), (16, 16), (8, 1), (24, 8), (14, 2),
)  # fmt: skip
SMALLEST, LARGEST = 4 << 20, 8 << 30  # bytes of K and V
KINDS = ("equal", "equal", "ragged", "very ragged")


def random_cases(seed: int | str, count: int = 100, cache: str = "bf16") -> list[Case]:
    """`count` decode cases, the same for a seed every time."""
    draw = Random(f"sweep {seed}")
    cases = []
    while len(cases) < count:
        batch, longest = (log_uniform(draw, *bounds) for bounds in ((1, 256), (16, 131_072)))
        kind = draw.choice(KINDS)
        lengths = {
            "equal": lambda n: n,
            "ragged": lambda n: draw.randint(1, n),
            "very ragged": lambda n: log_uniform(draw, 1, n),
        }
        q_heads, kv_heads = draw.choice(HEADS)
        case = Case(
            f"{seed}.{len(cases)}",
            tuple(lengths[kind](longest) for _ in range(batch)),
            q_heads=q_heads,
            kv_heads=kv_heads,
            head_dim=draw.choice((64, 128)),
            block_size=draw.choice((16, 32)),
            cache=cache,
        )
        if SMALLEST <= case.bytes <= LARGEST:
            cases.append(case)
    return cases


def log_uniform(draw: Random, low: int, high: int) -> int:
    return min(high, int(exp(draw.uniform(log(low), log(high + 1)))))


OURS, NO_PLAN = report.PLANNED, report.OURS
GOOD = 0.97  # of a peer's speed: differences below that are noise


def measure_sweep(seed: str, count: int, device, runs: int, cache: str = "bf16") -> list[dict]:
    """Each of the random cases: ours with a plan, from the host's lengths and from the GPU's, and without; and the
    peers. On a CPU small versions of them, by the torch backend. Prints a line a case.
    """
    from pagedkv.bench.peers import PEERS, ours, planned, sdpa
    from pagedkv.bench.run import measure_case

    gpu = device.type == "cuda"
    everyone = {OURS: planned(True)}
    if gpu:
        everyone |= {"pagedkv, planned on the GPU": planned(False), NO_PLAN: ours("triton")} | PEERS
    else:
        everyone |= {NO_PLAN: ours("torch"), report.SDPA: sdpa}
    records = []
    for case in random_cases(seed, count, cache):
        records.append(measure_case(case if gpu else shrunk(case, tokens=64), everyone, device, runs, host=()))
        print(line(records[-1]), flush=True)
    return records


def peers_of(record: dict, contiguous: bool = False) -> dict[str, float]:
    """µs of those that are not ours; contiguous attention reads no table and counts apart."""
    return {
        name: timing["us"]
        for name, timing in record["results"].items()
        if not name.startswith(NO_PLAN) and (contiguous or name != report.SDPA)
    }


def factors(records: list[dict], contiguous: bool) -> dict[str, float]:
    """The fastest peer's time over ours, by case, where there is a peer; above 1 ours is faster."""
    return {
        record["case"]: min(peers_of(record, contiguous).values()) / record["results"][OURS]["us"]
        for record in records
        if OURS in record["results"] and peers_of(record, contiguous)
    }


def gains(records: list[dict]) -> dict[str, float]:
    """The time without a plan over the time with one, by case."""
    both = [record for record in records if {OURS, NO_PLAN} <= set(record["results"])]
    return {record["case"]: record["results"][NO_PLAN]["us"] / record["results"][OURS]["us"] for record in both}


def regime(record: dict) -> str:
    """How unequal a case's lengths are: very ragged is a longest of over three times their mean."""
    spread = record["longest"] * record["batch"] / record["tokens"]
    return "equal" if spread == 1 else "ragged" if spread <= 3 else "very ragged"


def summary(records: list[dict]) -> dict:
    """How often ours is at least `GOOD` of the fastest peer, over all shapes and by regime, the least factor, and what
    the plan brings; and how often each peer is the fastest.
    """
    paged = factors(records, False)
    regimes = {record["case"]: regime(record) for record in records}
    found = {"cases": len(records), "wrong": [record["case"] for record in records if OURS in record["failed"]]}
    found["fastest peer"] = dict(Counter(min(peers, key=peers.get) for peers in map(peers_of, records) if peers))
    for name, ratios in {
        "against paged peers": paged,
        **{
            f"against paged peers, {kind}": {case: ratio for case, ratio in paged.items() if regimes[case] == kind}
            for kind in dict.fromkeys(KINDS)
        },
        "against all": factors(records, True),
        "against no plan": gains(records),
    }.items():
        if ratios:
            found[name] = spread(ratios.values())
    return found


def spread(ratios: Collection[float]) -> dict:
    """How many there are, how many are `GOOD`, the least, and their geometric mean."""
    good, mean = sum(ratio >= GOOD for ratio in ratios), exp(sum(map(log, ratios)) / len(ratios))
    return {"of": len(ratios), "good": good, "least": min(ratios), "mean": mean}


def line(record: dict) -> str:
    """One case as a row of the table."""
    times = "  ".join(f"{name} {timing['us']:.1f}" for name, timing in record["results"].items())
    wrong = "".join(f"  {name} FAILED: {reason}" for name, reason in record["failed"].items())
    return f"{record['case']:>8}  {record['shape']:<48}  {times}{wrong}"


def draw(records: list[dict], path) -> None:
    """The factors in order, one curve for each kind of peer, as a picture at `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for label, ratios in {
        "fastest paged peer": factors(records, False),
        "contiguous attention too": factors(records, True),
        "the same kernel without a plan": gains(records),
    }.items():
        if ratios:
            axes.plot(sorted(ratios.values()), marker=".", label=label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", xlabel="shapes, in order", ylabel="their time / ours")
    axes.legend()
    drawn = BytesIO()
    figure.savefig(drawn, dpi=150, format="png")
    replace(path, drawn.getvalue())
