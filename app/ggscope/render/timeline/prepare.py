"""Computes what the timeline is drawn from, before it is drawn.

For a large trace this runs on a worker; with very many lanes, only for those in view.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.busy_threads import busy_lane, thread_lanes
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import (
    FEW_LANES,
    LaneLayout,
    LaneState,
    default_collapsed,
    lay_out,
)
from ggscope.analysis.rows.tracks import BUSY_THREADS
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.selection import ColorBy
from ggscope.model.tables import I64
from ggscope.render.colors import lut
from ggscope.render.theme import Theme

FEW_SPANS = 4096
"""A lane of so many spans is prepared when it comes into view, within a frame."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What the picture is drawn from: everything costly is computed already.

    Attributes
    ----------
    waiting : keys of lanes of many spans that were not in view; they are not drawn
        before they have been prepared.
    """

    index: TraceIndex
    layout: LaneLayout
    lane_state: LaneState
    color_by: ColorBy
    mask: Mask | None
    mask_token: object
    waiting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class PrepareRequest:
    """Computes rows and colourings of the open lanes, on a worker.

    With very many open lanes, only of those in view; other lanes of few spans are
    prepared when they come into view.

    Attributes
    ----------
    theme : whose colours are made ready as well: a lane each may have one of its own.
    view : top and bottom of what is in view or soon will be, pixels of the lane area.
    """

    index: TraceIndex
    lane_state: LaneState
    color_by: ColorBy
    mask: Mask | None
    mask_token: object
    theme: Theme | None = None
    view: tuple[float, float] = (0.0, 2_000.0)

    def __call__(self, context: Watcher | None = None) -> Prepared:
        """Return what the request asks for; Cancelled passes through."""
        lanes = self.index.lanes
        shown = self._shown()
        if self.theme is not None:
            lut(self.index.categories(self.color_by), self.theme)
        waiting: I64 = shown[:0]
        n_rows = np.ones(len(lanes), np.int64)
        if is_many := len(shown) > FEW_LANES:
            n_rows = self.index.row_counts().astype(np.int64)
            layout = lay_out(lanes, n_rows, self.lane_state)
            near = [
                box.lane.key for box in layout.boxes_between(*self.view) if box.lane
            ]
            near += [box.lane.key for box in layout.fixed if box.lane]
            costly = self._costly(shown)
            positions = lanes.positions(near)
            if BUSY_THREADS in near:
                positions = np.union1d(positions, thread_lanes(self.index))
            shown = costly[np.isin(costly, positions)]
            waiting = np.setdiff1d(costly, shown)

        def prepare(_: int, part: slice) -> None:
            for at in shown[part].tolist():
                n_rows[at] = self.prepare_lane(lanes.keys[at])

        if context is None or self.index.grows:
            # A small trace, or what is new of a large one: less than threads cost.
            prepare(0, slice(None))
        else:
            context.progress(0, len(shown))
            self.index.categories(self.color_by)
            share_out(prepare, chunks(len(shown), 1), context)
        if not is_many:
            layout = lay_out(lanes, n_rows, self.lane_state)
        token = None if self.mask is None else self.mask_token
        # What a click would have to make: with very many lanes it takes a while.
        layout.box_of("")
        if len(self.index.trace.spans):
            self.index.lane_of_span(0)
        return Prepared(
            self.index,
            layout,
            self.lane_state,
            self.color_by,
            self.mask,
            self.mask_token,
            frozenset(
                key
                for key in map(lanes.keys.__getitem__, waiting.tolist())
                if not self.index.has_columns(key, self.color_by, token)
            ),
        )

    def _shown(self) -> I64:
        """Return the lanes of spans that are neither hidden nor in a closed group."""
        lanes, state = self.index.lanes, self.lane_state
        closed = (
            default_collapsed(lanes) if state.collapsed is None else state.collapsed
        )
        is_closed = np.array([title in closed for title in lanes.groups], np.bool_)
        is_shown = ~is_closed[lanes.group]
        is_shown[lanes.positions(state.pinned)] = True
        is_shown[lanes.positions(tuple(state.hidden))] = False
        if (busy := busy_lane(self.index)) >= 0 and is_shown[busy]:
            is_shown[thread_lanes(self.index)] = True  # it counts hidden ones, too
        return np.flatnonzero(is_shown & lanes.has_rows)

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

    def prepare_lane(self, key: str) -> int:
        """Have the index make what a lane is drawn from; return its rows."""
        index, by = self.index, self.color_by
        n_rows = len(index.row_columns(key, by))
        index.busy_share(key)
        index.overlay_rows(key)
        if self.mask is not None:
            index.filtered_columns(key, by, self.mask, self.mask_token)
        return n_rows
