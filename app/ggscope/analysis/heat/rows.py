"""The two axes of a heatmap of the model file.

Down: which pass, token, bin of time or layer a span belongs to. Across: offsets, or
every unit equally wide.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.analysis.heat.file_map import FileMap
from ggscope.analysis.workers import Watcher, chunks
from ggscope.model.tables import I64, Array, distinct
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

RowKind = Literal["token", "pass", "time", "layer"]
TIME_BINS = 512
NEVER = (1 << 63) - 1
_WIDEST_TABLE = 1 << 24
"""Token numbers of a wider range are searched for instead of looked up."""
AxisKind = Literal["offset", "equal"]
UNIT_WIDTH = 1 << 20
"""Positions per unit on the equal axis: enough for any zoom into one."""
_MIN_BYTES = 16
_MIN_POSITIONS = 256


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

    def joined(self, limit: int) -> tuple["HeatRows", I64]:
        """Return at most `limit` rows, neighbours put together, and each one's new row.

        The rest stays a row of its own.
        """
        n, n_available = len(self.first), max(limit - self.has_rest, 1)
        each = max(-(-n // n_available), 1)
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

    def of_spans(self, chunk: slice) -> I64:
        """Return the row of each span; -1 where it lies outside the time asked for."""
        if self._kind == "token":
            return self._of_tokens(chunk)
        if self._kind == "layer":
            return np.zeros(chunk.stop - chunk.start, np.int64)
        row = interval_of(self._values, self._trace.spans.start[chunk])
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

    def _of_tokens(self, chunk: slice) -> I64:
        token = self._token
        if token is None or not len(self._values):
            return np.zeros(chunk.stop - chunk.start, np.int64)
        part = token[chunk]
        if self._table is None:
            return _position(self._values, part.astype(np.int64))
        # A token of -1 finds the last place of the table: "no token".
        at = np.where(part < 0, len(self._table) - 1, part.astype(np.int64) - self._low)
        return np.asarray(self._table[at], np.int64)


def row_begins(
    trace: Trace, rows: HeatRows, watcher: Watcher | None = None
) -> I64 | None:
    """Return when the first span of each row begins, int64[n]; None for layers.

    Of rows without a span, and of that without a number, it is the largest of numbers.
    """
    if rows.kind == "layer":
        return None
    begins = np.full(len(rows), NEVER, np.int64)
    if rows.kind == "time":
        begins[: len(rows.first)] = rows.first
    elif rows.kind == "pass":
        begins[: len(rows.first)] = pass_starts(trace)[rows.first]
    elif trace.spans.token is not None and len(rows.first):
        for chunk in chunks(len(trace.spans)):
            if watcher is not None:
                watcher.progress(chunk.start, len(trace.spans))
            token = trace.spans.token[chunk].astype(np.int64)
            at = np.searchsorted(rows.first, token, "right") - 1
            inside = at >= 0
            np.minimum.at(begins, at[inside], trace.spans.start[chunk][inside])
    return begins


def pass_starts(trace: Trace) -> I64:
    """Return where each pass begins, ascending ticks: the spans on token lanes."""
    lanes = np.flatnonzero(trace.lanes.is_token)
    if not len(lanes):
        return np.zeros(0, np.int64)
    spans, starts = trace.spans, []
    for chunk in chunks(len(spans)):
        lane = spans.lane[chunk]
        hit = lane == lanes[0] if len(lanes) == 1 else np.isin(lane, lanes)
        starts.append(spans.start[chunk][hit])
    return np.unique(np.concatenate(starts)) if starts else np.zeros(0, np.int64)


def natural_rows(trace: Trace) -> RowKind:
    """Return the most informative rows to begin with: tokens, else passes, else time.

    Some writers number all tokens 0; passes are distinguished by what they run.

    Notes
    -----
    Looks at no more spans than it must: a few milliseconds for 10 million.
    """
    if _has_several(trace.spans.token):
        return "token"
    return "pass" if len(pass_starts(trace)) > 1 else "time"


def _has_several(column: Array | None) -> bool:
    """Return whether a column has two different numbers >= 0."""
    if column is None:
        return False
    known = -1
    for chunk in chunks(len(column)):
        part = column[chunk]
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


def _position(values: I64, keys: I64) -> I64:
    """Return the place of each number in `values`; their count where absent."""
    if not len(values):
        return np.zeros(len(keys), np.int64)
    at = np.searchsorted(values, keys)
    inside = np.minimum(at, len(values) - 1)
    return np.where(values[inside] == keys, inside, len(values)).astype(np.int64)


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
    labels = []
    for chunk in chunks(len(column)):
        part = column[chunk]
        low, high = int(part.min(initial=0)), int(part.max(initial=-1))
        if high - low < _WIDEST_TABLE:
            seen = np.flatnonzero(np.bincount(part[part >= 0], minlength=1))
        else:
            seen = distinct(part)
        labels.append(seen.astype(np.int64))
    values = distinct(np.concatenate(labels)) if labels else np.zeros(0, np.int64)
    return values[values >= 0]


def _layers(trace: Trace) -> I64:
    """Return every layer number of a tensor or an access, ascending."""
    columns = [
        trace.tensors.layer,
        trace.accesses.patterns.layer,
        trace.accesses.loose.what.layer,
    ]
    values = distinct(np.concatenate([np.asarray(c, np.int64) for c in columns]))
    return values[values >= 0]


@dataclass(frozen=True, slots=True, eq=False)
class HeatAxis:
    """Maps positions along x (int64 from 0) to offsets in the file and back.

    On the "offset" axis both are the same. On the "equal" one unit u takes
    ``[u * UNIT_WIDTH, (u + 1) * UNIT_WIDTH)``; what lies between units has no width.
    """

    files: FileMap
    kind: AxisKind = "offset"

    @property
    def extent(self) -> int:
        """Positions in all, >= 1."""
        if self.kind == "equal":
            return max(len(self.files) * UNIT_WIDTH, 1)
        return max(self.files.extent, 1)

    @property
    def min_extent(self) -> int:
        """Fewest positions that a view shows."""
        min_extent = _MIN_BYTES if self.kind == "offset" else _MIN_POSITIONS
        return min(min_extent, self.extent)

    def offsets(self, positions: I64) -> I64:
        """Return the offset at each position; monotone, from 0 to the extent.

        The last position stands for the end of the file, so that the cells of a
        whole view hold what lies behind the last unit, too.
        """
        at = np.clip(np.asarray(positions, np.int64), 0, self.extent)
        if self.kind == "offset" or not len(self.files):
            return np.minimum(at, self.files.extent)
        unit, part = np.divmod(at, UNIT_WIDTH)
        inside = np.minimum(unit, len(self.files) - 1)
        size = self.files.size[inside]
        whole, rest = np.divmod(size, UNIT_WIDTH)
        offsets = self.files.offset[inside] + whole * part + rest * part // UNIT_WIDTH
        offsets = np.where(at <= 0, 0, offsets)
        return np.where(at >= self.extent, self.files.extent, offsets)

    def positions(self, offsets: I64) -> I64:
        """Return the position of each offset; of one between units the next unit's."""
        at = np.clip(np.asarray(offsets, np.int64), 0, self.files.extent)
        if self.kind == "offset" or not len(self.files):
            return at
        unit = np.searchsorted(self.files.offset, at, "right") - 1
        inside = np.maximum(unit, 0)
        size = self.files.size[inside]
        away = at - self.files.offset[inside]
        share = np.minimum(away, size).astype(np.float64) / size
        part = np.rint(share * UNIT_WIDTH).astype(np.int64)
        return np.where(unit < 0, 0, inside * UNIT_WIDTH + part)

    def offset(self, position: int) -> int:
        """Return the offset at one position."""
        return int(self.offsets(np.array([position], np.int64))[0])

    def position(self, offset: int) -> int:
        """Return the position of one offset."""
        return int(self.positions(np.array([offset], np.int64))[0])

    def unit_at(self, position: int) -> int:
        """Return the unit at a position; -1 for none."""
        if not 0 <= position < self.extent:
            return -1
        if self.kind == "equal":
            return position // UNIT_WIDTH if len(self.files) else -1
        return self.files.unit_at(position)

    def unit_positions(self) -> tuple[I64, I64]:
        """Return where each unit begins and ends along x, int64[n_units]."""
        if self.kind == "equal":
            begin = np.arange(len(self.files), dtype=np.int64) * UNIT_WIDTH
            return begin, begin + UNIT_WIDTH
        return self.files.offset, self.files.offset + self.files.size

    def clamped(self, begin: int, stop: int) -> tuple[int, int]:
        """Return a view of the same width, or as wide as there is, inside the file."""
        width = min(max(stop - begin, self.min_extent), self.extent)
        begin = min(max(begin, 0), self.extent - width)
        return begin, begin + width

    def zoomed(self, begin: int, stop: int, factor: float, at: int) -> tuple[int, int]:
        """Return the view `factor` times as wide, with `at` where it was."""
        width = max(stop - begin, 1)
        new = min(max(round(width * factor), self.min_extent), self.extent)
        left = at - (at - begin) * new // width
        return self.clamped(left, left + new)
