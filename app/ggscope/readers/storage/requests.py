"""From lines to requests: what was issued and what completed it, where it was read."""

import re
from dataclasses import dataclass

import numpy as np

from ggscope.model.storage import IoKind, IoLevel
from ggscope.model.tables import I32, I64, U8, Array, Bools, Table, ranked, stacked
from ggscope.readers.common.interval_pairing import match
from ggscope.readers.storage.lines import Form, IoLines, Layout

_NO_FILE = re.compile(
    r"(pipe|socket|anon_inode|[A-Z][A-Za-z0-9-]*|net):\[|^/dev/(pts|tty)"
)
"""What file descriptors are that strace names and that are no files."""
_MAX_PROCESSES = 4096
_BCC_NS, _BPFTRACE_NS = 10_000, 1_000_000
"""What durations of biosnoop are rounded to."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests(Table):
    """Requests of a file, in no order.

    Attributes
    ----------
    start, end : int64[n], ns of the file's clock.
    is_open : bool[n], whether the end is not known.
    queued : int64[n], ns, -1 unknown.
    kind, level : uint8[n].
    size, place, offset : int64[n], bytes, sector, bytes in the file; -1 unknown.
    device : int64[n], as `IoLines.handle`, or place in `device_names`; -1 none.
    path, name : int32[n] into the texts of the lines, -1 none.
    pid : int32[n].
    thread : int64[n], the thread of a call; -1 none.
    is_failed : bool[n].
    row : int64[n], its line.
    """

    start: I64
    end: I64
    is_open: Bools
    queued: I64
    kind: U8
    level: U8
    size: I64
    place: I64
    offset: I64
    device: I64
    path: I32
    name: I32
    pid: I32
    is_failed: Bools
    row: I64


@dataclass(slots=True)
class Notes:
    """What did not come out even.

    Attributes
    ----------
    n_open : requests that were issued and whose end is not in the file.
    n_unissued : ends of requests whose begin is not in the file.
    n_partial : requests that completed with another size.
    n_failed : requests or calls that failed.
    n_unplaced : reads of which the offset is not known.
    n_no_files : reads of pipes, sockets and terminals, which are left out.
    is_queue : whether requests count from the queue, as their issue is not recorded.
    """

    n_open: int = 0
    n_unissued: int = 0
    n_partial: int = 0
    n_failed: int = 0
    n_unplaced: int = 0
    n_no_files: int = 0
    is_queue: bool = False


def requests_of(lines: IoLines, layout: Layout, time: I64) -> tuple[Requests, Notes]:
    """Return the requests of a file of any form.

    Parameters
    ----------
    time : int64[n], ns of each line on one clock.
    """
    notes = Notes()
    parts = [
        _of_blkparse(lines, time, notes),
        _of_biosnoop(lines, layout, time),
        _of_files(lines, time),
        _of_faults(lines, time, notes),
        _of_calls(lines, time, notes),
    ]
    return stacked(*([part for part in parts if len(part)] or parts[:1])), notes


def remaps(lines: IoLines) -> tuple[tuple[int, int], ...]:
    """Return device and first sector of each partition that remapped requests state."""
    rows = np.flatnonzero((lines.form == Form.BLKPARSE) & (lines.action == ord("A")))
    pairs = zip(
        lines.handle[rows].tolist(),
        (lines.place[rows] - lines.extra[rows]).tolist(),
        strict=True,
    )
    return tuple(dict.fromkeys(pairs))


def _rows(lines: IoLines, rows: I64, time: I64, level: IoLevel) -> dict[str, Array]:
    """Return the columns of requests that are a line each and have no end."""
    n = len(rows)
    none = np.full(n, -1, np.int64)
    return {
        "start": time[rows],
        "end": time[rows],
        "is_open": np.ones(n, np.bool_),
        "queued": none,
        "kind": lines.kind[rows],
        "level": np.full(n, level, np.uint8),
        "size": none,
        "place": none,
        "offset": none,
        "device": none,
        "path": lines.path[rows],
        "name": lines.name[rows],
        "pid": lines.pid[rows],
        "is_failed": np.zeros(n, np.bool_),
        "row": rows,
    }


# -- requests of devices ---------------------------------------------------------


def _of_blkparse(lines: IoLines, time: I64, notes: Notes) -> Requests:
    """Pair issues and completions by device and sector, the last issue first."""
    of_form = np.flatnonzero(lines.form == Form.BLKPARSE)
    of_form = of_form[np.argsort(time[of_form], kind="stable")]
    action = lines.action[of_form]
    has_issues = bool((action == ord("D")).any())
    begin = ord("D") if has_issues else ord("Q")
    notes.is_queue = not has_issues and bool((action == begin).any())
    rows = of_form[np.isin(action, (begin, ord("C"), ord("R")))]
    begins = lines.action[rows] == begin
    partner = _partners(lines, rows, begins)
    other = rows[np.maximum(partner, 0)]
    is_requeued = begins & (partner >= 0) & (lines.action[other] == ord("R"))
    at = np.flatnonzero(begins & ~is_requeued)
    issued, is_open = rows[at], partner[at] < 0
    done = np.where(is_open, issued, other[at])
    columns = _rows(lines, issued, time, IoLevel.DEVICE)
    failed = ~is_open & (lines.phase[done] == ord("F"))
    columns |= {
        "end": np.maximum(time[done], time[issued]),
        "is_open": is_open,
        "size": lines.size[issued],
        "place": lines.place[issued],
        "device": lines.handle[issued],
        "path": np.full(len(issued), -1, np.int32),
        "is_failed": failed,
    }
    if has_issues:
        _from_queue(lines, of_form, issued, time, columns)
    ends = ~begins & (lines.action[rows] == ord("C"))
    notes.n_open += int(np.count_nonzero(is_open))
    notes.n_unissued += int(np.count_nonzero(ends & (partner < 0)))
    notes.n_failed += int(np.count_nonzero(failed))
    differs = lines.size[done] != lines.size[issued]
    notes.n_partial += int(np.count_nonzero(differs & ~is_open))
    return Requests(**columns)


def _partners(lines: IoLines, rows: I64, begins: Bools) -> I64:
    """Return which end belongs to which begin, places in `rows`; -1 none.

    They have device and sector in common, and the size where there is such a pair: two
    requests of one sector may be on their way at once.
    """
    _, _, device = ranked(lines.handle[rows])
    _, _, sector = ranked(lines.place[rows])
    _, _, size = ranked(lines.size[rows])
    where = sector.astype(np.int64) * (int(device.max(initial=0)) + 1) + device
    _, _, where = ranked(where)
    sized = where.astype(np.int64) * (int(size.max(initial=0)) + 1) + size
    partner, _ = match(sized, begins)
    rest = np.flatnonzero(partner < 0)
    other, _ = match(where[rest], begins[rest])
    partner[rest] = np.where(other >= 0, rest[np.maximum(other, 0)], -1)
    return partner


def _from_queue(
    lines: IoLines, of_form: I64, issued: I64, time: I64, columns: dict[str, Array]
) -> None:
    """Take time in the queue and the process from the line that queued a request.

    A request that was merged out of several is queued where its first sector was.
    """
    rows = of_form[np.isin(lines.action[of_form], (ord("Q"), ord("D")))]
    begins = lines.action[rows] == ord("Q")
    partner = _partners(lines, rows, begins)
    of_row = np.full(len(lines), -1, np.int64)
    has = ~begins & (partner >= 0)
    of_row[rows[has]] = rows[partner[has]]
    queue = of_row[issued]
    known = queue >= 0
    at = np.maximum(queue, 0)
    columns["queued"] = np.where(known, np.maximum(time[issued] - time[at], 0), -1)
    columns["name"] = np.where(known, lines.name[at], columns["name"])
    columns["pid"] = np.where(known, lines.pid[at], columns["pid"])


def _of_biosnoop(lines: IoLines, layout: Layout, time: I64) -> Requests:
    """Return a request per line, which is written when it ends."""
    rows = np.flatnonzero(lines.form == Form.BIOSNOOP)
    columns = _rows(lines, rows, time, IoLevel.DEVICE)
    took = lines.extra[rows]
    is_open = took < 0
    columns |= {
        "start": time[rows] - np.maximum(took, 0),
        "is_open": is_open,
        "queued": lines.handle[rows],
        "size": lines.size[rows],
        "place": lines.place[rows],
    }
    return Requests(**columns)


def resolution_of(lines: IoLines, layout: Layout) -> int:
    """Return the ns that durations of the file are rounded to."""
    if not lines.forms[Form.BIOSNOOP]:
        return 1
    return _BPFTRACE_NS if layout.is_coarse else _BCC_NS


# -- events of files, page faults ------------------------------------------------


def _of_files(lines: IoLines, time: I64) -> Requests:
    rows = np.flatnonzero(lines.form == Form.FATRACE)
    return Requests(**_rows(lines, rows, time, IoLevel.FILE))


def _of_faults(lines: IoLines, time: I64, notes: Notes) -> Requests:
    """Return the page faults; offsets follow from where files were mapped."""
    is_fault = lines.action == ord("F")
    rows = np.flatnonzero(is_fault)
    columns = _rows(lines, rows, time, IoLevel.FAULT)
    is_stated = lines.form[rows] == Form.FAULT_TRACE
    offset = np.where(is_stated, lines.place[rows], -1)
    path = columns["path"].copy()
    maps = np.flatnonzero(
        (lines.action == ord("M")) & (lines.form == Form.FAULT_SCRIPT)
    )
    if len(maps):
        for pid in np.unique(lines.pid[maps]).tolist()[:_MAX_PROCESSES]:
            mine = np.flatnonzero((lines.pid[rows] == pid) & ~is_stated)
            _place_faults(lines, maps[lines.pid[maps] == pid], rows, mine, offset, path)
    columns |= {"offset": offset, "path": path}
    notes.n_unplaced += int(np.count_nonzero(offset < 0))
    return Requests(**columns)


def _place_faults(
    lines: IoLines, maps: I64, rows: I64, mine: I64, offset: I64, path: Array
) -> None:
    """Write offset and file of the faults of a process, by its mappings."""
    order = np.argsort(lines.place[maps], kind="stable")
    maps = maps[order]
    begins = lines.place[maps]
    # Of mappings at one address the later one.
    is_last = np.append(begins[1:] != begins[:-1], True)
    maps, begins = maps[is_last], begins[is_last]
    address = lines.place[rows[mine]]
    at = np.searchsorted(begins, address, "right") - 1
    of = maps[np.maximum(at, 0)]
    inside = (at >= 0) & (address >= 0) & (address < begins[at] + lines.size[of])
    stated = path[mine]
    inside &= (stated < 0) | (stated == lines.path[of])
    hit = mine[inside]
    offset[hit] = (address - lines.place[of] + lines.extra[of])[inside]
    path[hit] = lines.path[of][inside]


# -- calls -----------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Calls:
    """Calls that strace saw, both halves put together, in order of start."""

    start: I64
    end: I64
    is_open: Bools
    action: U8
    handle: I64
    place: I64
    size: I64
    path: I32
    is_failed: Bools
    row: I64


def _of_calls(lines: IoLines, time: I64, notes: Notes) -> Requests:
    """Return reads and mappings of files, with where in the file they read."""
    calls = _calls(lines, time, notes)
    path, position = _files(calls)
    is_read = (calls.action == ord("r")) | (calls.action == ord("p"))
    is_map = (calls.action == ord("m")) & (calls.handle >= 0)
    texts = [_NO_FILE.search(text) is not None for text in lines.texts]
    no_file = np.array([*texts, False])[path]
    rows = np.flatnonzero((is_read | is_map) & ~calls.is_failed & (calls.size != 0))
    notes.n_no_files += int(np.count_nonzero(no_file[rows]))
    notes.n_failed += int(np.count_nonzero(calls.is_failed & (is_read | is_map)))
    rows = rows[~no_file[rows]]
    offset = np.where(calls.action == ord("r"), position, calls.place)[rows]
    columns = _rows(lines, calls.row[rows], time, IoLevel.CALL)
    columns |= {
        "start": calls.start[rows],
        "end": calls.end[rows],
        "is_open": calls.is_open[rows],
        "size": calls.size[rows],
        "offset": offset,
        "path": path[rows],
        "kind": np.where(is_map[rows], IoKind.MAP, IoKind.READ).astype(np.uint8),
    }
    notes.n_unplaced += int(np.count_nonzero(offset < 0))
    return Requests(**columns)


def _calls(lines: IoLines, time: I64, notes: Notes) -> _Calls:
    """Put both halves of calls together; those of one half stay as they are."""
    rows = np.flatnonzero((lines.form == Form.STRACE) & (lines.action != ord("x")))
    phase = lines.phase[rows]
    begins = phase == ord("B")
    ends = (phase == ord("E")) | (phase == ord("e"))
    halves = np.flatnonzero(begins | ends)
    partner = np.full(len(rows), -1, np.int64)
    key = lines.pid[rows[halves]].astype(np.int64) * 256 + lines.action[rows[halves]]
    other, _ = match(key, begins[halves])
    partner[halves] = np.where(other >= 0, halves[np.maximum(other, 0)], -1)
    notes.n_open += int(np.count_nonzero(begins & (partner < 0)))
    notes.n_unissued += int(np.count_nonzero(ends & (partner < 0)))
    at = np.flatnonzero(~ends)
    first = rows[at]
    last = np.where(partner[at] >= 0, rows[np.maximum(partner[at], 0)], first)

    def either(name: str) -> Array:
        column = getattr(lines, name)
        return np.asarray(np.where(column[last] >= 0, column[last], column[first]))

    took = lines.extra[last]
    is_half = begins[at] & (last == first)
    end = np.where(last != first, np.maximum(time[last], time[first]), time[first])
    end = np.where(took >= 0, time[first] + took, end)
    phase = lines.phase[last]
    return _Calls(
        start=time[first],
        end=end,
        is_open=is_half | ((took < 0) & (last == first)),
        action=lines.action[first],
        handle=either("handle"),
        place=either("place"),
        size=either("size"),
        path=either("path"),
        is_failed=(phase == ord("f")) | (phase == ord("e")),
        row=first,
    )


def _files(calls: _Calls) -> tuple[I32, I64]:
    """Return the path of each call's file, and where a plain read of it begins.

    A file descriptor is the file that was opened last as it; all threads share them.
    A plain read goes on where the last one ended, or where the file was sought to.
    """
    n = len(calls.row)
    order = np.lexsort((np.arange(n), calls.handle))
    handle, action = calls.handle[order], calls.action[order]
    failed = calls.is_failed[order]
    opens = (action == ord("o")) & ~failed & (handle >= 0)
    seeks = (action == ord("l")) & ~failed & (calls.place[order] >= 0)
    number = np.arange(n)
    is_first = np.ones(n, np.bool_)
    is_first[1:] = handle[1:] != handle[:-1]
    group = np.maximum.accumulate(np.where(is_first, number, 0))
    opened = np.maximum.accumulate(np.where(opens, number, -1))
    of_open = np.where((opened >= group) & (handle >= 0), opened, -1)
    own = calls.path[order]
    named = np.where(of_open >= 0, own[np.maximum(of_open, 0)], -1)
    path = np.full(n, -1, np.int32)
    path[order] = np.where(own >= 0, own, named)
    moves = np.where((action == ord("r")) & ~failed, calls.size[order], 0)
    moves = np.maximum(moves, 0)
    before = np.cumsum(moves) - moves
    reset = np.maximum.accumulate(np.where(opens | seeks, number, -1))
    is_known = (reset >= group) & (handle >= 0)
    at = np.maximum(reset, 0)
    base = np.where(seeks[at], calls.place[order][at], 0) - (before + moves)[at]
    position = np.full(n, -1, np.int64)
    position[order] = np.where(is_known, base + before, -1)
    return path, position
