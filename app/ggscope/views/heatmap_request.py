"""What a file heatmap is asked for, and its computation. No widgets here."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.file_map import FileMap, file_map
from ggscope.analysis.heatmap import HeatBase, Mask, Metric, heat_base
from ggscope.analysis.heatmap_axis import AxisKind
from ggscope.analysis.heatmap_rows import RowKind
from ggscope.analysis.workers import Watcher
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.render.colormap import DEFAULT, ScaleKind


@dataclass(frozen=True, slots=True)
class HeatLook:
    """What a person chose in the head of the view."""

    rows: RowKind = "token"
    axis: AxisKind = "offset"
    metric: Metric = "bytes"
    scale: ScaleKind = ScaleKind.LOG
    colors: str = DEFAULT


@dataclass(frozen=True, slots=True, eq=False)
class HeatRequest:
    """Computes the base of a heatmap; runs on a worker.

    Attributes
    ----------
    files : of the trace, where known already.
    time : for rows of kind "time".
    metric : whose table is made at once, so that the first picture is quick.
    """

    trace: Trace
    rows: RowKind
    metric: Metric = "bytes"
    files: FileMap | None = None
    mask: Mask | None = None
    time: TimeRange | None = None

    def __call__(self, context: Watcher | None = None) -> HeatBase:
        """Return the base. Raises Cancelled from the context."""
        files = file_map(self.trace) if self.files is None else self.files
        base = heat_base(
            self.trace, self.rows, files=files, mask=self.mask, time=self.time,
            watcher=context,
        )  # fmt: skip
        base.total_grid(self.metric)
        base.total_grid("count")
        if context is not None:  # a place to stop
            context.progress(len(self.trace.spans), len(self.trace.spans))
        # The tables of all rows are made here, not by the first picture.
        base.grid(np.array([0, len(base.rows)], np.int64), self.metric)
        return base


__all__ = ["HeatLook", "HeatRequest"]
