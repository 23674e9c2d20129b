"""Spans to light up on the timeline, found quickly lane by lane."""

from dataclasses import dataclass, field

import numpy as np

from ggscope.analysis.layout import TimelineLane
from ggscope.model.tables import I64, Array, Spans

SortedSpans = tuple[I64, I64, I64, int]
"""Ids, starts and ends by start, and the longest of them."""


@dataclass(frozen=True, slots=True, eq=False)
class LitSpans:
    """Spans to light up, and which lane shows which; made once per selection.

    Attributes
    ----------
    ids : int64[n], span ids, ascending.
    looked_at : the one of them that stands out, -1 none.
    """

    ids: I64
    looked_at: int = -1
    _of_lane: dict[str, SortedSpans] = field(default_factory=dict)

    def on(self, spans: Spans, lane: TimelineLane) -> SortedSpans:
        """Return those that lie on a lane of the timeline, in order of their start."""
        known = self._of_lane.get(lane.key)
        if known is not None:
            return known
        ids = self.ids[self.ids < len(spans)]
        if lane.field:
            column: Array | None = getattr(spans, lane.field)
            own = ids[:0] if column is None else ids[column[ids] == lane.value]
        else:
            own = ids[np.isin(spans.lane[ids], (*lane.lane_ids, *lane.overlay))]
        own = own[np.argsort(spans.start[own], kind="stable")]
        start, end = spans.start[own], spans.end[own]
        longest = int((end - start).max(initial=0))
        self._of_lane[lane.key] = (own, start, end, longest)
        return own, start, end, longest


__all__ = ["LitSpans", "SortedSpans"]
