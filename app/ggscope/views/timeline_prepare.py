"""What the timeline's picture is drawn from, computed ahead of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.analysis.index import TraceIndex
from ggscope.analysis.layout import (
    FEW_LANES,
    LaneLayout,
    LaneState,
    default_collapsed,
    lay_out,
)
from ggscope.analysis.workers import share_out
from ggscope.model.selection import ColorBy
from ggscope.model.tables import I64
from ggscope.render.palette import lut
from ggscope.render.theme import Theme
from ggscope.session.tasks import TaskContext

FEW_SPANS = 4096
"""A lane of so many spans is prepared when it comes into view, within a frame."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What the picture is drawn from: everything costly is computed already."""

    index: TraceIndex
    layout: LaneLayout
    lane_state: LaneState
    color_by: ColorBy
    mask: Mask | None
    mask_token: object


@dataclass(frozen=True, slots=True, eq=False)
class PrepareRequest:
    """Computes rows and colourings of the open lanes, on a worker.

    Where very many lanes are open, those of few spans are left to the moment when
    they come into view.
    """

    index: TraceIndex
    lane_state: LaneState
    color_by: ColorBy
    mask: Mask | None
    mask_token: object
    theme: Theme | None = None
    """Whose colours are made ready as well: a lane each may have one of its own."""

    def __call__(self, context: TaskContext | None = None) -> Prepared:
        """Return what the request asks for; Cancelled passes through."""
        lanes = self.index.lanes
        state = self.lane_state
        closed = (
            default_collapsed(lanes) if state.collapsed is None else state.collapsed
        )
        is_closed = np.array([title in closed for title in lanes.groups], np.bool_)
        is_shown = ~is_closed[lanes.group]
        is_shown[lanes.positions(state.pinned)] = True
        is_shown[lanes.positions(tuple(state.hidden))] = False
        shown = np.flatnonzero(is_shown & ~lanes.is_counter)
        if self.theme is not None:
            lut(self.index.categories(self.color_by), self.theme)
        n_rows = np.ones(len(lanes), np.int64)
        if len(shown) > FEW_LANES:
            n_rows = self.index.row_counts().astype(np.int64)
            shown = self._costly(shown)

        def prepare(_: int, part: slice) -> None:
            for at in shown[part].tolist():
                n_rows[at] = self._prepare_lane(lanes.keys[at])

        if context is None:  # a small trace, on the thread of the window
            prepare(0, slice(None))
        else:
            context.check_cancelled()
            self.index.categories(self.color_by)
            share_out(prepare, chunks(len(shown), 1), context)
        layout = lay_out(lanes, n_rows, state)
        # What a click would have to make: with very many lanes it takes a while.
        layout.box_of("")
        if len(self.index.trace.spans):
            self.index.lane_of_span(0)
        return Prepared(
            self.index,
            layout,
            state,
            self.color_by,
            self.mask,
            self.mask_token,
        )

    def _costly(self, shown: I64) -> I64:
        """Return the lanes of many spans, and the first one of each kind.

        With that one comes what the index makes once for all lanes of the kind.
        """
        lanes = self.index.lanes
        # Lanes of the trace, of layers and of ops: each kind has a group of its own.
        kinds = np.where(lanes.lane_id[shown] >= 0, -1, lanes.group[shown])
        _, first = np.unique(kinds, return_index=True)
        is_costly = lanes.n_spans[shown] > FEW_SPANS
        is_costly[first] = True
        return shown[is_costly]

    def _prepare_lane(self, key: str) -> int:
        """Have the index make what a lane is drawn from; return its rows."""
        index, by = self.index, self.color_by
        n_rows = len(index.row_columns(key, by))
        index.busy_share(key)
        index.overlay_rows(key)
        if self.mask is not None:
            index.filtered_columns(key, by, self.mask, self.mask_token)
        return n_rows
