"""What a window has set in a view, as JSON for the command line, and back.

An option is a keyword argument of what makes the figure of a view, by its name.
"""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, get_args

from ggscope.analysis.rows.lane_state import read_lane_state
from ggscope.errors import ExportError
from ggscope.model.selection import MarkedRange, Selection, TableName
from ggscope.model.units import TimeRange

Notes = tuple[tuple[str, TimeRange], ...]
_LONGEST = 10_000


def read_options(
    make: Callable[..., object], given: Mapping[str, object], view: str
) -> dict[str, Any]:
    """Return the options of a figure from parsed JSON.

    Raises
    ------
    ExportError
        If the view has no such option, or it cannot have this value.
    """
    takes = signature(make).parameters
    known = sorted(
        name
        for name, parameter in takes.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in _NO_OPTIONS
    )
    found = {}
    for name, value in given.items():
        if name not in known:
            listed = ", ".join(known)
            raise ExportError(f"{view} has no option {name!r}. Options: {listed}.")
        try:
            found[name] = _READ.get(name, _plain)(value)
        except (TypeError, ValueError, KeyError) as error:
            raise ExportError(
                f"{view}: the option {name!r} cannot be {value!r}."
            ) from error
    return found


def time_option(time: TimeRange) -> list[int]:
    """Return a range as JSON takes it: both ends in ticks."""
    return [time.start, time.end]


def _time(value: Any) -> TimeRange:
    start, end = value
    return TimeRange(int(start), int(end))


def _selection(value: Any) -> Selection:
    if value["table"] not in get_args(TableName) or len(value["ids"]) > _LONGEST:
        raise ValueError(value)
    return Selection(value["table"], tuple(int(i) for i in value["ids"]))


def selection_option(selection: Selection) -> dict[str, object] | None:
    """Return a selection as JSON takes it.

    None where it is empty or too long, or a row of statistics.
    """
    if not selection or selection.group or len(selection.ids) > _LONGEST // 10:
        return None
    return {"table": selection.table, "ids": list(selection.ids)}


def _marked(value: Any) -> MarkedRange:
    lanes = value.get("lanes")
    return MarkedRange(
        _time(value["time"]), None if lanes is None else frozenset(map(str, lanes))
    )


def marked_option(marked: MarkedRange) -> dict[str, object]:
    """Return a marked range as JSON takes it."""
    found: dict[str, object] = {"time": time_option(marked.time)}
    if marked.lanes is not None:
        found["lanes"] = sorted(marked.lanes)
    return found


def _notes(value: Any) -> Notes:
    if len(value) > _LONGEST:
        raise ValueError
    return tuple((str(name), _time(time)) for name, time in value)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return tuple(_plain(part) for part in value)
    if isinstance(value, dict):
        raise TypeError(value)
    return value


_NO_OPTIONS = ("mask", "look", "paths")
_READ: dict[str, Callable[[Any], object]] = {
    "state": read_lane_state,
    "selection": _selection,
    "marked": _marked,
    "notes": _notes,
    "visible": _time,
}
