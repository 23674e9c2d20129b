"""What the timeline's picture is drawn from, computed ahead of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.index import TraceIndex
from ggscope.analysis.layout import LaneLayout, LaneState, default_collapsed, lay_out
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
        n_rows: dict[str, int] = {}
        for lane in lanes:
            if context is not None:
                context.check_cancelled()
            if lane.key in state.hidden or lane.counter >= 0:
                continue
            if lane.group in closed and lane.key not in state.pinned:
                continue
            n_rows[lane.key] = len(self.index.row_columns(lane.key, self.color_by))
            self.index.busy_share(lane.key)
            self.index.overlay_rows(lane.key)
            if self.mask is not None:
                self.index.filtered_columns(
                    lane.key, self.color_by, self.mask, self.mask_token
                )
        return Prepared(
            self.index,
            lay_out(lanes, n_rows, state),
            state,
            self.color_by,
            self.mask,
            self.mask_token,
        )
