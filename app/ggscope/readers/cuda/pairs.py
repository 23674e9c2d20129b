"""Which end belongs to which begin, and which thread an event is of."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Array, ranked
from ggscope.readers.common.interval_pairing import match, neighbours
from ggscope.readers.cuda.lines import UNKNOWN, CallLines

_FEW = 64
"""Numbers that spread over so many times their count are taken as they are."""
_BEGIN, _END, _WHOLE = ord("B"), ord("E"), ord("X")


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Events put together.

    Attributes
    ----------
    begin, end : int64[m], events of the calls of which both are there.
    whole : int64[k], events that are a call by themselves.
    open : int64[p], begins without an end; `next` : int64[p], the next event of the
        same thread at the same depth, -1 none.
    orphan : int64[q], ends without a begin.
    thread : int64[n], a number for process and thread of each event.
    threads : (process, thread) of each number, `UNKNOWN` where events do not say.
    """

    begin: I64
    end: I64
    whole: I64
    open: I64
    next: I64
    orphan: I64
    thread: I64
    threads: tuple[tuple[int, int], ...]


def pairs_of(lines: CallLines) -> Pairs:
    """Return which events belong together, in the order of the file.

    Ends of call hooks belong to the begin with their op_id; others, also those of
    ``strace``, to the last open begin of their thread with their name.
    """
    threads, thread = _threads(lines)
    is_begin = lines.phase == _BEGIN
    rows = np.flatnonzero(is_begin | (lines.phase == _END)).astype(np.int64)
    key = _keys(lines, rows, thread[rows])
    partner, _ = match(key, is_begin[rows])
    begins = is_begin[rows]
    paired = np.flatnonzero(begins & (partner >= 0))
    open_ = rows[begins & (partner < 0)]
    return Pairs(
        begin=rows[paired],
        end=rows[partner[paired]],
        whole=np.flatnonzero(lines.phase == _WHOLE).astype(np.int64),
        open=open_,
        next=_next_of(lines, open_, thread),
        orphan=rows[~begins & (partner < 0)],
        thread=thread,
        threads=threads,
    )


def _codes(values: Array) -> tuple[I64, int]:
    """Return small numbers that differ where the values do, and what they are below.

    0 stands for `UNKNOWN`.
    """
    is_known = values != UNKNOWN
    known = values[is_known] if not is_known.all() else values
    if not len(known):
        return np.zeros(len(values), np.int64), 1
    low, high = int(known.min()), int(known.max())
    if high - low < _FEW * len(values):
        return np.where(is_known, values - low + 1, 0), high - low + 2
    _, _, place = ranked(values)
    return place + 1, len(values) + 1


def _threads(lines: CallLines) -> tuple[tuple[tuple[int, int], ...], I64]:
    """Return process and thread of each number, and the number of each event."""
    pid, _ = _codes(lines.pid)
    tid, n = _codes(lines.tid)
    _, first, thread = ranked(pid * n + tid)
    pids, tids = lines.pid[first].tolist(), lines.tid[first].tolist()
    return tuple(zip(pids, tids, strict=True)), thread


def _keys(lines: CallLines, rows: I64, thread: I64) -> I64:
    """Return a number for what begin and end have in common."""
    has_id = lines.id[rows] != UNKNOWN
    process, _ = _codes(lines.pid[rows])
    # Events without names go by kind: 1 begins what 2 ends, and 6 what 7 ends.
    kind = (lines.kind[rows] >= 6).astype(np.int64)
    name = np.where(lines.name[rows] >= 0, lines.name[rows].astype(np.int64) + 2, kind)
    what, n = _codes(np.where(has_id, lines.id[rows], name))
    who = np.where(has_id, process * 2, thread * 2 + 1)
    return who * n + what


def _next_of(lines: CallLines, rows: I64, thread: I64) -> I64:
    """Return the next event of a thread at the same depth, -1 none."""
    if not len(rows):
        return rows
    place = thread * (1 << 16) + lines.depth + 1
    _, behind = neighbours(place)
    next_rows: I64 = behind[rows]
    return next_rows
