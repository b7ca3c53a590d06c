"""A window of attention: what it has left behind, and what it still needs of a pool.

Every layer of the model sees `size` tokens, the current one included. A block that stands wholly before the window of
the next token is read by no coming one, so its sequence gives it back, and may become longer than the pool. Layers with
and without a window would need a table for each kind; here all are of one kind. A victim that computes its tokens again
needs them from the first on, since what a layer stores depends on all before.
"""

from pagedkv.arguments import whole_number
from pagedkv.block_pool import BlockPool
from pagedkv.engine.request import Generation
from pagedkv.sizing import ceil_div


class Window:
    """A window of `size` tokens over sequences in `pool`.

    `budget` is how many tokens a step may run: with the window before the first of them, they touch as many blocks as
    the pool has.
    """

    def __init__(self, size: int, pool: BlockPool):
        self.size, self.block_size = whole_number("window", size, 1), pool.block_size
        self.budget = (pool.num_blocks - 1) * pool.block_size - self.size + 2

    @classmethod
    def of(cls, size: int | None, pool: BlockPool) -> "Window | None":
        """None without a size, and where the window is as long as the pool: then nothing that it leaves behind makes
        room for what comes. Raises TypeError or ValueError for a size that is no whole number of at least 1.
        """
        window = None if size is None else cls(size, pool)
        return window if window and window.budget > 0 else None

    def blocks(self, num_tokens: int) -> int:
        """The most that `num_tokens` tokens and the window before the first of them touch."""
        return ceil_div(self.size + num_tokens - 2, self.block_size) + 1

    def drop(self, request: Generation) -> None:
        """Give back what the window of the next token to run has left behind."""
        request.table.drop_before(max(request.table.num_tokens - self.size + 1, 0))
