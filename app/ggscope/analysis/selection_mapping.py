"""Finds what is selected of one snapshot of a file in the next.

Spans by their record number, tensors by name, buffers by address. Snapshots of one
file share their strings.
"""

import numpy as np

from ggscope.model.selection import Gap, Selection
from ggscope.model.tables import Array
from ggscope.model.trace import Trace

MAX_SPANS = 1000
_BLOCK = 1 << 20


def reselected(selection: Selection, old: Trace, new: Trace) -> Selection:
    """Return what `selection` of `old` is in `new`; what is not found is left out.

    While spans are still being read their ids may change; the record of the file
    that a span was made of does not. Without record numbers ids are taken to stay.

    Notes
    -----
    At most `MAX_SPANS` spans are looked for. Costs one comparison per span where
    ids have stayed, else one pass over the record column.
    """
    if not selection:
        return selection
    if selection.table == "markers":
        # Markers come in the order of the file: those that are known stay.
        ids = tuple(i for i in selection.ids if i < len(new.markers))
        return Selection("markers", ids) if ids else Selection()
    if selection.gap is not None:
        gap = selection.gap
        around = _same_spans((gap.before, gap.after), old, new)
        if len(around) < 2:
            return Selection()
        return Selection("gaps", around[:1], gap=Gap(gap.time, *around))
    if selection.table not in ("spans", "waits"):
        return _reselected_thing(selection, old, new)
    ids = _same_spans(selection.ids, old, new)
    return Selection(selection.table, ids) if ids else Selection()


def _same_spans(ids: tuple[int, ...], old: Trace, new: Trace) -> tuple[int, ...]:
    """Return what spans of `old` are in `new`, without those that are not found."""
    if old.spans.record is None or new.spans.record is None:
        return tuple(i for i in ids if i < len(new.spans))
    known = [i for i in ids[:MAX_SPANS] if i < len(old.spans)]
    records = [int(old.spans.record[i]) for i in known]
    spans = _spans_of(records, known, new.spans.record)
    # Only of spans that were made of a record of the file.
    return tuple(spans[record] for record in records if record >= 0 and record in spans)


def _reselected_thing(selection: Selection, old: Trace, new: Trace) -> Selection:
    """Return tensors, buffers, nodes or experts by what they are called in `new`."""
    table, ids = selection.table, selection.ids[:MAX_SPANS]
    if table in ("experts", "groups"):
        return selection
    if table == "tensors":
        rows = _same_names(old.tensors.name, new.tensors.name, ids)
    elif table == "buffers":
        rows = _same_names(old.buffers.address, new.buffers.address, ids)
    elif table == "nodes":
        before, after = _node_names(old), _node_names(new)
        rows = tuple(
            i for i in ids if i < min(len(before), len(after)) and before[i] == after[i]
        )
    else:
        rows = ()
    return Selection(table, rows) if rows else Selection()


def _same_names(before: Array, after: Array, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return where the values of rows of `before` are in `after`.

    The same row where it has that value, else the first that does.
    """
    same: list[int] = []
    for row in rows:
        if row >= len(before):
            continue
        if row < len(after) and after[row] == before[row]:
            same.append(row)
            continue
        hits = np.flatnonzero(after == before[row])
        same += hits[:1].tolist()
    return tuple(dict.fromkeys(same))


def _node_names(trace: Trace) -> Array:
    return np.concatenate([np.zeros(0, np.int32), *(g.name for g in trace.graphs)])


def _spans_of(records: list[int], guesses: list[int], column: Array) -> dict[int, int]:
    """Return record -> first span id, for the records that `column` has."""
    spans = {
        record: guess
        for record, guess in zip(records, guesses, strict=True)
        if guess < len(column) and int(column[guess]) == record
    }
    missing = np.array(sorted(set(records) - spans.keys()), np.int64)
    for first in range(0, len(column), _BLOCK):
        if not len(missing):
            break
        part = np.asarray(column[first : first + _BLOCK], np.int64)
        rows = np.flatnonzero(np.isin(part, missing))
        for row in rows[::-1].tolist():  # the first of a record wins
            spans[int(part[row])] = first + row
        missing = np.setdiff1d(missing, part[rows])
    return spans
