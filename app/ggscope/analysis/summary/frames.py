"""In which frames the samples of a profile are."""

from dataclasses import dataclass

from ggscope.analysis.statistics.table import StatTable
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True)
class FrameShare:
    """What samples in a frame itself weigh, in ticks, and as a share of all."""

    name: str
    own: int
    share: float


def frame_shares(trace: Trace, ops: StatTable) -> tuple[FrameShare, ...] | None:
    """Return the frames of a profile, the heaviest first; None for other traces.

    A profile has spans on lanes of stacks alone. What a frame calls does not count.

    Parameters
    ----------
    ops : of the trace, by op.
    """
    spans = trace.spans
    if not len(spans) or not trace.lanes.is_stacks[spans.lane].all():
        return None
    own = {row.key: row.self_time for row in ops.rows if row.timed}
    whole = sum(ticks or 0 for ticks in own.values())
    frames = [
        FrameShare(name, ticks or 0, (ticks or 0) / whole if whole else 0.0)
        for name, ticks in own.items()
        if ticks
    ]
    return tuple(sorted(frames, key=lambda frame: (-frame.own, frame.name)))
