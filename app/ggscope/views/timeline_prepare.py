"""What the timeline's picture is drawn from, computed ahead of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.analysis.index import TraceIndex
from ggscope.analysis.layout import LaneLayout, LaneState, default_collapsed, lay_out
from ggscope.analysis.workers import share_out
from ggscope.model.selection import ColorBy
from ggscope.session.tasks import TaskContext

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
    """Computes rows and colourings of the lanes in view, on a worker."""

    index: TraceIndex
    lane_state: LaneState
    color_by: ColorBy
    mask: Mask | None
    mask_token: object

    def __call__(self, context: TaskContext | None = None) -> Prepared:
        """Return what the request asks for; Cancelled passes through."""
        lanes = self.index.lanes
        state = self.lane_state
        closed = (
            default_collapsed(lanes) if state.collapsed is None else state.collapsed
        )
        shown = [
            lane.key
            for lane in lanes
            if lane.key not in state.hidden
            and lane.counter < 0
            and (lane.group not in closed or lane.key in state.pinned)
        ]
        n_rows: dict[str, int] = {}

        def prepare(_: int, part: slice) -> None:
            for key in shown[part]:
                n_rows[key] = self._prepare_lane(key)

        if context is None:  # a small trace, on the thread of the window
            prepare(0, slice(None))
        else:
            context.check_cancelled()
            self.index.categories(self.color_by)
            share_out(prepare, chunks(len(shown), 1), context)
        return Prepared(
            self.index,
            lay_out(lanes, n_rows, state),
            state,
            self.color_by,
            self.mask,
            self.mask_token,
        )

    def _prepare_lane(self, key: str) -> int:
        """Have the index make what a lane is drawn from; return its rows."""
        index, by = self.index, self.color_by
        n_rows = len(index.row_columns(key, by))
        index.busy_share(key)
        index.overlay_rows(key)
        if self.mask is not None:
            index.filtered_columns(key, by, self.mask, self.mask_token)
        return n_rows
