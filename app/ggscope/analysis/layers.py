"""Time of the ops of each layer, in all of a trace or a range of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.byte_ranges import Mask
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.workers import CHUNK_ROWS, Watcher, chunks
from ggscope.model.tables import I64, Table
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class LayerActivity(Table):
    """How long ops of each layer ran, summed over threads.

    Attributes
    ----------
    layer : int64[n], ascending, all that a span of the trace has; without -1.
    ticks : int64[n], within `time`; of estimated times too. -1 not known.
    time : the range; None = all of the trace.
    """

    layer: I64
    ticks: I64
    time: TimeRange | None

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Part of the busiest layer's time, float64[n]; NaN where it is not known."""
        known = np.where(self.ticks < 0, np.nan, self.ticks).astype(np.float64)
        return known / max(float(self.ticks.max(initial=0)), 1.0)


def layer_activity(
    trace: Trace,
    time: TimeRange | None = None,
    mask: Mask | None = None,
    watcher: Watcher | None = None,
) -> LayerActivity:
    """Return how long ops of each layer ran in a range; see `LayerActivity`."""
    layers = _layers(trace)
    ticks = np.zeros(len(layers), np.int64)
    table = stat_table(
        trace, "layer", mask=mask, time=time, include_estimated=True, watcher=watcher
    )
    of_key = {str(layer): i for i, layer in enumerate(layers.tolist())}
    for row in table.rows:
        at = of_key.get(row.key)
        if at is not None:
            value = row.total if time is None else row.in_range
            is_known = value is not None and value == value
            ticks[at] = round(value) if is_known and value is not None else -1
    return LayerActivity(layers, ticks, time)


def _layers(trace: Trace) -> I64:
    """Return the layers of all spans, ascending."""
    column = trace.spans.layer
    if column is None:
        return np.zeros(0, np.int64)
    parts = [np.unique(column[chunk]) for chunk in chunks(len(column), CHUNK_ROWS)]
    layers = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))
    return layers[layers >= 0].astype(np.int64)
