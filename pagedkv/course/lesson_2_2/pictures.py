"""The figures of the chapter: for each, the picture and the words for those who cannot see it, from the same numbers.

`FIGURES` maps a file name to a function that returns (canvas, alt). `python -m pagedkv.course.figures` writes them all.
"""

from collections.abc import Callable

from pagedkv.block_pool import BlockPool
from pagedkv.block_table import BlockTable
from pagedkv.course.draw.arena import fragmented_arena
from pagedkv.course.draw.canvas import Canvas
from pagedkv.course.draw.snapshot import side_by_side
from pagedkv.course.lesson_2_1.reservation import life_of_a_reservation, pool_of_reservations
from pagedkv.course.lesson_2_2.published import PUBLISHED, published_and_measured
from pagedkv.course.lesson_2_3.pictures import logical_to_physical
from pagedkv.course.lesson_3_1.pictures import address_path
from pagedkv.simulation.arena import Arena
from pagedkv.simulation.experiment import CAPACITY, POLICIES
from pagedkv.simulation.simulator import simulate
from pagedkv.simulation.workload import sample_requests
from pagedkv.sizing import MODELS


def reservation() -> tuple[Canvas, str]:
    """Figure 1: the KV memory of OPT-13B on a 40 GB GPU under max-length reservation, with lengths drawn from ShareGPT's."""
    capacity, max_seq_len = MODELS["opt-13b"].tokens_in(12 * 2**30), 2048
    requests = sample_requests("paper-sharegpt", capacity // max_seq_len, seed=577)
    lengths = [(request.prompt_tokens, request.output_tokens) for request in requests]
    prompt, output = lengths[3]
    alt = (
        f"Figure 1: a pool of {capacity:,} slots as one strip: {len(lengths)} requests each hold {max_seq_len:,} slots in a row, most "
        f"of them never used, and {capacity - max_seq_len * len(lengths):,} slots at the end are too few for another. Enlarged below, "
        f"request 3: {prompt} slots of prompt, {output} of output, {max_seq_len - prompt - output:,} never used."
    )
    return pool_of_reservations(capacity, max_seq_len, lengths, zoom=3), alt


def internal_fragmentation() -> tuple[Canvas, str]:
    """Figure 2: 200 tokens in a reservation of 2048."""
    prompt, output, max_seq_len = 60, 140, 2048
    idle = max_seq_len - prompt - output
    alt = (
        f"Figure 2: one reservation of {max_seq_len:,} slots at three moments. After the prompt {prompt} slots hold tokens and {output} "
        f"are reserved for later; half-way {prompt + output // 2} hold tokens; at the end {prompt + output} do. At all three, {idle:,} "
        f"slots, {100 * idle / max_seq_len:.1f} %, are internal waste that no token will ever fill."
    )
    return life_of_a_reservation(prompt, output, max_seq_len), alt


def external_fragmentation() -> tuple[Canvas, str]:
    """Figure 3: ten requests fill an arena, five leave, and an eleventh finds no hole. Sizes are those of the chapter, in MiB."""
    per_slot = MODELS["llama-2-7b"].bytes_per_token
    megabytes = [768, 512, 1024, 256, 512, 1024, 1280, 768, 512, 1024]
    wanted = 1536 * 2**20 // per_slot
    arena = Arena(sum(megabytes) * 2**20 // per_slot)
    extents = {request: arena.allocate(size * 2**20 // per_slot) for request, size in enumerate(megabytes)}
    for request in (1, 3, 5, 7, 9):
        arena.free(extents.pop(request))

    def size(slots: int) -> str:
        mib = slots * per_slot / 2**20
        return f"{mib:.0f} MiB" if mib <= 1024 else f"{mib / 1024:.2f} GiB"

    holes = ", ".join(size(hole.size) for hole in arena.holes())
    alt = (
        f"Figure 3: an arena in which five requests alternate with five holes of {holes}. The next request needs {size(wanted)} in one "
        f"piece. Each hole is too small, although together they are {size(arena.total_free)}."
    )
    return fragmented_arena(arena, extents, wanted, size), alt


def mapping() -> tuple[Canvas, str]:
    """Figure 4: two sequences, their block tables, and one pool."""
    tables = {"A": [6, 1, 4], "B": [2, 7]}
    words = {"A": "a long text can grow where there is room left".split(), "B": "any free block will do".split()}
    sequences = {f"request {name}, {len(words[name])} tokens": (words[name], table) for name, table in tables.items()}
    alt = (
        f"Figure 4: two requests, cut into logical blocks of 4 tokens in reading order, and a pool of 9 physical blocks. The block "
        f"table of request A leads its blocks 0, 1, 2 to the physical blocks {', '.join(map(str, tables['A']))}; that of request B its "
        f"blocks 0, 1 to {', '.join(map(str, tables['B']))}. Only the last block of each request is partly empty."
    )
    return logical_to_physical(sequences, block_size=4, num_blocks=9), alt


def address() -> tuple[Canvas, str]:
    """Figure 5: 50 tokens in the blocks 12, 7, 42 and 3, and the way of token 37."""
    pool, position = BlockPool(64), 37
    pool.allocate(64)
    pool.free([3, 42, 7, 12])  # the last one freed is the first to be reused
    table = BlockTable(pool)
    table.append(50)
    logical, offset, block, slot = table.translate(position)
    alt = (
        f"Figure 5: {table.num_tokens} tokens are {len(table.blocks)} logical blocks of {pool.block_size}; the block table leads them to "
        f"the physical blocks {', '.join(map(str, table.blocks))} of a pool of {pool.num_blocks}. Token {position} is offset {offset} of "
        f"logical block {logical}, so in physical block {block}, in slot {block} × {pool.block_size} + {offset} = {slot}."
    )
    return address_path(table, position), alt


def published() -> tuple[Canvas, str]:
    """Figure 2 of the PagedAttention paper, with the means over five seeds of 600 saturated requests each."""
    capacity, num_requests, seeds = CAPACITY, 600, range(5)
    policies = {
        "Orca (Max)": "max length, buddy", "Orca (Pow2)": "power of two, buddy", "Orca (Oracle)": "oracle, buddy", "vLLM": "paged",
    }
    measured = {}
    for name, policy in policies.items():
        samples = [sample_requests("paper-sharegpt", num_requests, seed=seed) for seed in seeds]
        shares = [simulate(requests, POLICIES[policy](capacity), capacity).shares() for requests in samples]
        measured[name] = {state: sum(share[state] for share in shares) / len(shares) for state in shares[0]}
    words = "; ".join(
        f"{name} {', '.join(f'{state} {value} and {100 * measured[name][state]:.1f}' for state, value in bars.items())}"
        for name, bars in PUBLISHED.items()
    ).replace("token_states", "token states")
    alt = f"Published shares of the KV memory in percent next to those measured by simulation, as stacked bars. {words}."
    return published_and_measured(measured), alt


def front() -> tuple[Canvas, str]:
    """The README's picture: one pool, the same requests, with and without paging."""
    capacity, num_requests, step = CAPACITY, 300, 2000
    requests = sample_requests("paper-sharegpt", num_requests)
    policies = {"max-length reservation": "max length, first fit", "paged": "paged"}
    runs = [(name, simulate(requests, POLICIES[policy](capacity), capacity)) for name, policy in policies.items()]
    used = [run.token_states[run.step.searchsorted(step)] / capacity for _, run in runs]
    ends = [run.num_steps for _, run in runs]
    alt = (
        f"The same {num_requests} requests in the same {capacity:,} slots, at step {step:,}. With max-length reservation {used[0]:.0%} "
        f"of the slots hold tokens and the last request is done at step {ends[0]:,}; with paging {used[1]:.0%} do and it is done at step "
        f"{ends[1]:,}."
    )
    return side_by_side(runs, step)[0], alt


FIGURES: dict[str, Callable[[], tuple[Canvas, str]]] = {
    "figure_1": reservation,
    "figure_2": internal_fragmentation,
    "figure_3": external_fragmentation,
    "figure_4": mapping,
    "figure_5": address,
    "published": published,
    "front": front,
}
