"""The rows of a heatmap: which pass, token, bin of time or layer a span belongs to."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.analysis.chunks import chunks
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

RowKind = Literal["token", "pass", "time", "layer"]
ROW_KINDS: tuple[RowKind, ...] = ("token", "pass", "time", "layer")
TIME_BINS = 512
_WIDEST_TABLE = 1 << 24
"""Token numbers of a wider range are searched for instead of looked up."""


@dataclass(frozen=True, slots=True, eq=False)
class HeatRows:
    """Rows from top to bottom.

    Attributes
    ----------
    first : int64[n], what each row begins with: token or layer number, number of the
        pass, or first tick of a bin of time.
    last : int64[n], what it ends with, included; of time the first tick behind it.
    has_rest : whether one more row, the last, holds what has no such number.
    """

    kind: RowKind
    first: I64
    last: I64
    has_rest: bool = False

    def __len__(self) -> int:
        return len(self.first) + self.has_rest

    def joined(self, most: int) -> tuple["HeatRows", I64]:
        """Return at most `most` rows, neighbours put together, and each one's new row.

        The rest stays a row of its own.
        """
        n, room = len(self.first), max(most - self.has_rest, 1)
        each = max(-(-n // room), 1)
        new = np.arange(n, dtype=np.int64) // each
        head = np.arange(0, n, each)
        tail = np.minimum(head + each, n) - 1
        rows = HeatRows(self.kind, self.first[head], self.last[tail], self.has_rest)
        rest = [len(head)] if self.has_rest else []
        return rows, np.append(new, rest).astype(np.int64)


class RowFinder:
    """Finds the rows of spans, a piece at a time.

    Parameters
    ----------
    time : for kind "time", what the bins share evenly; the whole trace where None.
    token : for kind "token", numbers of spans in place of those of the trace.

    Attributes
    ----------
    rows : all rows. For "layer" each access has its own, see `layer_rows`.
    """

    def __init__(
        self,
        trace: Trace,
        kind: RowKind,
        time: TimeRange | None = None,
        *,
        token: Array | None = None,
    ) -> None:
        self._trace, self._kind = trace, kind
        self._token = trace.spans.token if token is None else token
        self._table: Array | None = None
        self._low = 0
        if kind == "time":
            self._values = _time_edges(time or _whole(trace))
            self.rows = HeatRows("time", self._values[:-1], self._values[1:])
        elif kind == "pass":
            self._values = pass_starts(trace)
            numbers = np.arange(len(self._values), dtype=np.int64)
            self.rows = HeatRows("pass", numbers, numbers, has_rest=True)
        elif kind == "token":
            self._values = _numbers(self._token)
            self.rows = HeatRows("token", self._values, self._values, has_rest=True)
            self._make_table()
        else:
            self._values = _layers(trace)
            self.rows = HeatRows("layer", self._values, self._values, has_rest=True)

    def of_spans(self, piece: slice) -> I64:
        """Return the row of each span; -1 where it lies outside the time asked for."""
        if self._kind == "token":
            return self._of_tokens(piece)
        if self._kind == "layer":
            return np.zeros(piece.stop - piece.start, np.int64)
        row = interval_of(self._values, self._trace.spans.start[piece])
        if self._kind == "time":
            return np.where(row < len(self.rows), row, -1)
        return np.where(row < 0, len(self._values), row)

    def of_loose(self) -> I64:
        """Return the row of each loose access, as `of_spans`."""
        loose = self._trace.accesses.loose
        if self._kind == "layer":
            return np.zeros(len(loose), np.int64)
        if self._kind == "token":
            return _position(self._values, loose.token.astype(np.int64))
        row = np.searchsorted(self._values, loose.time, "right") - 1
        if self._kind == "time":
            return np.where(row < len(self.rows), row, -1)
        return np.where(row < 0, len(self._values), row)

    def layer_rows(self, layer: Array) -> I64:
        """Return the row of each layer number."""
        return _position(self._values, layer.astype(np.int64))

    def _make_table(self) -> None:
        """Prepare to look rows up by token number where they are not too far apart."""
        if not len(self._values):
            return
        low, high = int(self._values[0]), int(self._values[-1])
        if high - low >= _WIDEST_TABLE:
            return
        table = np.full(high - low + 2, len(self._values), np.int64)
        table[self._values - low] = np.arange(len(self._values))
        self._table, self._low = table, low

    def _of_tokens(self, piece: slice) -> I64:
        token = self._token
        if token is None or not len(self._values):
            return np.zeros(piece.stop - piece.start, np.int64)
        part = token[piece]
        if self._table is None:
            return _position(self._values, part.astype(np.int64))
        # A token of -1 finds the last place of the table: "no token".
        at = np.where(part < 0, len(self._table) - 1, part.astype(np.int64) - self._low)
        return np.asarray(self._table[at], np.int64)


def pass_starts(trace: Trace) -> I64:
    """Return where each pass begins, ascending ticks: the spans on token lanes."""
    lanes = np.flatnonzero(trace.lanes.of_kind(LaneKind.TOKEN))
    if not len(lanes):
        return np.zeros(0, np.int64)
    spans, found = trace.spans, []
    for piece in chunks(len(spans)):
        lane = spans.lane[piece]
        hit = lane == lanes[0] if len(lanes) == 1 else np.isin(lane, lanes)
        found.append(spans.start[piece][hit])
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def natural_rows(trace: Trace) -> RowKind:
    """Return the rows that tell most at first: tokens, else passes, else time.

    Some writers number all tokens 0; passes are told apart by what they run.

    Notes
    -----
    Looks at no more spans than it must: a few milliseconds for 10 million.
    """
    if _has_several(trace.spans.token):
        return "token"
    return "pass" if len(pass_starts(trace)) > 1 else "time"


def _has_several(column: Array | None) -> bool:
    """Tell whether a column has two different numbers >= 0."""
    if column is None:
        return False
    known = -1
    for piece in chunks(len(column)):
        part = column[piece]
        if int(part.min()) < 0:
            part = part[part >= 0]
        if not len(part):
            continue
        low, high = int(part.min()), int(part.max())
        if low != high or low != (low if known < 0 else known):
            return True
        known = low
    return False


def interval_of(starts: I64, values: I64) -> I64:
    """Return the last of the ascending `starts` that is <= each value; -1 before all.

    Quick where the values ascend too, as the spans of a lane do.
    """
    if len(values) > len(starts) and bool((values[1:] >= values[:-1]).all()):
        cuts = np.searchsorted(values, starts, "left")
        counts = np.diff(np.concatenate([[0], cuts, [len(values)]]))
        return np.repeat(np.arange(-1, len(starts), dtype=np.int64), counts)
    return np.asarray(np.searchsorted(starts, values, "right") - 1, np.int64)


def _position(values: I64, wanted: I64) -> I64:
    """Return the place of each wanted number in `values`; their count where absent."""
    if not len(values):
        return np.zeros(len(wanted), np.int64)
    at = np.searchsorted(values, wanted)
    inside = np.minimum(at, len(values) - 1)
    return np.where(values[inside] == wanted, inside, len(values)).astype(np.int64)


def _whole(trace: Trace) -> TimeRange:
    """Return the extent with the tick at its end: spans may begin there."""
    return TimeRange(trace.extent.start, trace.extent.end + 1)


def _time_edges(time: TimeRange) -> I64:
    """Return the edges of at most TIME_BINS bins of at least one tick."""
    n = max(min(TIME_BINS, time.duration), 1)
    steps = [time.start + time.duration * i // n for i in range(n)]
    return np.array([*steps, max(time.end, time.start + 1)], np.int64)


def _numbers(column: Array | None) -> I64:
    """Return the numbers >= 0 of a column, ascending."""
    if column is None:
        return np.zeros(0, np.int64)
    found = []
    for piece in chunks(len(column)):
        part = column[piece]
        low, high = int(part.min(initial=0)), int(part.max(initial=-1))
        if high - low < _WIDEST_TABLE:
            seen = np.flatnonzero(np.bincount(part[part >= 0], minlength=1))
        else:
            seen = np.unique(part)
        found.append(seen.astype(np.int64))
    values = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
    return values[values >= 0]


def _layers(trace: Trace) -> I64:
    """Return every layer number of a tensor or an access, ascending."""
    columns = [
        trace.tensors.layer,
        trace.accesses.patterns.layer,
        trace.accesses.loose.what.layer,
    ]
    values = np.unique(np.concatenate([np.asarray(c, np.int64) for c in columns]))
    return values[values >= 0]


__all__ = [
    "ROW_KINDS",
    "TIME_BINS",
    "HeatRows",
    "RowFinder",
    "RowKind",
    "interval_of",
    "natural_rows",
    "pass_starts",
]
