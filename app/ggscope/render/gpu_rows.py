"""The interface between pictures of rows and the graphics card that draws them."""

from typing import Protocol

from ggscope.analysis.rows.columns import RowColumns
from ggscope.analysis.rows.peaks import RowPeaks
from ggscope.model.tables import Array


class GpuRowSource(Protocol):
    """Draws rows without the processor finding their columns."""

    def hold(
        self, columns: RowColumns, by_id: Array | None, n_categories: int
    ) -> RowPeaks | None:
        """Return the long spans and gaps of a row that can be drawn now, else None.

        `by_id` is the category per span id, None for a row of one hue.
        """
        ...
