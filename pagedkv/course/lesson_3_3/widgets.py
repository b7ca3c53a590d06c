"""The widget of lesson 3.3: sequences that share a prompt."""

from pagedkv.block_pool import BlockPool
from pagedkv.course.draw import style, widget
from pagedkv.course.lesson_3_3 import pictures
from pagedkv.simulation.sharing import PUBLISHED, SharedRequest
from pagedkv.sizing import BLOCK_SIZE

KINDS = {"parallel sampling": 0.0} | {f"beams, {chance:.0%} replaced a step": chance for chance in (0.02, 0.1, 0.5)}


def grown(num_sequences: int, prompt_tokens: int, generated: int, kind: str) -> SharedRequest:
    pool = BlockPool(2 * num_sequences * ((prompt_tokens + generated) // BLOCK_SIZE + 2), BLOCK_SIZE)
    request = SharedRequest(pool, prompt_tokens, num_sequences, KINDS[kind])
    for _ in range(generated):
        request.step()
    return request


def sharing_svg(
    num_sequences: int = 4, prompt_tokens: int = 40, generated: int = 60, kind: str = "parallel sampling"
) -> str:
    """The tables after `generated` steps, and the blocks saved beside the published averages, as an SVG."""
    request = grown(num_sequences, prompt_tokens, generated, kind)
    pool = request.tables[0].pool
    used, unshared = pool.num_blocks - pool.num_free, sum(len(table.blocks) for table in request.tables)
    search = "parallel sampling" if kind == "parallel sampling" else "beam search"
    alone = style.counted(unshared, "block")
    facts = [f"{alone} without sharing, {used} with: {1 - used / unshared:.1%} saved at this moment"]
    for name, words in (("paper-alpaca", "Alpaca's short texts"), ("paper-sharegpt", "ShareGPT's longer texts")):
        if num_sequences in PUBLISHED[name, search]:
            percent = PUBLISHED[name, search][num_sequences]
            facts.append(f"published for {num_sequences} sequences, averaged over runs on {words}: {percent} %")
    title = f"{num_sequences} × {kind}: prompt of {prompt_tokens}, {generated} tokens generated"
    canvas, alt = pictures.shared_tables(title, request.tables, facts)
    return canvas.svg(alt)


def sharing():
    """Samples or beams over one prompt, and the blocks that they take with and without sharing."""
    return widget.explore(
        sharing_svg,
        num_sequences=widget.slider("Sequences", 4, 1, 6),
        prompt_tokens=widget.slider("Prompt tokens", 40, 1, 160),
        generated=widget.slider("Tokens generated", 60, 0, 160),
        kind=widget.choice("Kind", list(KINDS), "parallel sampling"),
    )
