"""What a scan does between the blocks of a text, whatever it reads in them."""

from collections.abc import Callable

from ggscope.readers.api import ReadContext
from ggscope.readers.common.packed_text import TraceText, check_memory
from ggscope.readers.snapshots import SnapshotScheduler

_MEMORY_BLOCKS = 32


class BlockSteps:
    """Says how far a scan is, publishes early pictures, and watches memory.

    Parameters
    ----------
    size : bytes of the file.
    publish : called for an early picture; None = there are none.
    is_first_shown : whether the first block is one.
    """

    def __init__(
        self,
        text: TraceText,
        context: ReadContext,
        size: int,
        publish: Callable[[], None] | None,
        *,
        is_first_shown: bool = True,
    ) -> None:
        self._text, self._context, self._size = text, context, size
        self._publish, self._is_first_shown = publish, is_first_shown
        self._pace = SnapshotScheduler.of_blocks()
        self._n_blocks = 0

    def begin(self) -> None:
        """Say how far it is, before a block."""
        self._context.progress(self._text.packed_at, self._size)

    def end(self, *, has_rows: bool = True) -> None:
        """Go on behind a block; `has_rows`: there is something for a picture."""
        self._n_blocks += 1
        if self._publish is not None and has_rows:
            done = self._text.packed_at
            is_first = self._is_first_shown and self._n_blocks == 1
            if is_first or self._pace.is_due(done, self._size):
                self._pace.timed(self._publish, done)
        if self._n_blocks % _MEMORY_BLOCKS == 0:
            check_memory()
